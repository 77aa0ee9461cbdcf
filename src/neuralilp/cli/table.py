"""``neuralilp table``: the paper's tables, ours beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True)

WIDTH_OF_A_FILE = 200
"""Columns of the table where the output is no terminal."""


@app.callback()
def table() -> None:
    """The paper's tables with its figures and those of the runs at hand, mean ± standard error."""


@app.command("random-constraints")
def random_constraints(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Run folders, record.json files, or folders with such at any depth.",
            show_default="results/random-constraints",
        ),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")] = False,
) -> None:
    """Table 2: vector accuracy and training time for 1, 2, 4 and 8 constraints, binary and dense."""
    from rich.console import Console

    from neuralilp.tasks import table as tables
    from neuralilp.tasks.random_constraints import table as task

    found = tables.find_records(runs or [Path("results") / task.TASK], task.TASK)
    result = task.result_table(found)
    if as_json:
        typer.echo(json.dumps({**task.as_json(result), "records": len(found)}))
        return
    if markdown:
        typer.echo(f"{tables.markdown(result)}\n\n{result.caption('datasets')}")
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH_OF_A_FILE
    tables.print_table(result, console)
    console.print(result.caption("datasets"), soft_wrap=True)
