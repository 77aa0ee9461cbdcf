"""``neuralilp data``: fetch or generate the data of a task."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from neuralilp.tasks.random_constraints.data import Dataset
    from neuralilp.tasks.sudoku.boards import Boxes

app = typer.Typer(no_args_is_help=True)

Data = Annotated[
    Path | None,
    typer.Option("--data", help="Data folder.", show_default="variable NEURALILP_DATA, else the cache folder"),
]
Box = Annotated[str | None, typer.Option(help="Height and width of a box, as in 2x3.", show_default="the most square")]


@app.callback()
def data() -> None:
    """Fetch, convert or generate the data of a task, into the data folder. Existing files are never replaced."""


@app.command("random-constraints")
def random_constraints(
    domain: Annotated[
        str, typer.Option(help="binary ([0, 1]), dense ([-5, 5]), or a name of yours with --lower and --upper.")
    ] = "dense",
    constraints: Annotated[int, typer.Option(help="True constraints.", min=1)] = 8,
    dataset: Annotated[int, typer.Option(help="Number of the dataset; it names the file.", min=0)] = 0,
    folder: Data = None,
    convert: Annotated[
        Path | None, typer.Option(help="A published dataset.p to convert, instead of generating a new dataset.")
    ] = None,
    lower: Annotated[
        float | None, typer.Option(help="Lower bound of every variable.", show_default="the domain's")
    ] = None,
    upper: Annotated[
        float | None, typer.Option(help="Upper bound of every variable.", show_default="the domain's")
    ] = None,
    variables: Annotated[int | None, typer.Option(help="Variables.", min=1, show_default="16")] = None,
    train: Annotated[
        int | None, typer.Option(help="Examples for training and validation.", min=1, show_default="1600")
    ] = None,
    test: Annotated[int | None, typer.Option(help="Examples for the test.", min=1, show_default="1000")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed.", show_default="the number of the dataset")] = None,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds for each solve, after which another cost is drawn.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Solves at once; -1 for one a core.", show_default="1")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")] = False,
) -> None:
    """A dataset of costs and optimal solutions over one random program: new by the published recipe, or converted."""
    from neuralilp.files import check_new
    from neuralilp.tasks.data import data_folder
    from neuralilp.tasks.random_constraints import data as files
    from neuralilp.tasks.random_constraints.generate import generate

    began = time.perf_counter()
    name = f"{domain}/{constraints}/{dataset}"
    sizes = {"num_variables": variables, "num_train": train, "num_test": test}
    options: dict[str, Any] = {**sizes, "time_limit": time_limit, "workers": workers, "seed": seed}
    options = {option: value for option, value in options.items() if value is not None}
    if convert is None:
        options |= {"seed": options.get("seed", dataset), **_box(domain, lower, upper)}
    elif options or lower is not None or upper is not None:
        raise typer.BadParameter(
            "a converted dataset has its own sizes and bounds: give only --domain, --constraints, --dataset and --data",
            param_hint="--convert",
        )
    path = files.dataset_path(data_folder(folder, create=True), domain, constraints, dataset)
    check_new(path)
    if convert is None:
        made = generate(name, num_constraints=constraints, progress=True, **options)
    else:
        made = _converted(convert, name, domain, constraints)
    files.save_npz(made, path)
    num_test = len(made.cost) - made.num_train
    if as_json:
        facts = {
            "file": str(path),
            "name": name,
            "fingerprint": made.fingerprint,
            "variables": made.num_variables,
            "constraints": constraints,
            "train": made.num_train,
            "test": num_test,
            "has_truth": made.true_a is not None,
            "seed": options.get("seed"),
            "seconds": round(time.perf_counter() - began, 3),
        }
        typer.echo(json.dumps(facts))
        return
    truth = "" if made.true_a is not None else ", true constraints not recognised"
    typer.echo(f"{path}: {made.num_train} + {num_test} examples{truth}")


@app.command("sudoku")
def sudoku(
    size: Annotated[int | None, typer.Option(help="Digits of a board.", show_default="9")] = None,
    box: Box = None,
    count: Annotated[int | None, typer.Option(help="Boards.", min=1, show_default="11100")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed.", show_default="0")] = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write.", show_default="sudoku/9x9.csv in the data folder")
    ] = None,
    folder: Data = None,
    digits: Annotated[
        bool, typer.Option("--digits", help="Download MNIST for visual boards (11 MB, checked), instead of boards.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")] = False,
) -> None:
    """New puzzles, each with one solution, in the public CSV format; or the handwritten digits of visual boards."""
    from neuralilp.tasks.data import data_folder

    if digits:
        if any(option is not None for option in (size, box, count, seed, out)):
            raise typer.BadParameter("digits are the same for all boards: give only --data", param_hint="--digits")
        facts = _digits_downloaded(data_folder(folder, create=True))
    else:
        if out is not None and folder is not None:
            raise typer.BadParameter("give either a file or a data folder", param_hint="--out")
        options = {"count": count, "seed": seed}
        facts = _boards_generated(size, box, options, out, folder)
    text = facts.pop("text")
    typer.echo(json.dumps(facts) if as_json else text)


@app.command("knapsack")
def knapsack(
    items: Annotated[int, typer.Option(help="Items of an instance.", min=1)] = 10,
    folder: Data = None,
    seed: Annotated[int, typer.Option(help="Seed of the sentences and the instances.")] = 0,
    workers: Annotated[int, typer.Option(help="Processes that encode sentences; -1 for one a core.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")] = False,
) -> None:
    """Instances of the knapsack, solved exactly, about sentences that tell prices and weights.

    The 50,000 sentences and their vectors, two minutes of work, are made once for all numbers of items.
    """
    from neuralilp.tasks.data import data_folder
    from neuralilp.tasks.knapsack import data as files

    began = time.perf_counter()
    place = data_folder(folder, create=True)
    made = files.make(place, items, seed=seed, workers=workers, progress=True)
    path, seconds = files.instances_path(place, items), time.perf_counter() - began
    counts = [len(part.item) for part in (made.train, made.validation, made.test)]
    facts = {
        "file": str(path),
        "items": items,
        "fingerprint": made.fingerprint,
        "train": counts[0],
        "validation": counts[1],
        "test": counts[2],
        "source": made.source,
        "encoder": made.encoder,
        "seconds": round(seconds, 3),
    }
    text = f"{path}: {' + '.join(map(str, counts))} instances of {items} items, {made.encoder}, in {seconds:.1f} s"
    typer.echo(json.dumps(facts) if as_json else text)


def chosen_boxes(size: int | None, box: str | None) -> Boxes:
    """The boxes that --size and --box ask for: by default those of 9 digits, or of the size."""
    from neuralilp.tasks.sudoku.boards import Boxes

    if box is None:
        return Boxes.of_size(9 if size is None else size)
    boxes = Boxes.parse(box)
    if size is not None and size != boxes.size:
        raise typer.BadParameter(f"a board of {size} digits has no boxes of {boxes}", param_hint="--box")
    return boxes


def _boards_generated(
    size: int | None, box: str | None, options: dict[str, int | None], out: Path | None, folder: Path | None
) -> dict[str, Any]:
    from neuralilp.files import check_new
    from neuralilp.tasks.data import data_folder
    from neuralilp.tasks.sudoku import data as files

    began = time.perf_counter()
    boxes = chosen_boxes(size, box)
    path = files.boards_path(data_folder(folder, create=True), boxes) if out is None else out
    check_new(path)
    made = files.generate(boxes, **{option: value for option, value in options.items() if value is not None})
    files.write_csv(made, path)
    givens = (made.quizzes != 0).flatten(1).sum(1)
    fewest, most, seconds = int(givens.min()), int(givens.max()), time.perf_counter() - began
    return {
        "file": str(path),
        "name": made.name,
        "fingerprint": made.fingerprint,
        "boxes": str(boxes),
        "boards": len(made),
        "givens": [fewest, most],
        "source": made.source,
        "seconds": round(seconds, 3),
        "text": f"{path}: {len(made)} boards with {fewest} to {most} givens, {boxes} boxes, in {seconds:.1f} s",
    }


def _digits_downloaded(folder: Path) -> dict[str, Any]:
    from neuralilp.tasks.sudoku.digits import download_mnist, load_digits

    began = time.perf_counter()
    new = download_mnist(folder)
    digits, seconds = load_digits(folder), time.perf_counter() - began
    return {
        "folder": str(folder / "mnist"),
        "new_files": [path.name for path in new],
        "train": len(digits.train_labels),
        "test": len(digits.test_labels),
        "seconds": round(seconds, 3),
        "text": f"{folder / 'mnist'}: {digits.source} digits, {len(new)} new files, in {seconds:.1f} s",
    }


def _box(domain: str, lower: float | None, upper: float | None) -> dict[str, float]:
    from neuralilp.tasks.random_constraints.data import BOXES

    if domain in BOXES:
        if lower is not None or upper is not None:
            raise typer.BadParameter(f"{domain} has bounds of its own: give another --domain", param_hint="--lower")
        lower, upper = BOXES[domain]
    if lower is None or upper is None:
        raise typer.BadParameter(
            f"{domain} is neither {' nor '.join(BOXES)}: give --lower and --upper too", param_hint="--domain"
        )
    return {"lower": lower, "upper": upper}


def _converted(source: Path, name: str, domain: str, constraints: int) -> Dataset:
    from neuralilp.tasks.random_constraints.data import BOXES, check_setting
    from neuralilp.tasks.random_constraints.pickles import load_pickle

    dataset = load_pickle(source, name=name, box=BOXES.get(domain))
    check_setting(dataset, source, domain, constraints)
    return dataset
