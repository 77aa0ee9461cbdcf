"""``neuralilp train``: runs of a task of the paper, each into a run folder."""

from __future__ import annotations

import enum
import functools
from pathlib import Path
from typing import Annotated

import typer

from neuralilp.cli.data import Box, Data, chosen_boxes
from neuralilp.cli.sweeps import (
    AsJson,
    Cluster,
    Jobs,
    Out,
    Resume,
    Seeds,
    Threads,
    TimeLimit,
    folders_of,
    numbers_of,
    run_all,
    seconds_of,
)

app = typer.Typer(no_args_is_help=True)


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
    datasets: Annotated[
        str, typer.Option("--dataset", help="Number of the dataset; one run for each of 0-9 or 0,3,5.")
    ] = "0",
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
    seeds: Seeds = "0",
    time_limit: TimeLimit = 600.0,
    out: Out = None,
    data: Data = None,
    resume: Resume = False,
    threads: Threads = 1,
    jobs: Jobs = 1,
    cluster: Cluster = None,
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

    chosen, numbers = numbers_of(seeds, "--seeds"), numbers_of(datasets, "--dataset")
    torch.set_num_threads(threads)
    place = data_folder(data)
    runs = {}
    for dataset in numbers:
        loaded = load(place, domain, constraints, dataset)
        below = out if out is None or len(numbers) == 1 else out / f"dataset-{dataset}"
        folders = folders_of(chosen, below, TASK, method.value, domain, constraints, dataset)
        for seed, folder in folders.items():
            runs[folder] = functools.partial(
                run,
                loaded,
                method.value,
                setting={"domain": domain, "constraints": constraints, "dataset": dataset},
                num_constraints=rows or 2 * constraints,
                seed=seed,
                time_limit=seconds_of(time_limit),
                compile=compile,
                resume=resume,
            )
    run_all(runs, threads=threads, jobs=jobs, cluster=cluster, as_json=as_json)


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
    seeds: Seeds = "0",
    time_limit: TimeLimit = 1200.0,
    out: Out = None,
    data: Data = None,
    resume: Resume = False,
    threads: Threads = 1,
    jobs: Jobs = 1,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Learn the rules of sudoku from solved boards, and to read handwritten ones (Section 4.1 of the paper)."""
    import torch

    from neuralilp.tasks.data import data_folder
    from neuralilp.tasks.sudoku.data import board_name, load
    from neuralilp.tasks.sudoku.digits import load_digits
    from neuralilp.tasks.sudoku.methods import run
    from neuralilp.tasks.sudoku.table import TASK

    torch.set_num_threads(threads)
    chosen = numbers_of(seeds, "--seeds")
    boxes = chosen_boxes(size, box)
    if input is SudokuInput.VISUAL and boxes.size > 9:
        raise typer.BadParameter(f"images show digits up to 9, and a board has {boxes.size}", param_hint="--input")
    name = board_name(boxes) if boards is None else boards.stem
    parts = (name, input.value, *(() if grids is None else (f"{grids}-grids",)))
    place = data_folder(data, create=True)
    loaded = load(place, boxes, boards)
    digits = load_digits(place) if input is SudokuInput.VISUAL else None
    runs = {
        folder: functools.partial(
            run,
            loaded,
            digits,
            method.value,
            seed=seed,
            time_limit=seconds_of(time_limit),
            grids=grids,
            resume=resume,
        )
        for seed, folder in folders_of(chosen, out, TASK, method.value, *parts).items()
    }
    run_all(runs, threads=threads, jobs=jobs, cluster=cluster, as_json=as_json)


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
    seeds: Seeds = "0",
    time_limit: TimeLimit = 600.0,
    out: Out = None,
    data: Data = None,
    resume: Resume = False,
    threads: Threads = 1,
    jobs: Jobs = 1,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Learn prices, weights and the capacity from sentences and the best choices (Section 4.3 of the paper)."""
    import torch

    from neuralilp.tasks.data import data_folder
    from neuralilp.tasks.knapsack.data import load_or_make, load_published
    from neuralilp.tasks.knapsack.methods import run
    from neuralilp.tasks.knapsack.table import TASK

    torch.set_num_threads(threads)
    chosen = numbers_of(seeds, "--seeds")
    if encodings is not None:
        loaded = load_published(encodings)
    else:
        loaded = load_or_make(data_folder(data, create=True), items, progress=True)
    runs = {
        folder: functools.partial(
            run, loaded, method.value, seed=seed, time_limit=seconds_of(time_limit), resume=resume
        )
        for seed, folder in folders_of(chosen, out, TASK, method.value, loaded.num_items).items()
    }
    run_all(runs, threads=threads, jobs=jobs, cluster=cluster, as_json=as_json)
