"""Boards by learnt rules: answers that keep all givens, or none."""

from __future__ import annotations

import pytest
import torch

from neuralilp.constraints import Box, KnownConstraints
from neuralilp.costs import KnownCost
from neuralilp.errors import InputError, ShapeError
from neuralilp.model import NeuralILP
from neuralilp.solving import Status
from neuralilp.tasks.sudoku.boards import Boxes, rules
from neuralilp.tasks.sudoku.data import generate
from neuralilp.tasks.sudoku.solving import solve_boards

BOXES = Boxes(2, 2)


@pytest.fixture(scope="module")
def model() -> NeuralILP:
    return NeuralILP(KnownCost(-1.0), [KnownConstraints(*rules(BOXES), slack=0.0)], Box(0.0, 1.0, 64))


def test_puzzles_are_solved(model: NeuralILP) -> None:
    data = generate(BOXES, 20)
    found = solve_boards(model, data.quizzes, BOXES)
    assert torch.equal(found.boards, data.solutions)
    assert set(found.status) == {Status.OPTIMAL}


def test_an_unsolvable_puzzle_has_no_board(model: NeuralILP) -> None:
    """Two 1s in a row; and a cell that sees all four digits, with no two givens in conflict."""
    twice, blocked = torch.zeros(2, 4, 4, dtype=torch.int8)
    twice[0, 0] = twice[0, 3] = 1
    blocked[0, 1], blocked[0, 2], blocked[2, 0], blocked[3, 0] = 1, 2, 3, 4
    good = generate(BOXES, 1)
    found = solve_boards(model, torch.stack([twice, blocked, good.quizzes[0]]), BOXES)
    assert found.status == (Status.INFEASIBLE, Status.INFEASIBLE, Status.OPTIMAL)
    assert not found.boards[:2].any()
    assert torch.equal(found.boards[2], good.solutions[0])


def test_rules_that_say_too_little_give_no_board() -> None:
    """One digit a cell and nothing else: every quiz is filled up, all cells that are blank alike."""
    a, b = (part[:16] for part in rules(BOXES))
    loose = NeuralILP(KnownCost(-1.0), [KnownConstraints(a, b, slack=0.0)], Box(0.0, 1.0, 64))
    quizzes = torch.zeros(1, 4, 4, dtype=torch.int8)
    quizzes[0, 0] = quizzes[0, 1] = torch.tensor([1, 1, 0, 0])  # no sudoku, but these rules allow it
    found = solve_boards(loose, quizzes, BOXES)
    assert found.status == (Status.NO_SOLUTION,)
    assert not found.boards.any()


def test_bad_boards(model: NeuralILP) -> None:
    with pytest.raises(ShapeError, match=r"quizzes must be `board 4 4`, got shape \(1, 6, 6\)"):
        solve_boards(model, torch.zeros(1, 6, 6), BOXES)
    with pytest.raises(InputError, match="quizzes must hold digits from 1 to 4, and 0 for a blank"):
        solve_boards(model, torch.full((1, 4, 4), 5), BOXES)
    with pytest.raises(InputError, match="model must have 216 variables for boxes of 2x3, got 64"):
        solve_boards(model, torch.zeros(1, 6, 6), Boxes(2, 3))
