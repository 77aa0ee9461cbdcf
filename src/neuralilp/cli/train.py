"""``neuralilp train``: one run of a task of the paper, into a run folder."""

from __future__ import annotations

import contextlib
import enum
import json
import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from neuralilp.cli.data import Box, Data, chosen_boxes
from neuralilp.cli.words import in_words

app = typer.Typer(no_args_is_help=True)

# Options that every task has.
Seed = Annotated[int, typer.Option(help="Seed of the start and of all samples.")]
TimeLimit = Annotated[
    float, typer.Option(help="Seconds for training, validations included; the test comes after. inf: no limit.", min=0)
]
Out = Annotated[
    Path | None, typer.Option(help="Run folder.", show_default="below runs, by task, method, setting and seed")
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Go on with the run in the folder; begin where there is none.", show_default="off"),
]
Threads = Annotated[int, typer.Option(help="Threads that PyTorch may use.", min=1)]
Jobs = Annotated[int, typer.Option(help="Seeds that run at once, each in a process; -1 for one a core.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the record as one JSON object, the last line.", show_default="off")
]


class Method(enum.StrEnum):
    ILPLOSS = "ilploss"
    ILPLOSS_PLUS = "ilploss-plus"
    COMBOPTNET = "comboptnet"
    SOLVER_NEGATIVES = "solver-negatives"


@app.callback()
def train() -> None:
    """Train and test on a task of the paper. A run can be stopped at any time, and goes on with --resume."""


@app.command("random-constraints")
def random_constraints(
    domain: Annotated[str, typer.Option(help="binary, dense, or a domain of yours (see neuralilp data).")] = "dense",
    constraints: Annotated[int, typer.Option(help="True constraints of the dataset.", min=1)] = 8,
    dataset: Annotated[int, typer.Option(help="Number of the dataset.", min=0)] = 0,
    method: Annotated[
        Method,
        typer.Option(
            help="ilploss: the paper's, with a few changes; ilploss-plus: ours, which starts from the optimality "
            "conditions; comboptnet: the solver as a layer; solver-negatives: ilploss with the solver's answers as "
            "further negatives."
        ),
    ] = Method.ILPLOSS,
    rows: Annotated[
        int | None, typer.Option(help="Constraints to learn.", min=1, show_default="twice the true ones")
    ] = None,
    seed: Seed = 0,
    time_limit: TimeLimit = 600.0,
    out: Out = None,
    data: Data = None,
    resume: Resume = False,
    threads: Threads = 1,
    compile: Annotated[
        bool | None,
        typer.Option(
            "--compile/--no-compile",
            help="Use torch.compile, for ilploss alone.",
            show_default="where a C++ compiler is found",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn the constraints behind random costs and their optimal solutions (Section 4.2 of the paper)."""
    import torch

    from neuralilp.tasks.data import data_folder
    from neuralilp.tasks.random_constraints.data import load
    from neuralilp.tasks.random_constraints.methods import run
    from neuralilp.tasks.random_constraints.table import TASK
    from neuralilp.training import progress

    torch.set_num_threads(threads)
    folder = out or run_folder(TASK, method.value, domain, constraints, dataset, seed=seed)
    loaded = load(data_folder(data), domain, constraints, dataset)
    with disk_errors_told(folder):
        record = run(
            loaded,
            method.value,
            setting={"domain": domain, "constraints": constraints, "dataset": dataset},
            num_constraints=rows or 2 * constraints,
            out=folder,
            seed=seed,
            time_limit=None if math.isinf(time_limit) else time_limit,
            compile=compile,
            resume=resume,
            report=progress(),
        )
    finish(record, folder, as_json)


class SudokuMethod(enum.StrEnum):
    ILPLOSS = "ilploss"
    ILPLOSS_PLUS = "ilploss-plus"
    RRN = "rrn"
    SATNET = "satnet"
    COMBOPTNET = "comboptnet"
    NEURAL = "neural"


class SudokuInput(enum.StrEnum):
    SYMBOLIC = "symbolic"
    VISUAL = "visual"


@app.command("sudoku")
def sudoku(
    size: Annotated[
        int | None, typer.Option(help="Digits of a board: 4, 6, 9 or any other product.", min=4, show_default="9")
    ] = None,
    box: Box = None,
    input: Annotated[SudokuInput, typer.Option(help="Digits, or images of handwritten ones.")] = SudokuInput.SYMBOLIC,
    method: Annotated[
        SudokuMethod,
        typer.Option(
            help="ilploss: the paper's, cost and constraints learnt jointly; ilploss-plus: ours, rules off the affine "
            "hull of the solutions, then the cost by the rules; rrn: recurrent relational network, given the graph; "
            "satnet: a relaxed MAXSAT layer; comboptnet: the solver as a layer; neural: the network that reads digits, "
            "alone."
        ),
    ] = SudokuMethod.ILPLOSS,
    boards: Annotated[
        Path | None,
        typer.Option(help="CSV file of quizzes and solutions.", show_default="in the data folder, else generated"),
    ] = None,
    grids: Annotated[
        int | None, typer.Option(help="Boards to learn from.", min=1, show_default="10,000, or as many as there are")
    ] = None,
    seed: Seed = 0,
    time_limit: TimeLimit = 1200.0,
    out: Out = None,
    data: Data = None,
    resume: Resume = False,
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Learn the rules of sudoku from solved boards, and to read handwritten ones (Section 4.1 of the paper)."""
    import torch

    from neuralilp.tasks.data import data_folder
    from neuralilp.tasks.sudoku.data import board_name, load
    from neuralilp.tasks.sudoku.digits import load_digits
    from neuralilp.tasks.sudoku.methods import run
    from neuralilp.tasks.sudoku.table import TASK
    from neuralilp.training import progress

    torch.set_num_threads(threads)
    boxes = chosen_boxes(size, box)
    if input is SudokuInput.VISUAL and boxes.size > 9:
        raise typer.BadParameter(f"images show digits up to 9, and a board has {boxes.size}", param_hint="--input")
    name = board_name(boxes) if boards is None else boards.stem
    count = () if grids is None else (f"{grids}-grids",)
    folder = out or run_folder(TASK, method.value, name, input.value, *count, seed=seed)
    place = data_folder(data, create=True)
    loaded = load(place, boxes, boards)
    digits = load_digits(place) if input is SudokuInput.VISUAL else None
    with disk_errors_told(folder):
        record = run(
            loaded,
            digits,
            method.value,
            out=folder,
            seed=seed,
            time_limit=None if math.isinf(time_limit) else time_limit,
            grids=grids,
            resume=resume,
            report=progress(),
        )
    finish(record, folder, as_json)


class KnapsackMethod(enum.StrEnum):
    ILPLOSS = "ilploss"
    ILPLOSS_PLUS = "ilploss-plus"
    COMBOPTNET = "comboptnet"
    SOLVER_NEGATIVES = "solver-negatives"
    MLP = "mlp"
    TWO_STAGE = "two-stage"


@app.command("knapsack")
def knapsack(
    items: Annotated[int, typer.Option(help="Items of an instance.", min=1)] = 10,
    method: Annotated[
        KnapsackMethod,
        typer.Option(
            help="ilploss: the paper's; ilploss-plus: ours; comboptnet: the solver as a layer; solver-negatives: "
            "ilploss with the solver's answers as further negatives; mlp: the subset by a network alone; two-stage: "
            "prices and weights with full supervision, a ceiling."
        ),
    ] = KnapsackMethod.ILPLOSS,
    encodings: Annotated[
        Path | None,
        typer.Option(help="Folder in the published layout.", show_default="made as by `neuralilp data knapsack`"),
    ] = None,
    seeds: Annotated[str, typer.Option("--seed", "--seeds", help="One run for each, as in 0, 0-9 or 0,3,5.")] = "0",
    time_limit: TimeLimit = 600.0,
    out: Out = None,
    data: Data = None,
    resume: Resume = False,
    threads: Threads = 1,
    jobs: Jobs = 1,
    as_json: AsJson = False,
) -> None:
    """Learn prices, weights and the capacity from sentences and the best choices (Section 4.3 of the paper)."""
    import torch

    from neuralilp.tasks.data import data_folder
    from neuralilp.tasks.knapsack.data import load_or_make, load_published
    from neuralilp.tasks.knapsack.methods import run
    from neuralilp.tasks.knapsack.table import TASK
    from neuralilp.training import progress

    torch.set_num_threads(threads)
    chosen = seeds_of(seeds)
    if encodings is not None:
        loaded = load_published(encodings)
    else:
        loaded = load_or_make(data_folder(data, create=True), items, progress=True)
    folders = {
        seed: run_folder(TASK, method.value, loaded.num_items, seed=seed) if out is None else of_seed(out, seed, chosen)
        for seed in chosen
    }

    def one(seed: int) -> dict[str, Any] | None:
        torch.set_num_threads(threads)
        return run(
            loaded,
            method.value,
            out=folders[seed],
            seed=seed,
            time_limit=None if math.isinf(time_limit) else time_limit,
            resume=resume,
            report=progress(),
        )

    for seed, record in swept(one, folders, jobs):
        finish(record, folders[seed], as_json)


def swept(
    one: Callable[[int], dict[str, Any] | None], folders: Mapping[int, Path], jobs: int
) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Seeds and the records of their runs, as they come; in ``jobs`` processes, or where joblib's backend says."""
    import joblib  # type: ignore[import-untyped]

    records = joblib.Parallel(n_jobs=jobs, return_as="generator")(joblib.delayed(one)(seed) for seed in folders)
    for seed, folder in folders.items():
        with disk_errors_told(folder):
            record = next(records)
        yield seed, record


def seeds_of(text: str) -> list[int]:
    """``0-2,7`` is 0, 1, 2 and 7."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise typer.BadParameter(f"seeds must be numbers or ranges such as 0-9, got {text!r}", param_hint="--seeds")
        seeds += range(int(first), int(last or first) + 1)
    if len(set(seeds)) < len(seeds):
        raise typer.BadParameter(f"each seed must be there once, got {text!r}", param_hint="--seeds")
    return seeds


def of_seed(folder: Path, seed: int, seeds: Sequence[int]) -> Path:
    """One seed's part of what several seeds have in one folder."""
    return folder if len(seeds) == 1 else folder / f"seed-{seed}"


@contextlib.contextmanager
def disk_errors_told(folder: Path) -> Iterator[None]:
    """A folder that cannot be made or written to ends the command with a message, as other errors do."""
    try:
        yield
    except OSError as error:
        typer.echo(f"error: the run in {folder} cannot go on: {error}", err=True)
        raise typer.Exit(1) from None


def finish(record: dict[str, Any] | None, folder: Path, as_json: bool) -> None:
    """Say what came of a run; an interrupted one ends the command with 130, as Ctrl-C does."""
    if record is None:
        typer.echo(f"interrupted; the same command goes on with --resume --out {shlex.quote(str(folder))}", err=True)
        raise typer.Exit(130)
    typer.echo(
        f"test: {in_words(record['test'])}; {record['train_seconds']:.0f} s of training up to the best validation"
    )
    if "test_without_cuts" in record:
        typer.echo(f"without cuts: vector accuracy {record['test_without_cuts']['vector_accuracy']:.1%}")
    typer.echo(f"written: {folder}")
    if as_json:
        typer.echo(json.dumps(record))


def run_folder(task: str, *parts: object, seed: int) -> Path:
    path = Path("runs", task, *(str(part) for part in parts))
    return path if seed == 0 else path.with_name(f"{path.name}-seed{seed}")
