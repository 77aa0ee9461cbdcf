"""The plain formulation against the naive loops: it is what the fast path and the benchmarks are held to."""

from __future__ import annotations

import math

import oracles
import pytest
import torch
from strategies import BOXES, random_case

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.dense import assignment, dense_rows, dense_terms
from neuralilp.negatives import OneHop
from neuralilp.program import IntegerProgram


@pytest.mark.parametrize("temperature", [1.0, 0.1, 0.0])
@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("rows", ["inequalities", "equalities", "mixed", "network", "restarts", "none"])
def test_agrees_with_naive_loops(rows: str, box: str, temperature: float) -> None:
    case = random_case(rows, box, cost_is_learned=True, batch=2)
    points = case.negatives.points()
    terms = dense_terms(case.program, case.solution, points, temperature, 0.3, 0.2)
    expected = oracles.terms(case.program, case.solution, points, temperature, 0.3, 0.2)
    for name in ("positive", "negative", "covariance"):
        mine, its = getattr(terms, name), getattr(expected, name)
        assert mine.item() == pytest.approx(its.item(), rel=1e-11, abs=1e-13)
        if not its.requires_grad:
            continue
        mine, its = (torch.autograd.grad(t, case.leaves, retain_graph=True, allow_unused=True) for t in (mine, its))
        for slope, expected_slope in zip(mine, its, strict=True):
            slope = torch.zeros(()) if slope is None else slope
            expected_slope = torch.zeros_like(slope) if expected_slope is None else expected_slope
            torch.testing.assert_close(slope, expected_slope, rtol=1e-9, atol=1e-11, check_dtype=False)
    for name in ("masked", "separated", "inside"):
        assert getattr(terms, name).item() == pytest.approx(getattr(expected, name), abs=1e-6)


def test_rows_are_unit_and_end_with_the_cost() -> None:
    """3x + 4y - 5 >= 0, then the box [0, 2]², then -c·z + c·y* >= 0 for c = (0, 2) at y* = (1, 1)."""
    block = ConstraintBlock(torch.tensor([[3.0, 4.0]]), torch.tensor([-5.0]), None, True)
    bounds = Bounds(torch.zeros(2), torch.full((2,), 2.0))
    program = IntegerProgram(torch.tensor([0.0, 2.0]), bounds, (block,))
    a, b, learned = dense_rows(program, torch.ones(1, 2))
    flat = [value for row in [[0.6, 0.8], [1, 0], [0, 1], [-1, 0], [0, -1], [0, -1]] for value in row]
    assert a.flatten().tolist() == pytest.approx(flat)
    assert b.tolist()[0] == pytest.approx([-1, 0, 0, 2, 2, 1])
    assert learned == [0]


def test_assignment() -> None:
    d = torch.tensor([[0.0, math.log(3), math.log(3)]])
    assert assignment(d, 1.0).tolist()[0] == pytest.approx([0.6, 0.2, 0.2])
    assert assignment(d, 0.5).tolist()[0] == pytest.approx([9 / 11, 1 / 11, 1 / 11])
    assert assignment(torch.tensor([[1.0, -2.0, -2.0]]), 0.0).tolist() == [[0.0, 0.5, 0.5]]


@pytest.mark.parametrize("temperature", [0.1, 0.0])
def test_bounds_that_are_infinite_in_some_examples(temperature: float) -> None:
    """A bound that only some examples have is infinitely far for the others: no weight, and no NaN."""
    lower = torch.tensor([[0.0, 0.0], [-math.inf, 0.0]])
    block = ConstraintBlock(torch.tensor([[1.0, 2.0]]), torch.tensor([1.0]), None, True)
    program = IntegerProgram(torch.ones(2), Bounds(lower, torch.full((2, 2), 5.0)), (block,))
    y = torch.ones(2, 2)
    points = OneHop()(program, y).points()
    terms = dense_terms(program, y, points, temperature)
    expected = oracles.terms(program, y, points, temperature)
    assert terms.negative.item() == pytest.approx(expected.negative.item(), rel=1e-5)
