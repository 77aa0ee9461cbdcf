"""``neuralilp demo``: learn a small hidden program, then sudoku, and show what was learnt."""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

EPOCHS_BETWEEN_LINES = 20


def run(
    out: Annotated[Path, typer.Option(help="Folder for the pictures, the LP file and the saved model.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Chooses the hidden program, the boards and the start.", min=0)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object as the last line.")] = False,
) -> None:
    """A tour: a hidden program of two variables, then sudoku, also handwritten. Offline, under two minutes."""
    began = time.perf_counter()
    import torch
    from rich.console import Console

    from neuralilp.cli import boards_tour, tour
    from neuralilp.errors import NeuralILPError
    from neuralilp.export import export
    from neuralilp.plotting import plot_program
    from neuralilp.storage import save
    from neuralilp.tasks.data import data_folder
    from neuralilp.tasks.sudoku.data import generate
    from neuralilp.tasks.sudoku.digits import load_digits

    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"{out} is a file", param_hint="--out")
    out.mkdir(parents=True, exist_ok=True)
    console = Console(highlight=False, soft_wrap=True)
    torch.set_num_threads(1)  # the tensors are tiny
    generator = torch.Generator().manual_seed(seed)

    truth = tour.hidden_program(generator)
    counts = (tour.TRAIN, tour.VALIDATION, tour.TEST)
    train, validation, test = (tour.observe(truth, count, generator) for count in counts)
    console.print("[bold]1. Two variables[/bold]")
    console.print(
        f"A hidden program has {tour.TRUE_ROWS} constraints on two integers between {tour.LOWER} and {tour.UPPER}.\n"
        f"Given: {tour.TRAIN + tour.VALIDATION} random costs with their optimal solutions. Wanted: the constraints."
    )
    learning = time.perf_counter()
    with _progress(console, tour.EPOCHS) as report:
        model = tour.learn(train, validation, generator=generator, report=report)
    learning = time.perf_counter() - learning

    result = tour.compare(model, truth, *test)
    console.print(f"Learnt in {learning:.1f} s, without calling a solver.\n")
    console.print(tour.side_by_side(model, truth))
    console.print(
        f"\nInteger points in the box on which both agree: {result.agreed} of {result.points}. Many polyhedra hold the "
        f"same integer points,\nso the learnt lines may differ from the true ones where no point tells them apart."
    )
    console.print(
        f"New costs solved to the right solution (HiGHS on the learnt program): {result.accuracy:.1%} of {tour.TEST}."
    )

    example, solution, negatives = tour.instructive(model, test, generator)
    files = {"picture": out / "polyhedron.png", "lp": out / "learnt.lp", "model": out / "model"}
    plot_program(
        example,
        truth=truth,
        solution=solution,
        negatives=negatives,
        title="What was learnt, and one solution y* with its negatives",
        path=files["picture"],
    )
    export(example, files["lp"])
    save(model, files["model"], overwrite=True)
    console.print("\n[bold]2. Sudoku[/bold]")
    say = functools.partial(console.print, markup=False)
    data = generate(boards_tour.BOXES, boards_tour.BOARDS, seed)
    rules = boards_tour.show_rules(out, data, seed=seed, say=say)
    files |= rules.files
    try:
        digits = load_digits(data_folder(create=True))
    except (NeuralILPError, OSError) as error:
        say(f"\nHandwritten boards are left out: {error}")
        reading = None
    else:
        reading = boards_tour.show_reading(out, data, digits, seed=seed, say=say)
        files |= reading.files
    say("\nWritten: " + ", ".join(str(path) for path in files.values()))
    if as_json:
        record = {
            "accuracy": result.accuracy,
            "agreed_points": result.agreed,
            "points": result.points,
            "seed": seed,
            "train_seconds": round(learning, 3),
            "rules": rules.record["rules"],
            "board_accuracy": rules.record["test"]["board_accuracy"],
            "visual_board_accuracy": None if reading is None else reading.record["test"]["board_accuracy"],
            "seconds": round(time.perf_counter() - began, 3),
            "files": {name: str(path) for name, path in files.items()},
        }
        sys.stdout.flush()
        print(json.dumps(record), flush=True)


@contextlib.contextmanager
def _progress(console: Console, epochs: int) -> Iterator[Callable[[int, int, float, float], None]]:
    """A bar on a terminal, else a line now and then."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    if not console.is_terminal:

        def print_line(start: int, epoch: int, figure: float, temperature: float) -> None:
            if epoch % EPOCHS_BETWEEN_LINES == 0:
                console.print(f"start {start}, epoch {epoch:3d}: {figure:7.2%} separated, temperature {temperature:g}")

        yield print_line
        return
    columns = (TextColumn("learning"), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=epochs)

        def advance(start: int, epoch: int, figure: float, temperature: float) -> None:
            bar.update(
                task,
                completed=epoch,
                description=f"start {start}: {figure:7.2%} separated, temperature {temperature:g}",
            )

        yield advance
