"""Solving the instances of a batch in parallel, one thread each, and showing how far it is."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import joblib  # type: ignore[import-untyped]

from neuralilp.counting import counted
from neuralilp.solving.instance import FloatArray, Instance
from neuralilp.solving.single import Outcome, Settings, solve_instance
from neuralilp.solving.stopping import Stopped, StopSignal

Task = tuple[int, Instance, FloatArray | None]
"""Position in the batch, instance, warm start."""

LARGEST_CHUNK = 32


def solve_all(
    task: Callable[[int], Task], count: int, settings: Settings, workers: int, progress: bool
) -> list[Outcome]:
    """The outcomes of tasks 0 .. count - 1 in order."""
    # Chunks keep the overhead a task small; eight a worker keep the workers evenly busy.
    size = max(1, min(LARGEST_CHUNK, count // (8 * workers)))
    chunks = ([task(i) for i in range(at, min(at + size, count))] for at in range(0, count, size))
    outcomes: list[Outcome | None] = [None] * count
    statuses: Counter[str] = Counter()
    stop = StopSignal()
    run = _one_worker if workers == 1 else _many_workers
    try:
        with counted("solved", count) if progress else contextlib.nullcontext() as advance:
            for done in run(chunks, settings, stop, workers):
                for position, outcome in done:
                    outcomes[position] = outcome
                if advance is not None:
                    statuses.update(outcome.status.value for _, outcome in done)
                    advance(len(done), _summary(statuses))
    except BaseException:
        # Above all KeyboardInterrupt: the solvers in the other threads do not see it.
        stop.stop()
        raise
    return [outcome for outcome in outcomes if outcome is not None]


def _solve_chunk(chunk: list[Task], settings: Settings, stop: StopSignal) -> list[tuple[int, Outcome]]:
    return [(i, solve_instance(instance, settings, start, stop)) for i, instance, start in chunk]


def _many_workers(
    chunks: Iterable[list[Task]], settings: Settings, stop: StopSignal, workers: int
) -> Iterator[list[tuple[int, Outcome]]]:
    """Threads, since all our solvers release the interpreter lock, unless ``joblib.parallel_config`` says otherwise."""
    parallel = joblib.Parallel(n_jobs=workers, prefer="threads", return_as="generator_unordered")
    yield from parallel(joblib.delayed(_solve_chunk)(chunk, settings, stop) for chunk in chunks)


def _one_worker(
    chunks: Iterable[list[Task]], settings: Settings, stop: StopSignal, workers: int
) -> Iterator[list[tuple[int, Outcome]]]:
    """One thread that is not the caller's: only while Python waits, and no solver runs, does it see Ctrl-C."""
    results: queue.SimpleQueue[list[tuple[int, Outcome]] | BaseException | None] = queue.SimpleQueue()

    def work() -> None:
        try:
            for chunk in chunks:
                results.put(_solve_chunk(chunk, settings, stop))
            results.put(None)
        except Stopped:
            pass
        except BaseException as error:
            results.put(error)

    thread = threading.Thread(target=work, name="neuralilp-solve", daemon=True)
    thread.start()
    while True:
        try:
            item = results.get(timeout=0.5)
        except queue.Empty:
            continue
        if item is None:
            thread.join()
            return
        if isinstance(item, BaseException):
            raise item
        yield item


def _summary(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
