"""The step benchmark: its two sides compute the same thing. No time is asserted."""

from __future__ import annotations

import pytest
import torch

from neuralilp import InputError
from neuralilp.bench.data import random_constraints_batch, sudoku_batch
from neuralilp.bench.step import bench_step


@pytest.mark.parametrize("size", [4, 6, 9])
def test_sudoku_batch_holds_valid_boards(size: int) -> None:
    rows, columns = {4: (2, 2), 6: (2, 3), 9: (3, 3)}[size]
    x, y = sudoku_batch(size, 3, torch.Generator().manual_seed(0))
    board = y.view(3, size, size, size)
    boxes = board.view(3, size // rows, rows, size // columns, columns, size).sum((2, 4))
    for counts in (board.sum(1), board.sum(2), board.sum(3), boxes):
        assert (counts == 1).all()
    assert ((x == 0) | (x == y)).all()
    assert len({tuple(row.tolist()) for row in y}) == 3


def test_random_constraints_batch_is_integral_and_in_its_box() -> None:
    cost, y = random_constraints_batch(3, torch.Generator().manual_seed(0))
    assert cost.shape == y.shape == (3, 16)
    assert (y == y.round()).all()
    assert y.abs().max() <= 5


@pytest.mark.parametrize(("task", "size"), [("sudoku", 4), ("random-constraints", 9)])
def test_sides_agree(task: str, size: int) -> None:
    result = bench_step(task, size=size, batch=3, repeats=1, compile=False)  # type: ignore[arg-type]
    assert result["loss_difference"] < 1e-5
    assert result["gradient_difference"] < 1e-5
    assert result["compiled"] == "no"
    assert result["speedup"] == pytest.approx(result["dense_ms"] / result["fast_ms"], rel=0.05)
    assert min(result["dense_peak_mb"], result["fast_peak_mb"]) > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 5}, "size must be one of"),
        ({"batch": 0}, "batch and threads must be positive"),
    ],
)
def test_bad_options(options: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        bench_step("sudoku", **options)  # type: ignore[arg-type]
