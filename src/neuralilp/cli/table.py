"""``neuralilp table``: the paper's tables, ours beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(no_args_is_help=True)

WIDTH_OF_A_FILE = 200
"""Columns of the table where the output is no terminal."""


@app.callback()
def table() -> None:
    """The paper's tables with its figures and those of the runs at hand, mean ± standard error."""


Runs = Annotated[
    list[Path] | None,
    typer.Argument(
        help="Run folders, record.json files, or folders with such at any depth.",
        show_default="results/TASK",
    ),
]
AsMarkdown = Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]


@app.command("random-constraints")
def random_constraints(runs: Runs = None, markdown: AsMarkdown = False, as_json: AsJson = False) -> None:
    """Table 2: vector accuracy and training time for 1, 2, 4 and 8 constraints, binary and dense."""
    from neuralilp.tasks.random_constraints import table as task

    show(task, runs, "datasets", markdown, as_json)


@app.command("sudoku")
def sudoku(runs: Runs = None, markdown: AsMarkdown = False, as_json: AsJson = False) -> None:
    """Table 1: board accuracy and training time for sizes 4, 6 and 9, symbolic and visual."""
    from neuralilp.tasks.sudoku import table as task

    show(task, runs, "seeds", markdown, as_json)


@app.command("sudoku-curve")
def sudoku_curve(runs: Runs = None, markdown: AsMarkdown = False, as_json: AsJson = False) -> None:
    """Sudoku by the number of boards learnt from: runs of `train sudoku --grids N`."""
    from neuralilp.tasks.sudoku import curve as task

    show(task, runs, "seeds", markdown, as_json)


@app.command("knapsack")
def knapsack(runs: Runs = None, markdown: AsMarkdown = False, as_json: AsJson = False) -> None:
    """Table 3: vector accuracy and training time for 10 to 30 items; which choices fit, and what they lack."""
    from neuralilp.tasks.knapsack import table as task

    show(task, runs, "seeds", markdown, as_json)


@app.command("keypoints")
def keypoints(runs: Runs = None, markdown: AsMarkdown = False, as_json: AsJson = False) -> None:
    """Table 4: pointwise accuracy and training time for 4 to 7 points; how many answers are permutations."""
    from neuralilp.tasks.keypoints import table as task

    show(task, runs, "seeds", markdown, as_json)


def show(task: Any, runs: list[Path] | None, over: str, markdown: bool, as_json: bool) -> None:
    """Print the table of a task, whose module has ``TASK``, ``is_wanted``, ``result_table`` and ``as_json``."""
    from rich.console import Console

    from neuralilp.tasks import table as tables

    found = tables.find_records(runs or [Path("results") / task.TASK], task.TASK, task.is_wanted)
    result = task.result_table(found)
    if as_json:
        typer.echo(json.dumps({**task.as_json(result), "records": len(found)}))
        return
    if markdown:
        typer.echo(f"{tables.markdown(result)}\n\n{result.caption(over)}")
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH_OF_A_FILE
    tables.print_table(result, console)
    console.print(result.caption(over), soft_wrap=True)
