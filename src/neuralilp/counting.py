"""How far long work is that can be counted: a bar on a terminal, else a line on standard error now and then."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

SECONDS_BETWEEN_LINES = 10.0

Advance = Callable[..., None]
"""How many more are done, and words on them all so far."""


@contextlib.contextmanager
def counted(what: str, total: int) -> Iterator[Advance]:
    """Gives ``advance(count, note="")``; the lines read "``what`` 3 of 5 in 0.1 s: ``note``"."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if console.is_terminal:
        columns = (
            TextColumn(what),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=console) as bar:
            task = bar.add_task("", total=total, note="")
            yield lambda count, note="": bar.update(task, advance=count, note=note)
        return
    began = last = time.perf_counter()
    done = 0

    def advance(count: int, note: str = "") -> None:
        nonlocal last, done
        done += count
        now = time.perf_counter()
        if now - last >= SECONDS_BETWEEN_LINES or done == total:
            last = now
            words = f": {note}" if note else ""
            print(f"{what} {done} of {total} in {now - began:.1f} s{words}", file=sys.stderr, flush=True)

    yield advance
