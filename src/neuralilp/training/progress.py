"""How a run shows its progress: a live bar on a terminal, else a line a validation."""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from neuralilp.training.plan import Standing


@runtime_checkable
class Report(Protocol):
    """Is told where a run stands: now and then between steps, after each validation, and at last that it is over."""

    def tick(self, standing: Standing) -> None: ...

    def validated(self, standing: Standing) -> None: ...

    def close(self) -> None: ...


def progress(console: Console | None = None) -> Report:
    """The report that suits the console, by default standard output."""
    console = console or Console(highlight=False, soft_wrap=True)
    return Bar(console) if console.is_terminal else Lines(console)


class Silence:
    """Says nothing."""

    def tick(self, standing: Standing) -> None:
        pass

    def validated(self, standing: Standing) -> None:
        pass

    def close(self) -> None:
        pass


class Lines:
    """A line a validation."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def tick(self, standing: Standing) -> None:
        pass

    def validated(self, standing: Standing) -> None:
        self.console.print(f"epoch {standing.epoch:g}: {describe(standing)}, {clock(standing.seconds)}")

    def close(self) -> None:
        pass


class Bar:
    """A bar over the epochs, and beside it what a line would say; nothing of it stays on the screen."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("epoch {task.fields[epoch]}"), BarColumn(), TextColumn("{task.description}"))
        self.bar = Progress(*columns, console=console, transient=True)
        self.task: TaskID | None = None

    def tick(self, standing: Standing) -> None:
        epochs = standing.schedule.epochs
        if self.task is None:
            self.task = self.bar.add_task("", total=epochs, epoch="")
            self.bar.start()
        description = describe(standing)
        left = standing.seconds_left()
        if math.isfinite(left):
            description += f", {clock(left)} left"
        at = f"{min(math.floor(standing.epoch) + 1, epochs)}/{epochs}"
        self.bar.update(self.task, completed=standing.epoch, description=description, epoch=at)

    def validated(self, standing: Standing) -> None:
        self.tick(standing)

    def close(self) -> None:
        self.bar.stop()


def describe(standing: Standing) -> str:
    """The loss and its terms, the temperature, and the monitored figure with its best."""
    parts = [f"{name} {value:.3g}" for name, value in standing.terms.items() if not math.isnan(value)]
    parts.append(f"temperature {standing.temperature:g}")
    if standing.figure is not None:
        best = "none" if standing.best is None else f"{standing.best:.2%}"
        parts.append(f"{standing.monitor.replace('_', ' ')} {standing.figure:.2%} (best {best})")
    return ", ".join(parts)


def clock(seconds: float) -> str:
    """As 12 s, 3:07 or 1:02:03."""
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    if minutes == 0:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
