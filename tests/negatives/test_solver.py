"""Solver negatives: the answer of HiGHS to the program as it stands."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.errors import InputError
from neuralilp.negatives import SolverNegatives, admissible
from neuralilp.program import IntegerProgram


def test_the_optimum_is_the_negative() -> None:
    """x + y <= 1.5 in {0, 1}² with costs (-1, -2) has the optimum (0, 1): wrong for y* = (1, 0), and y* for (0, 1)."""
    a = torch.tensor([[-1.0, -1.0]], requires_grad=True)
    block = ConstraintBlock(a, torch.tensor([1.5]), None, True)
    program = IntegerProgram(torch.tensor([-1.0, -2.0]), Bounds(torch.zeros(2), torch.ones(2)), (block,))
    y = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    negatives = SolverNegatives()(program, y)
    assert negatives.points().tolist() == [[[0, 1]], [[0, 1]]]
    assert admissible(program, negatives).tolist() == [[True], [False]]
    assert not negatives.points().requires_grad


def test_no_answer_gives_no_negative() -> None:
    """Example 0 is infeasible (x + y >= 3 in {0, 1}²), example 1 is not: y* stands in, masked."""
    block = ConstraintBlock(torch.ones(2, 1, 2), torch.tensor([[-3.0], [-1.0]]), None, True)
    program = IntegerProgram(torch.tensor([1.0, 2.0]), Bounds(torch.zeros(2), torch.ones(2)), (block,))
    y = torch.ones(2, 2)
    negatives = SolverNegatives(backend="highs")(program, y)
    assert negatives.points().tolist() == [[[1, 1]], [[1, 0]]]
    assert admissible(program, negatives).tolist() == [[False], [True]]


def test_unbounded_gives_no_negative() -> None:
    free = Bounds(torch.full((1,), -torch.inf), torch.full((1,), torch.inf))
    block = ConstraintBlock(torch.ones(1, 1), torch.zeros(1), None, True)
    program = IntegerProgram(-torch.ones(1), free, (block,))
    negatives = SolverNegatives()(program, torch.tensor([[4.0]]))
    assert negatives.points().tolist() == [[[4.0]]]
    assert not admissible(program, negatives).any()


def test_restarts_are_solved_once_a_program() -> None:
    """Rows `(2, 1)` against solutions `(2, 3)`: the answer of a run is the negative of all its examples."""
    block = ConstraintBlock(torch.tensor([[[[1.0]]], [[[1.0]]]]), torch.tensor([[[-2.0]], [[-5.0]]]), None, True)
    program = IntegerProgram(torch.ones(1), Bounds(torch.zeros(1), torch.full((1,), 9.0)), (block,))
    y = torch.full((2, 3, 1), 7.0)
    assert SolverNegatives()(program, y).points().flatten(1).tolist() == [[2, 2, 2], [5, 5, 5]]


def test_relaxations_are_no_negatives() -> None:
    with pytest.raises(InputError, match="relax must not be set"):
        SolverNegatives(relax=True)


def test_a_share_of_the_batches_is_solved() -> None:
    """About a quarter of 200, by the generator alone; the others have no negatives at all."""
    program = IntegerProgram(torch.tensor([-1.0, -2.0]), Bounds(torch.zeros(2), torch.ones(2)))
    sampler, y = SolverNegatives(share=0.25), torch.zeros(3, 2)
    drawn = [sampler(program, y, generator=torch.Generator().manual_seed(seed)) for seed in range(200)]
    solved = [negatives for negatives in drawn if len(negatives)]
    assert 25 < len(solved) < 75
    assert all(negatives.points().tolist() == [[[1, 1]]] * 3 for negatives in solved)
    again = [sampler(program, y, generator=torch.Generator().manual_seed(seed)) for seed in range(10)]
    assert [len(negatives) for negatives in again] == [len(negatives) for negatives in drawn[:10]]


@pytest.mark.parametrize("share", [0.0, 1.5, float("nan")])
def test_bad_share(share: float) -> None:
    with pytest.raises(InputError, match="share must be above 0 and at most 1, got"):
        SolverNegatives(share=share)


def test_with_a_margin_points_just_outside_are_found() -> None:
    """x + y <= 1.5 keeps (1, 1) out by 0.5/sqrt(2) = 0.354: a margin of 0.4 finds it, one of 0.3 does not."""
    block = ConstraintBlock(torch.tensor([[-1.0, -1.0]]), torch.tensor([1.5]), None, True)
    program = IntegerProgram(torch.tensor([-1.0, -2.0]), Bounds(torch.zeros(2), torch.ones(2)), (block,))
    y = torch.tensor([[0.0, 1.0]])
    assert SolverNegatives(margin=0.3)(program, y).points().tolist() == [[[0, 1]]]
    assert SolverNegatives(margin=0.4)(program, y).points().tolist() == [[[1, 1]]]
    known = dataclasses.replace(program, blocks=(dataclasses.replace(block, is_learned=False),))
    assert SolverNegatives(margin=0.4)(known, y).points().tolist() == [[[0, 1]]]


def test_an_equality_is_loosened_on_both_sides() -> None:
    """x + y = 1 with slack 0.1 on unit rows: 0 and 2 are 1/sqrt(2) away."""
    block = ConstraintBlock(torch.ones(1, 2), -torch.ones(1), torch.tensor([0.1]), True)
    cost, y = torch.tensor([[1.0, 2.0], [-1.0, -2.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    program = IntegerProgram(cost, Bounds(torch.zeros(2), torch.ones(2)), (block,))
    assert SolverNegatives(margin=0.5)(program, y).points().tolist() == [[[1, 0]], [[0, 1]]]
    assert SolverNegatives(margin=0.7)(program, y).points().tolist() == [[[0, 0]], [[1, 1]]]


@pytest.mark.parametrize("margin", [-0.1, float("nan"), float("inf")])
def test_bad_margins(margin: float) -> None:
    with pytest.raises(InputError, match="margin must be at least 0"):
        SolverNegatives(margin=margin)
