"""Distilled rules in the place of learnt constraints, and the comparison of row spaces."""

from __future__ import annotations

import pytest
import torch
from planted import grids, mixed, sudoku_rules

import neuralilp as ni
from neuralilp.distill import distill, same_row_space, with_rules
from neuralilp.errors import ShapeError


def test_distilled_program_solves_boards(generator: torch.Generator) -> None:
    """Learnt rows of 4×4 sudoku with slack; boards with six givens of their own solution are completed the same way."""
    rules, y = sudoku_rules(2, 2), grids(2, 2, 60)
    learnt = mixed(rules, -torch.ones(64).double(), 50, generator)
    known = ni.ConstraintBlock(torch.ones(1, 64).double(), -torch.full((1,), 15.0).double())
    bounds = ni.Bounds(torch.zeros(64).double(), torch.ones(64).double())
    program = ni.IntegerProgram(-y[:5], bounds, (learnt, known))
    replaced = with_rules(program, distill(program, y))
    assert replaced.cost is program.cost
    assert replaced.bounds is program.bounds
    assert replaced.learned == ()
    assert replaced.blocks[0] is known
    assert torch.equal(ni.solve(replaced).z, y[:5])


def test_model_keeps_cost_box_and_known_rows(generator: torch.Generator) -> None:
    learnable = ni.LearnableConstraints(2, 3, slack=0.1, generator=generator)
    with torch.no_grad():
        learnable.a.copy_(torch.tensor([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]))
        learnable.radius.copy_(torch.tensor([-1.0, -1.0]) / 3**0.5)
    known = ni.KnownConstraints(torch.tensor([[-1.0, 0.0, 0.0]]), torch.tensor([0.0]))
    inequality = ni.LearnableConstraints(1, 3, generator=generator)
    with torch.no_grad():
        inequality.a.copy_(torch.tensor([[0.0, 1.0, -1.0]]))
        inequality.radius.fill_(0.3)
        inequality.origin.zero_()
    model = ni.NeuralILP(ni.KnownCost(), [learnable, known, inequality], ni.Box(0, 1, 3))
    y = torch.tensor([[0.0, 1.0, 0.0]])
    distilled = distill([*model(y).learned], torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))
    replaced = with_rules(model, distilled)
    assert replaced.cost is model.cost
    assert replaced.box is model.box
    program = replaced(y)
    assert program.blocks[0].a.tolist() == [[-1, 0, 0]]
    assert [block.is_equality for block in program.blocks] == [False, True, False]
    assert program.learned == ()
    assert ni.solve(replaced(torch.tensor([[1.0, 1.0, -9.0]]))).z.tolist() == [[0, 1, 0]]


def test_another_number_of_variables() -> None:
    distilled = distill([], torch.zeros(2, 3))
    program = ni.IntegerProgram(torch.zeros(4), ni.Bounds(torch.zeros(4), torch.ones(4)))
    with pytest.raises(ShapeError, match="learnt must have the 3 variables of distilled, got 4"):
        with_rules(program, distilled)


def test_same_row_space() -> None:
    a, b = torch.tensor([[1.0, 1, 0], [0, 1, -1]]), torch.tensor([-1.0, 0])
    mixture = torch.tensor([[2.0, 1], [1, -1], [3, 0]])
    assert same_row_space(a, b, mixture @ a, mixture @ b)
    assert same_row_space(a[:0], b[:0], a[:0], b[:0])
    assert not same_row_space(a, b, a, b + 0.1)
    assert not same_row_space(a, b, a[:1], b[:1])
    assert not same_row_space(a, b, torch.tensor([[1.0, 1, 0], [0, 1, 1]]), b)
    assert not same_row_space(a, b, a[:0], b[:0])


@pytest.mark.wrong_types
def test_same_row_space_shapes() -> None:
    a, b = torch.zeros(2, 3), torch.zeros(2)
    with pytest.raises(ShapeError, match="a2 and b2 must be `constr var` and `constr` over the same variables"):
        same_row_space(a, b, torch.zeros(2, 4), b)
