"""What ``neuralilp demo`` shows of sudoku: rules from solved boards, new boards by the rules, and handwritten ones."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from neuralilp.files import written_whole
from neuralilp.model import NeuralILP
from neuralilp.storage import load
from neuralilp.tasks.sudoku.boards import Boxes, digits_of, rules
from neuralilp.tasks.sudoku.data import SudokuData
from neuralilp.tasks.sudoku.digits import Digits
from neuralilp.tasks.sudoku.job import TEST_SOLVE_SECONDS, Boards
from neuralilp.tasks.sudoku.methods import PLUS, RAW_MODEL, run
from neuralilp.tasks.sudoku.models import solved
from neuralilp.tasks.sudoku.networks import LeNet, VisualCost
from neuralilp.tasks.sudoku.pictures import draw_answers, draw_matrices
from neuralilp.tasks.sudoku.solving import solve_boards
from neuralilp.training.curves import PNG

Say = Callable[[str], None]

BOXES = Boxes(2, 2)
BOARDS, SHOWN = 1500, 4


@dataclasses.dataclass(frozen=True)
class Shown:
    """The record of a run, and the pictures by their names."""

    record: dict[str, Any]
    files: dict[str, Path]


def show_rules(out: Path, data: SudokuData, *, seed: int, say: Say) -> Shown:
    """Learn the rules, print them, and write pictures into ``out``. KeyboardInterrupt if the run is interrupted."""
    boards = Boards.of(data, None, seed)
    different = len(boards.train.solution.unique(dim=0))
    say(
        f"Given: {len(boards.train)} solved 4x4 boards, {different} of them different, and nothing about rows, columns "
        "or boxes."
    )
    files = {name: out / f"{name}.png" for name in ("boards", "matrices")}
    with tempfile.TemporaryDirectory() as place:
        record = finished(run(data, None, PLUS, out=Path(place, "run"), seed=seed))
        ruled = learnt(Path(place, "run", "model"))
        raw = Path(place, "run", RAW_MODEL)
        model = learnt(raw) if raw.exists() else ruled  # no rules could be read: the rows solve boards
    say(f"Learnt in {record['train_seconds']:.1f} s. Read from the learnt rows:\n")
    for rule in record["rules"]:
        say(f"  {rule}")
    say(f"\nOther quizzes solved by these rules: {board_share(record)}.")
    quizzes = data.split().test.quizzes[:SHOWN]
    answers = solve_boards(ruled, quizzes, BOXES).boards
    draw_answers(files["boards"], quizzes, answers, digits_of(boards.test.solution[:SHOWN], BOXES), BOXES)
    with torch.no_grad():
        rows, found = (torch.cat([module().a for module in each.constraints]) for each in (model, ruled))
    read, true = (a.unique(dim=0).flip(0) for a in (found, rules(BOXES)[0]))  # in one order
    draw_matrices(files["matrices"], {"learnt": rows, "read from them": read, "true": true})
    return Shown(record, files)


def show_reading(out: Path, data: SudokuData, digits: Digits, *, seed: int, say: Say) -> Shown:
    """The same with handwritten givens."""
    boards = Boards.of(data, digits, seed)
    say(f"\nNow the givens are handwritten ({digits.source}), and which image is which digit is to be learnt too.")
    files = {"handwritten": out / "handwritten.png", "curves": out / PNG}
    with tempfile.TemporaryDirectory() as place:
        record = finished(run(data, digits, PLUS, out=Path(place, "run"), seed=seed))
        ruled = learnt(Path(place, "run", "model"), VisualCost(LeNet(BOXES.size)))
        with written_whole(files["curves"]) as part:
            shutil.copyfile(Path(place, "run", PNG), part)
    say(f"Rules and reading learnt in {record['train_seconds']:.1f} s.")
    say(f"Other quizzes, with images that were not in training, solved: {board_share(record)}.")
    x = boards.test.inputs(slice(SHOWN))
    answers = digits_of(solved(ruled, x, TEST_SOLVE_SECONDS).z.float(), BOXES)
    quizzes, solutions = data.split().test.quizzes[:SHOWN], digits_of(boards.test.solution[:SHOWN], BOXES)
    draw_answers(files["handwritten"], quizzes, answers, solutions, BOXES, images=x)
    return Shown(record, files)


def finished(record: dict[str, Any] | None) -> dict[str, Any]:
    if record is None:
        raise KeyboardInterrupt
    return record


def learnt(folder: Path, network: nn.Module | None = None) -> NeuralILP:
    model = load(folder, networks={} if network is None else {"cost.network": network})
    assert isinstance(model, NeuralILP)
    return model


def board_share(record: dict[str, Any]) -> str:
    return f"{record['test']['board_accuracy']:.1%} of {sum(record['statuses'].values())}"
