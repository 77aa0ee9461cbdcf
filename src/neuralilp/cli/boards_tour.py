"""What ``neuralilp demo`` shows of sudoku: rules from solved boards, new boards by the rules, and handwritten ones."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from neuralilp.files import written_whole
from neuralilp.model import NeuralILP
from neuralilp.storage import load
from neuralilp.tasks.sudoku.boards import Boxes, digits_of, rules
from neuralilp.tasks.sudoku.data import generate
from neuralilp.tasks.sudoku.digits import Digits
from neuralilp.tasks.sudoku.job import TEST_SOLVE_SECONDS, Boards
from neuralilp.tasks.sudoku.methods import PLUS, run
from neuralilp.tasks.sudoku.models import read_rules, solved, with_distilled
from neuralilp.tasks.sudoku.networks import LeNet, VisualCost
from neuralilp.tasks.sudoku.pictures import draw_answers, draw_matrices

BOXES = Boxes(2, 2)
BOARDS, SHOWN = 4000, 4
CURVES = "curves.png"


@dataclasses.dataclass(frozen=True)
class BoardsTour:
    """The records of the runs, and the pictures."""

    symbolic: dict[str, Any]
    visual: dict[str, Any]
    files: dict[str, Path]


def show(out: Path, digits: Digits, *, seed: int, say: Callable[[str], None]) -> BoardsTour:
    """Learn, print what was learnt, and write the pictures into ``out``. KeyboardInterrupt if a run is interrupted."""
    data = generate(BOXES, BOARDS, seed)
    quizzes = data.split().test.quizzes[:SHOWN]
    files = {name: out / f"{name}.png" for name in ("boards", "matrices", "handwritten")} | {"curves": out / CURVES}
    with tempfile.TemporaryDirectory() as place:
        symbolic, visual = Path(place, "symbolic"), Path(place, "visual")
        boards = Boards.of(data, None, seed)
        say(f"Given: {len(boards.train)} solved 4x4 boards, and nothing about rows, columns or boxes.")
        by_digits = finished(run(data, None, PLUS, out=symbolic, seed=seed))
        say(f"Learnt in {by_digits['train_seconds']:.1f} s. Read from the learnt rows:\n")
        for rule in by_digits["rules"]:
            say(f"  {rule}")
        say(f"\nNew boards solved by these rules: {board_share(by_digits)}.")
        model = learnt(symbolic)
        draw(files["boards"], model, boards, quizzes)
        draw_rows(files["matrices"], model, boards)

        boards = Boards.of(data, digits, seed)
        say(f"\nNow the givens are handwritten ({digits.source}), and nobody says which digit is which.")
        by_images = finished(run(data, digits, PLUS, out=visual, seed=seed))
        say(
            f"Reading and rules learnt in {by_images['train_seconds']:.1f} s. New boards, with digits of the test set, "
            f"solved: {board_share(by_images)}."
        )
        draw(files["handwritten"], learnt(visual, VisualCost(LeNet(BOXES.size))), boards, quizzes)
        with written_whole(files["curves"]) as part:
            shutil.copyfile(visual / CURVES, part)
    return BoardsTour(by_digits, by_images, files)


def finished(record: dict[str, Any] | None) -> dict[str, Any]:
    if record is None:
        raise KeyboardInterrupt
    return record


def learnt(run_folder: Path, network: nn.Module | None = None) -> NeuralILP:
    model = load(run_folder / "model", networks={} if network is None else {"cost.network": network})
    assert isinstance(model, NeuralILP)
    return model


def board_share(record: dict[str, Any]) -> str:
    return f"{record['test']['board_accuracy']:.1%} of {sum(record['statuses'].values())}"


def draw(path: Path, model: NeuralILP, boards: Boards, quizzes: Tensor) -> None:
    """The first boards of the test, with the model's answers by its rules."""
    first = slice(len(quizzes))
    ruled = with_distilled(model, read_rules(model, boards.train.solution))
    x, solutions = boards.test.inputs(first), digits_of(boards.test.solution[first], BOXES)
    answers = digits_of(solved(ruled, x, TEST_SOLVE_SECONDS).z.float(), BOXES)
    draw_answers(path, quizzes, answers, solutions, BOXES, images=x if boards.input == "visual" else None)


def draw_rows(path: Path, model: NeuralILP, boards: Boards) -> None:
    with torch.no_grad():
        rows = torch.cat([module().unit().a for module in model.constraints])
    read = read_rules(model, boards.train.solution).equalities.a
    draw_matrices(path, {"learnt": rows, "read from them": read, "true": rules(BOXES)[0]})
