"""One run under way: the inner loop, and what happens at the end of an epoch."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from neuralilp.annealing import MilestoneTemperature, PlateauTemperature
from neuralilp.errors import InputError
from neuralilp.training.averaging import Average
from neuralilp.training.batches import Batches
from neuralilp.training.curves import TRAIN, VALIDATION
from neuralilp.training.folder import RunFolder
from neuralilp.training.interrupts import Interrupts
from neuralilp.training.means import Means, Summed
from neuralilp.training.plan import Outcome, Schedule, Standing, Stopped
from neuralilp.training.processes import on_rank_zero
from neuralilp.training.progress import Report
from neuralilp.training.state import Randomness, State
from neuralilp.training.validation import Validate, figures_of

SECONDS_BETWEEN_TICKS = 0.5


@dataclasses.dataclass(eq=False)
class Run:
    """A run's parts, put together by :func:`~neuralilp.training.train`, which says what they are."""

    step: nn.Module
    batches: Batches
    make_optimiser: Callable[[nn.Module], Optimizer]
    make_scheduler: Callable[[Optimizer], LRScheduler | None] | None
    temperature: PlateauTemperature | MilestoneTemperature
    validate: Validate
    schedule: Schedule
    folder: RunFolder
    monitor: str
    fabric: Fabric
    randomness: Randomness
    report: Report
    interrupts: Interrupts
    is_bare: bool = False
    """Leave out Fabric's wrappers of step and optimiser, which cost 60 µs a step: for a single process at full
    precision, where they pass everything through."""

    def __post_init__(self) -> None:
        self.state = State()
        self.means = Means()
        self.summed = Summed(self.step)
        module = self.fabric.setup_module(self.summed)
        self.module: nn.Module = self.summed if self.is_bare else module
        over = self.schedule.average_over
        self.average = None if over is None else Average(self.step, over)
        self.began = time.perf_counter()
        self.next_look = self.next_tick = 0.0
        self.next_checkpoint = self.began + self.schedule.checkpoint_every
        self._begin_optimiser()

    def go(self) -> Outcome:
        """From wherever the run is to where it stops."""
        earlier = self._restore()
        if earlier is None:
            self._checkpoint()
            stopped = self._until_stopped()
            if stopped in ("epochs", "time limit") and self.means.count:
                stopped = self._last_look() or stopped
            self._finish(stopped)
        else:
            stopped = earlier
        if self.state.best_steps is not None:
            self.step.load_state_dict(on_rank_zero(self.fabric, self.folder.checkpoints.read_best))
        if self.interrupts.is_set:  # too late to stop this, but for what the caller would do next
            stopped = "interrupted"
        return on_rank_zero(self.fabric, lambda: self.state.outcome(stopped, self.monitor))

    # The loop

    def _until_stopped(self) -> Stopped:
        state = self.state
        while state.epoch < self.schedule.epochs:
            if state.order is None:
                stopped = self._stopped_by_figures()
                if stopped is not None:
                    return stopped
                state.order = torch.randperm(self.batches.size, generator=self.randomness.order)
                state.position = 0
            stopped = self._steps(state.order)
            if stopped is not None:
                return stopped
            figure, is_scheduled = math.nan, (state.epoch + 1) % self.schedule.validate_every == 0
            if is_scheduled:
                looked = self._look(state.epoch + 1)
                if looked is None:
                    return "interrupted"
                figure = looked
            state.epoch += 1
            state.order = None
            self._anneal(figure, is_scheduled)
            if is_scheduled:
                self._checkpoint()
        return self._stopped_by_figures() or "epochs"

    def _stopped_by_figures(self) -> Stopped | None:
        """Whether validations so far end the run, by what a checkpoint holds: a resumed run ends at the same one."""
        state, schedule = self.state, self.schedule
        if schedule.goal is not None and state.best is not None and state.best >= schedule.goal:
            return "goal"
        if schedule.patience is not None and state.waited >= schedule.patience:
            return "patience"
        return None

    def _steps(self, order: Tensor) -> Stopped | None:
        """Steps to the end of the epoch, or until something stops them."""
        state, means, batches, randomness = self.state, self.means, self.batches, self.randomness
        module, summed, fabric = self.module, self.summed, self.fabric
        optimiser, scheduler, average = self.optimiser, self.scheduler, self.average
        backward = Tensor.backward if self.is_bare else fabric.backward
        size, count, temperature = self.schedule.batch_size, len(order), self.temperature.value
        full, is_alone, clip = min(size, count), fabric.world_size == 1, self.schedule.clip_norm
        while state.position < count:
            is_time = not is_alone or self.interrupts.is_set or time.perf_counter() >= self.next_look
            # Not before the last, smaller batch of an epoch: a resumed run would compile its step for that shape.
            if is_time and count - state.position >= full:
                stopped = self._look_at_clock()
                if stopped is not None:
                    return stopped
            rows = order[state.position : state.position + size]
            x, solution, weight = batches.take(rows)
            total, values = module(x, solution, temperature, randomness.draws)
            backward(total if is_alone else total * weight)
            if clip is not None:
                nn.utils.clip_grad_norm_(self.step.parameters(), clip)
            optimiser.step()
            optimiser.zero_grad()
            if average is not None:
                average.update()
            if scheduler is not None:
                scheduler.step()
            means.add(values, weight, summed.names)
            state.steps += 1
            state.position += len(rows)
        return None

    def _look_at_clock(self) -> Stopped | None:
        """Between two steps: stop, write a checkpoint, or report, if it is time; all processes do the same."""
        now = time.perf_counter()
        limit = self.schedule.time_limit
        is_late = limit is not None and self._seconds() + self.state.last_validation_seconds >= limit
        flags = [self.interrupts.is_set, is_late, now >= self.next_checkpoint]
        if self.fabric.world_size > 1:
            own = torch.tensor(flags, dtype=torch.int32, device=self.fabric.device)
            own[1:] *= self.fabric.is_global_zero
            self.fabric.all_reduce(own, reduce_op="sum")  # in place
            flags = [bool(flag) for flag in own.tolist()]
        if flags[0]:
            return "interrupted"
        if flags[1]:
            return "time limit"
        if flags[2]:
            self._checkpoint()
        if now >= self.next_tick:
            epoch = self.state.epoch + self.state.position / self.batches.size
            self.report.tick(self._standing(epoch, self.means.values()))
            self.next_tick = now + SECONDS_BETWEEN_TICKS
        late = math.inf if limit is None else now + limit - self._seconds() - self.state.last_validation_seconds
        self.next_look = min(self.next_tick, self.next_checkpoint, late)
        return None

    # At the end of an epoch

    def _look(self, epoch: int) -> float | None:
        """Validate, and note it: a row, and the weights if they are the best. None when that was interrupted."""
        with contextlib.nullcontext() if self.average is None else self.average.in_place():
            return self._look_at_weights(epoch)

    def _look_at_weights(self, epoch: int) -> float | None:
        state = self.state
        train_seconds = self._seconds() - state.validation_seconds
        before = self.randomness.state()
        began = time.perf_counter()
        figures = on_rank_zero(self.fabric, lambda: figures_of(self.step, self.validate, self.monitor, self.interrupts))
        seconds = time.perf_counter() - began
        if figures is None:
            state.validation_seconds += seconds
            self.randomness.restore(before)
            return None
        state.figure = figures[self.monitor]
        terms = self.means.values(self.fabric)
        row = {
            "epoch": epoch,
            "steps": state.steps,
            "train_seconds": train_seconds,
            "temperature": self.temperature.value,
            "lr": float(self.optimiser.param_groups[0]["lr"]),
            **{TRAIN + name: value for name, value in terms.items()},
            **{VALIDATION + name: value for name, value in figures.items()},
            "validation_seconds": seconds,
        }
        on_rank_zero(self.fabric, lambda: self.folder.curves.append(row))
        state.rows += 1
        self.means.clear()
        past = -math.inf if state.best is None else state.best
        state.waited = 0 if state.figure > past else state.waited + 1
        if state.figure > past or (self.schedule.keep_later and state.figure == state.best):
            state.best, state.best_epoch, state.best_steps = state.figure, epoch, state.steps
            state.best_train_seconds, state.best_figures = train_seconds, figures
            facts = {"epoch": epoch, "monitor": self.monitor, "figures": figures}
            on_rank_zero(
                self.fabric, lambda: self.folder.checkpoints.write_best(self.step.state_dict(), state.steps, facts)
            )
        self.report.validated(self._standing(epoch, terms))
        state.last_validation_seconds = time.perf_counter() - began  # with what was written down about it
        state.validation_seconds += state.last_validation_seconds
        return state.figure

    def _last_look(self) -> Stopped | None:
        """One more validation, of the weights at the end. Of it a run that goes on later knows the best alone."""
        waited = self.state.waited
        if self._look(self.state.epoch) is None:
            return "interrupted"
        self.state.waited = min(waited, self.state.waited)
        return None

    def _anneal(self, figure: float, is_validated: bool) -> None:
        if not is_validated and not isinstance(self.temperature, MilestoneTemperature):
            return
        if self.temperature.step(figure):
            self.state.waited = 0
            if self.schedule.restart_on_drop:
                self._begin_optimiser()

    def _begin_optimiser(self) -> None:
        optimiser = self.make_optimiser(self.step)
        # Any: Fabric's wrapper is of a class made on the spot.
        self.optimiser: Any = optimiser if self.is_bare else self.fabric.setup_optimizers(optimiser)
        self.scheduler = None if self.make_scheduler is None else self.make_scheduler(optimiser)

    # Checkpoints

    def _checkpoint(self) -> None:
        state = self.state
        state.seconds, self.began = self._seconds(), time.perf_counter()
        content = {
            "state": state.to_dict(),
            "means": self.means.state(self.fabric),
            "step": self.step.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "temperature": self.temperature.state_dict(),
            "average": None if self.average is None else self.average.state(),
            "randomness": self.randomness.gathered(self.fabric),
        }
        on_rank_zero(self.fabric, lambda: self.folder.checkpoints.write(content, state.best_steps))
        self.next_checkpoint = time.perf_counter() + self.schedule.checkpoint_every

    def _restore(self) -> Stopped | None:
        """Go back to the last checkpoint, if there is one. Why the run has ended, if it has."""
        content = on_rank_zero(self.fabric, self.folder.checkpoints.read)
        if content is not None:
            try:
                self.state = State(**content["state"])
                self.means.restore(content["means"], self.fabric.device)
                self.step.load_state_dict(content["step"])
                self.optimiser.load_state_dict(content["optimiser"])
                if (self.scheduler is None) != (content["scheduler"] is None):
                    raise ValueError("a scheduler is there in one of the two only")
                if self.scheduler is not None:
                    self.scheduler.load_state_dict(content["scheduler"])
                self.temperature.load_state_dict(content["temperature"])
                if self.average is not None:
                    self.average.restore(content["average"])
                self.randomness.restore([states[self.fabric.global_rank] for states in content["randomness"]])
            except (AttributeError, KeyError, IndexError, RuntimeError, TypeError, ValueError) as error:
                what = " ".join(str(error).split())
                raise InputError(
                    f"step, optimiser, scheduler and temperature must be those of the run to be resumed: {what}"
                ) from None
        state, schedule = self.state, self.schedule
        on_rank_zero(self.fabric, lambda: self.folder.curves.go_back(state.rows, state.steps))
        limit = math.inf if schedule.time_limit is None else schedule.time_limit
        is_over = state.stopped in ("patience", "goal") or state.epoch >= schedule.epochs
        is_over |= state.stopped_by is not None and limit <= state.stopped_by
        if is_over and state.stopped is not None:
            return state.stopped
        state.stopped = state.stopped_by = None
        return None

    def _finish(self, stopped: Stopped) -> None:
        if stopped != "interrupted":
            self.state.stopped = stopped
            self.state.stopped_by = self.schedule.time_limit if stopped == "time limit" else None
            on_rank_zero(self.fabric, self.folder.curves.draw)
        self._checkpoint()

    # What is known in between

    def _seconds(self) -> float:
        return self.state.seconds + time.perf_counter() - self.began

    def _standing(self, epoch: float, terms: Mapping[str, float]) -> Standing:
        return Standing(
            epoch=epoch,
            steps=self.state.steps,
            seconds=self._seconds(),
            schedule=self.schedule,
            temperature=self.temperature.value,
            terms=terms,
            monitor=self.monitor,
            figure=self.state.figure,
            best=self.state.best,
        )
