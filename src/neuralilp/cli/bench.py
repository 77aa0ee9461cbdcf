"""``neuralilp bench``: side-by-side timings."""

from __future__ import annotations

import enum
import json
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True)


class Task(enum.StrEnum):
    SUDOKU = "sudoku"
    RANDOM_CONSTRAINTS = "random-constraints"


@app.callback()
def bench() -> None:
    """Timings side by side: this library against the plain way of doing the same."""


@app.command()
def step(
    task: Annotated[Task, typer.Option(help="Task of the paper, with the paper's settings.")] = Task.SUDOKU,
    size: Annotated[int, typer.Option(help="Board size of sudoku: 4, 6 or 9.")] = 9,
    batch: Annotated[int, typer.Option(help="Examples a step.", min=1)] = 10,
    threads: Annotated[int, typer.Option(help="Threads that PyTorch may use.", min=1)] = 1,
    repeats: Annotated[
        int | None, typer.Option(help="Steps to time on each side; by default, about three seconds.", min=1)
    ] = None,
    compile: Annotated[
        bool | None,
        typer.Option("--compile/--no-compile", help="Use torch.compile; by default, where a C++ compiler is found."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of data, start and samples.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")] = False,
) -> None:
    """One training step: the plain dense formulation of the paper against this library's."""
    from neuralilp.bench.step import bench_step

    result = bench_step(
        task.value, size=size, batch=batch, threads=threads, repeats=repeats, compile=compile, seed=seed
    )
    if as_json:
        typer.echo(json.dumps(result))
        return
    name = f"{task} {size}×{size}" if task is Task.SUDOKU else str(task)
    typer.echo(f"{name}, {result['variables']} variables, batch {batch}, {threads} thread(s)")
    typer.echo(f"  dense  {result['dense_ms']:>10.2f} ms  {result['dense_peak_mb']:>8.0f} MB")
    typer.echo(
        f"  fast   {result['fast_ms']:>10.2f} ms  {result['fast_peak_mb']:>8.0f} MB  (compiled: {result['compiled']})"
    )
    typer.echo(f"  speed-up {result['speedup']:.1f}")
    typer.echo(
        f"  relative difference: loss {result['loss_difference']:.1e}, gradient {result['gradient_difference']:.1e}"
    )
