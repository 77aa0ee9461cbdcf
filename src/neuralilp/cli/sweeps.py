"""What all commands of ``train`` share: options, runs over seeds and data sets, and what is said of each."""

from __future__ import annotations

import contextlib
import json
import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from neuralilp.cli.words import in_words
from neuralilp.errors import NeuralILPError

Record = dict[str, Any]
Run = Callable[..., Record | None]
"""One run, but for its folder ``out`` and its ``report``: the record, or None if it was interrupted."""

Seeds = Annotated[
    str,
    typer.Option("--seed", "--seeds", help="Seed of the start and of all samples; one run for each of 0-9 or 0,3,5."),
]
TimeLimit = Annotated[
    float, typer.Option(help="Seconds for training, validations included; the test comes after. inf: no limit.", min=0)
]
Out = Annotated[
    Path | None,
    typer.Option(
        help="Run folder; with several runs, a folder that holds theirs.",
        show_default="below runs, by task, method, setting and seed",
    ),
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Go on with the run in the folder; begin where there is none.", show_default="off"),
]
Threads = Annotated[int, typer.Option(help="Threads that PyTorch may use.", min=1)]


def _some(jobs: int) -> int:
    if jobs < 1 and jobs != -1:
        raise typer.BadParameter(f"must be at least 1, or -1 for one a core, got {jobs}")
    return jobs


Jobs = Annotated[int, typer.Option(help="Runs at once here, each in a process; -1 for one a core.", callback=_some)]
Cluster = Annotated[
    str | None,
    typer.Option(help="Dask scheduler whose workers do this, as in tcp://host:8786.", show_default="none: work here"),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the record as one JSON object, the last line.", show_default="off")
]


def run_all(runs: Mapping[Path, Run], *, threads: int, jobs: int, cluster: str | None, as_json: bool) -> None:
    """Make the runs by their folders, here or on a cluster, and say of each, in this order, what came of it."""
    import joblib  # type: ignore[import-untyped]

    from neuralilp.clusters import connected

    with connected(cluster, is_training=True):
        # Batches of one: runs that are over end at once, and long ones must not be put together for that.
        parallel = joblib.Parallel(n_jobs=jobs if cluster is None else None, return_as="generator", batch_size=1)
        try:
            places = {folder: folder if cluster is None else folder.absolute() for folder in runs}
            records = parallel(joblib.delayed(_made)(run, places[folder], threads) for folder, run in runs.items())
            for folder, record in zip(runs, records, strict=True):
                finish(record, folder, as_json, is_alone=len(runs) == 1)
        except KeyboardInterrupt:
            finish(None, next(iter(runs)), as_json, is_alone=len(runs) == 1)


def _made(run: Run, folder: Path, threads: int) -> Record | None:
    import torch

    from neuralilp.training import progress

    torch.set_num_threads(threads)
    with disk_errors_told(folder):
        return run(out=folder, report=progress())


def numbers_of(text: str, option: str) -> list[int]:
    """``0-2,7`` is 0, 1, 2 and 7."""
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise typer.BadParameter(f"must be numbers or ranges such as 0-9, got {text!r}", param_hint=option)
        numbers += range(int(first), int(last or first) + 1)
    if len(set(numbers)) < len(numbers):
        raise typer.BadParameter(f"each number must be there once, got {text!r}", param_hint=option)
    return numbers


def folders_of(seeds: Sequence[int], out: Path | None, task: str, *parts: object) -> dict[int, Path]:
    """The run folder of each seed: in ``out``; without, below ``runs`` by task and parts."""
    if out is not None:
        return {seed: of_seed(out, seed, seeds) for seed in seeds}
    path = Path("runs", task, *(str(part) for part in parts))
    return {seed: path if seed == 0 else path.with_name(f"{path.name}-seed{seed}") for seed in seeds}


def of_seed(folder: Path, seed: int, seeds: Sequence[int]) -> Path:
    """One seed's part of what several seeds have in one folder."""
    return folder if len(seeds) == 1 else folder / f"seed-{seed}"


def seconds_of(time_limit: float) -> float | None:
    return None if math.isinf(time_limit) else time_limit


@contextlib.contextmanager
def disk_errors_told(folder: Path) -> Iterator[None]:
    """A folder that cannot be made or written to ends the command with a message, as other errors do."""
    try:
        yield
    except OSError as error:
        raise NeuralILPError(f"the run in {folder} cannot go on: {error}") from None


def finish(record: Record | None, folder: Path, as_json: bool, *, is_alone: bool) -> None:
    """Say what came of a run; an interrupted one ends the command with 130, as Ctrl-C does."""
    if record is None:
        where = f" --out {shlex.quote(str(folder))}" if is_alone else ""
        typer.echo(f"interrupted; the same command goes on with --resume{where}", err=True)
        raise typer.Exit(130)
    if len(record.get("starts", ())) > 1:
        figures = {name: entry["pointwise_accuracy"] for name, entry in record["starts"].items()}
        typer.echo(f"began with {record['start']}, by validation: {in_words(figures)}")
    typer.echo(
        f"test: {in_words(record['test'])}; {record['train_seconds']:.0f} s of training up to the best validation"
    )
    if "test_without_cuts" in record:
        typer.echo(f"without cuts: vector accuracy {record['test_without_cuts']['vector_accuracy']:.1%}")
    typer.echo(f"written: {folder}")
    if as_json:
        typer.echo(json.dumps(record))
