"""Batch negatives: every other solution of the mini-batch."""

from __future__ import annotations

import pytest
import torch

from neuralilp.blocks import Bounds
from neuralilp.negatives import BatchNegatives, admissible
from neuralilp.program import IntegerProgram


def program(n: int) -> IntegerProgram:
    return IntegerProgram(torch.zeros(n), Bounds(torch.zeros(n), torch.full((n,), 9.0)))


@pytest.mark.parametrize("size", [2, 5])
def test_every_other_solution_once(size: int) -> None:
    y = torch.arange(size).float().unsqueeze(-1).expand(size, 3).contiguous()
    points = BatchNegatives()(program(3), y).points()
    assert points.shape == (size, size - 1, 3)
    for i in range(size):
        assert sorted(points[i, :, 0].tolist()) == [k for k in range(size) if k != i]


def test_equal_solutions_are_masked() -> None:
    y = torch.tensor([[1.0, 2.0], [1.0, 2.0], [3.0, 4.0]])
    negatives = BatchNegatives()(program(2), y)
    assert [sorted(row) for row in admissible(program(2), negatives).tolist()] == [[False, True]] * 2 + [[True, True]]


def test_several_batch_dimensions() -> None:
    """Along the last one: runs do not mix."""
    y = torch.arange(6.0).view(2, 3, 1)
    points = BatchNegatives()(program(1), y).points()
    assert points.shape == (2, 3, 2, 1)
    for run in range(2):
        for i in range(3):
            assert sorted(points[run, i, :, 0].tolist()) == [3 * run + k for k in range(3) if k != i]


def test_batch_of_one_and_no_batch() -> None:
    assert BatchNegatives()(program(2), torch.zeros(1, 2)).points().shape == (1, 0, 2)
    assert BatchNegatives()(program(2), torch.zeros(4, 1, 2)).points().shape == (4, 1, 0, 2)
    assert BatchNegatives()(program(2), torch.zeros(2)).points().shape == (0, 2)
