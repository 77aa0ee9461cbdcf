"""Runs of the methods on small sudoku boards, from the boards to the record."""

from __future__ import annotations

import dataclasses
import functools
import time
from pathlib import Path

import pytest
import torch

from neuralilp.errors import InputError
from neuralilp.storage import load
from neuralilp.tasks.sudoku import methods, reading
from neuralilp.tasks.sudoku.boards import Boxes, one_hot
from neuralilp.tasks.sudoku.data import SudokuData, generate, read_csv, write_csv
from neuralilp.tasks.sudoku.digits import Digits
from neuralilp.tasks.sudoku.job import Answers, Boards, judged
from neuralilp.training import read_curves

SENTENCES = {
    "for every row and column, exactly one digit (16 rows)",
    "for every row and digit, exactly one column (16 rows)",
    "for every column and digit, exactly one row (16 rows)",
    "for every box of 2 rows by 2 columns and every digit, exactly one cell (16 rows)",
}


@functools.cache
def small(count: int = 400) -> SudokuData:
    return generate(Boxes(2, 2), count)


@functools.cache
def toy_digits() -> Digits:
    """Ten classes of noisy images: a bright square in one of ten places."""
    generator = torch.Generator().manual_seed(3)
    labels = torch.arange(600) % 10
    images = torch.randint(0, 60, (600, 28, 28), generator=generator)
    for image, label in zip(images, labels.tolist(), strict=True):
        row, column = 2 + 5 * (label % 5), 4 + 12 * (label // 5)
        image[row : row + 4, column : column + 6] += 150
    parts = [tensor.to(torch.uint8) for tensor in (images[:500], labels[:500], images[500:], labels[500:])]
    return Digits(*parts, source="toy digits")


def test_plus_reads_the_rules_off_the_solutions(tmp_path: Path) -> None:
    record = methods.run(small(), None, "ilploss-plus", out=tmp_path / "run")
    assert record is not None
    assert record["test"] == {"board_accuracy": 1.0, "vector_accuracy": 1.0, "variable_accuracy": 1.0}
    assert record["test_raw"]["board_accuracy"] == 1.0
    assert set(record["rules"][:4]) == SENTENCES
    assert record["rules"][4] == "64 rows in 4 sentences, 0 rows unexplained"
    assert record["has_true_rules"]
    assert record["setting"] == {"size": 4, "boxes": "2x2", "input": "symbolic"}
    assert methods.run(small(), None, "ilploss-plus", out=tmp_path / "run", resume=True) == record
    with pytest.raises(InputError, match="holds a run"):
        methods.run(small(), None, "ilploss-plus", out=tmp_path / "run")
    assert record["solved_by"] == "rules"
    rows = {name: load(tmp_path / "run" / name)(torch.zeros(64)).blocks for name in ("model", "model-raw")}
    assert [len(block.a) for block in rows["model"]] == [64]
    assert [len(block.a) for block in rows["model-raw"]] == [40]


def test_plus_learns_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST", 8)
    record = methods.run(small(), toy_digits(), "ilploss-plus", out=tmp_path)
    assert record is not None
    assert record["digits"] == "toy digits"
    assert record["test"]["board_accuracy"] >= 0.95
    assert record["has_true_rules"]


def test_reading_alone_knows_the_givens_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST", 8)
    record = methods.run(small(), toy_digits(), "neural", out=tmp_path)
    assert record is not None
    assert record["statuses"] == {"predicted": record["statuses"]["predicted"]}
    assert record["test"]["board_accuracy"] < 0.2
    assert (
        record["test"]["variable_accuracy"] > 0.75
    )  # 6 or 7 of 16 cells are given, and a guess has half its variables
    with pytest.raises(InputError, match="method neural reads images"):
        methods.run(small(), None, "neural", out=tmp_path / "symbolic")


@pytest.mark.parametrize("method", ["ilploss", "rrn", "satnet", "comboptnet"])
@pytest.mark.parametrize("digits", [None, toy_digits()], ids=["symbolic", "visual"])
def test_every_method_trains_and_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, digits: Digits | None
) -> None:
    for name in ("TEST_SOLVE_SECONDS", "TEST_BUDGET", "RAW_SECONDS", "RAW_BUDGET"):
        monkeypatch.setattr(methods, name, 0.3)
    record = methods.run(small(100), digits, method, out=tmp_path, time_limit=1.0)
    assert record is not None
    assert record.get("digits") == (None if digits is None else "toy digits")
    assert (record["train"], record["test_solutions_seen"]) == (90, 0)
    assert record["method"] == method
    assert record["steps"] > 0
    assert sum(record["statuses"].values()) == len(Boards.of(small(100), None, 0).test)
    assert 0 <= record["test"]["board_accuracy"] <= 1
    rows = read_curves(tmp_path / "curves.csv")
    assert "validation/board_accuracy" in rows[0]


def test_judging_counts_boards_and_what_is_not_answered() -> None:
    boards = Boards.of(small(), None, 0)
    right = boards.test.solution.clone()
    right[0] = torch.nan
    right[1] = right[1].roll(4)
    judgement = judged(lambda x: Answers(right, {"optimal": len(x)}), boards.test, boards.boxes)
    assert judgement.figures["board_accuracy"] == pytest.approx(1 - 2 / len(right))
    assert judgement.statuses == {"optimal": len(right)}


def test_boards_that_are_not_reached_in_time() -> None:
    """They are not solved in a test, and not judged in a sample."""
    boards = Boards.of(small(1200), None, 0)

    def slow(x: torch.Tensor) -> Answers:
        time.sleep(0.02)
        return Answers(boards.test.solution[: len(x)], {"optimal": len(x)})

    sample = judged(slow, boards.test, boards.boxes, budget=0.01)
    assert sample.statuses == {"optimal": 1}
    assert sample.figures["board_accuracy"] == 1
    whole = judged(slow, boards.test, boards.boxes, budget=0.01, is_sample=False)
    assert whole.statuses == {"optimal": 10, "not_tried": len(boards.test) - 10}
    assert whole.figures["board_accuracy"] == pytest.approx(10 / len(boards.test))


def test_a_run_goes_on_with_its_boards_from_the_file(tmp_path: Path) -> None:
    """Boards that were generated are read from their file the next time, and are the same."""
    made = small(100)
    record = methods.run(made, None, "ilploss-plus", out=tmp_path / "run")
    assert record is not None
    assert record["boards"] == made.source
    read = read_csv(write_csv(made, tmp_path / "4x4.csv"))
    assert read.source != made.source
    assert methods.run(read, None, "ilploss-plus", out=tmp_path / "run", resume=True) == record


def test_visual_boards_have_their_own_images() -> None:
    boards = Boards.of(small(), toy_digits(), 0)
    assert boards.input == "visual"
    assert boards.train.table is toy_digits().train_images
    assert boards.test.table is toy_digits().test_images
    images = boards.train.inputs(slice(0, 2))
    assert images.shape == (2, 16, 28, 28)
    givens = one_hot(small().split().train.quizzes, small().boxes)[:2].view(2, 16, 4).any(-1)
    assert torch.equal(images.flatten(2).any(-1), givens)


def test_unknown_method(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="method must be one of ilploss, ilploss-plus, rrn, satnet, comboptnet, neural"
    ):
        methods.run(small(), None, "magic", out=tmp_path)


def test_other_boards_do_not_resume_a_run(tmp_path: Path) -> None:
    methods.run(small(), None, "ilploss-plus", out=tmp_path)
    other = dataclasses.replace(small(), quizzes=small().quizzes.flip(0), solutions=small().solutions.flip(0))
    with pytest.raises(InputError, match="holds another run: its data_fingerprint"):
        methods.run(other, None, "ilploss-plus", out=tmp_path, resume=True)
