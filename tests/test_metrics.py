"""Metrics on hand-made answers; an unsolved example is wrong, infeasible and has gap 1."""

from __future__ import annotations

import math

import pytest
import torch

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.errors import InputError, ShapeError
from neuralilp.metrics import cost_gap, feasibility, variable_accuracy, vector_accuracy
from neuralilp.program import IntegerProgram

NAN = float("nan")
TARGET = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
ANSWER = torch.tensor([[1.0, 0.0], [1.0, 0.0], [NAN, NAN], [1.0, 1.0]])


def test_accuracies() -> None:
    """Example 0 is right; 1 has one of two variables; 2 is unsolved; 3 has none. So 1/4, and (2 + 1)/8."""
    assert vector_accuracy(ANSWER, TARGET) == 0.25
    assert variable_accuracy(ANSWER, TARGET) == 3 / 8
    assert vector_accuracy(TARGET + 1e-7, TARGET) == 1.0
    assert variable_accuracy(torch.full_like(TARGET, 0.5), TARGET) == 0.0
    assert isinstance(vector_accuracy(ANSWER, TARGET), float)


def test_feasibility() -> None:
    """x + y <= 1: the first two answers hold it, NaN does not, (1, 1) does not; nor does a fraction."""
    program = IntegerProgram(
        torch.ones(2),
        Bounds(torch.zeros(2), torch.ones(2)),
        (ConstraintBlock(-torch.ones(1, 2), torch.ones(1)),),
    )
    assert feasibility(program, ANSWER) == 0.5
    assert feasibility(program, ANSWER.double()) == 0.5
    assert feasibility(program, torch.tensor([[0.5, 0.0]])) == 0.0
    batch = IntegerProgram(torch.ones(4, 2), program.bounds, program.blocks)
    assert feasibility(batch, ANSWER) == 0.5


def test_cost_gap() -> None:
    """c = (2, 1). Example 0: equal, 0. 1: cheaper than the target, 0. 2: unsolved, 1. 3: costs 3 against 0, so 1."""
    assert cost_gap(torch.tensor([2.0, 1.0]), ANSWER, TARGET) == 0.5
    # -3 against -4: 1/4 dearer. Costs a batch, and a maximisation's negative costs, work alike.
    cost = torch.tensor([[-3.0, -1.0]])
    assert cost_gap(cost, torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]])) == pytest.approx(0.25)
    # Ten times dearer is clipped to 1.
    assert cost_gap(torch.tensor([1.0, 10.0]), torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]])) == 1.0


@pytest.mark.parametrize("function", [vector_accuracy, variable_accuracy, lambda z, y: cost_gap(torch.ones(2), z, y)])
def test_bad_input(function: object) -> None:
    assert callable(function)
    with pytest.raises(ShapeError, match=r"one shape `\*batch var`, got \(4, 2\) and \(3, 2\)"):
        function(ANSWER, TARGET[:3])
    with pytest.raises(InputError, match="target must be finite"):
        function(TARGET, ANSWER)
    with pytest.raises(InputError, match="at least one example"):
        function(TARGET[:0], TARGET[:0])


def test_bad_cost_and_empty_answers() -> None:
    with pytest.raises(ShapeError, match="cost must broadcast"):
        cost_gap(torch.ones(3), ANSWER, TARGET)
    program = IntegerProgram(torch.ones(2), Bounds(torch.zeros(2), torch.ones(2)))
    with pytest.raises(InputError, match="at least one example"):
        feasibility(program, TARGET[:0])
    assert not math.isnan(feasibility(program, torch.full((1, 2), NAN)))
