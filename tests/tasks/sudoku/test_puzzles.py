"""Quizzes with one solution, and counting solutions."""

from __future__ import annotations

import pytest
import torch

from neuralilp.errors import InputError
from neuralilp.tasks.sudoku.boards import Boxes, agrees, is_solved
from neuralilp.tasks.sudoku.grids import random_grids
from neuralilp.tasks.sudoku.puzzles import count_solutions, default_givens, random_puzzles, solve_by_propagation

HARD = (
    "800000000003600000070090200050007000000045700000100030001000068008500010090000400",
    "812753649943682175675491283154237896369845721287169534521974368438526917796318452",
)
"""A public puzzle with one solution that singles do not find."""


def board(text: str, size: int = 9) -> torch.Tensor:
    return torch.tensor([int(digit) for digit in text], dtype=torch.int8).view(size, size)


@pytest.mark.parametrize("boxes", [(2, 2), (2, 3), (3, 2), (3, 3)])
def test_puzzles_have_one_solution(boxes: tuple[int, int], generator: torch.Generator) -> None:
    shape = Boxes(*boxes)
    grids = random_grids(20, shape, generator)
    quizzes = random_puzzles(grids, shape, generator)
    assert quizzes.dtype == torch.int8
    assert agrees(grids, quizzes).all()
    assert torch.equal(solve_by_propagation(quizzes, shape), grids)
    assert {count_solutions(quiz, shape) for quiz in quizzes[:5]} == {1}
    fewest, most = default_givens(shape)
    givens = (quizzes != 0).flatten(1).sum(1)
    assert int(givens.min()) >= fewest
    assert int(givens.max()) <= most
    assert len(givens.unique()) > 1


def test_default_givens() -> None:
    assert {size: default_givens(Boxes.of_size(size)) for size in (4, 6, 9, 16)} == {
        4: (6, 7),
        6: (13, 16),
        9: (29, 37),
        16: (92, 117),
    }


def test_as_many_givens_as_asked_for_or_as_few_as_can_be(generator: torch.Generator) -> None:
    boxes = Boxes(3, 3)
    grids = random_grids(30, boxes, generator)
    assert (random_puzzles(grids, boxes, generator, 50) != 0).flatten(1).sum(1).tolist() == [50] * 30
    assert torch.equal(random_puzzles(grids, boxes, generator, 81), grids)
    drawn = (random_puzzles(grids, boxes, generator, (40, 42)) != 0).flatten(1).sum(1)
    assert drawn.unique().tolist() == [40, 41, 42]
    minimal = random_puzzles(grids[:5], boxes, generator, 0)
    for quiz, grid in zip(minimal, grids, strict=False):  # without any one given, singles do not get there
        cells = (quiz != 0).nonzero()
        fewer = quiz.repeat(len(cells), 1, 1)
        fewer[torch.arange(len(cells)), cells[:, 0], cells[:, 1]] = 0
        solved = solve_by_propagation(fewer, boxes)
        assert not (solved == grid).flatten(1).all(1).any()


def test_blanks_are_everywhere(generator: torch.Generator) -> None:
    """Every cell is given in 33 of 81 quizzes on average, none of them by its place."""
    boxes = Boxes(3, 3)
    given = (random_puzzles(random_grids(300, boxes, generator), boxes, generator) != 0).double().mean(0)
    assert float(given.min()) > 0.3
    assert float(given.max()) < 0.52


@pytest.mark.parametrize("givens", [-1, 82, (5, 4), (5, 82)])
def test_bad_givens(givens: int | tuple[int, int]) -> None:
    with pytest.raises(InputError, match=r"givens must be a number of cells.* between 0 and 81, got"):
        random_puzzles(torch.zeros(0, 9, 9), Boxes(3, 3), torch.Generator(), givens)


def test_grids_must_be_solved(generator: torch.Generator) -> None:
    grids = random_grids(3, Boxes(2, 2), generator)
    grids[2, 0, 0] = 0
    with pytest.raises(InputError, match="grids must be solved boards: board 2 breaks the rules of 2x2 boxes"):
        random_puzzles(grids, Boxes(2, 2), generator)


def test_no_grids_no_puzzles() -> None:
    assert random_puzzles(torch.zeros(0, 4, 4), Boxes(2, 2), torch.Generator()).shape == (0, 4, 4)


def test_singles_do_not_guess() -> None:
    quiz = board(HARD[0])
    found = solve_by_propagation(quiz[None], Boxes(3, 3))[0]
    assert (found == 0).any()
    assert agrees(board(HARD[1])[None], found[None]).all()
    assert count_solutions(quiz, Boxes(3, 3)) == 1
    assert not solve_by_propagation(torch.zeros(1, 9, 9), Boxes(3, 3)).any()


def test_a_contradictory_quiz_comes_back_as_it_was() -> None:
    """Row 1 lacks the 4 alone, and the fourth column has it already: no 4 fits."""
    quiz = board("1230000000000004", size=4)
    twice = board("1000000000000001", size=4)
    twice[0, 3] = 1
    fine = board("1230000000004000", size=4)
    solved = solve_by_propagation(torch.stack([quiz, twice, fine]), Boxes(2, 2))
    assert torch.equal(solved[0], quiz)
    assert torch.equal(solved[1], twice)
    assert solved[2, 0].tolist() == [1, 2, 3, 4]
    assert [count_solutions(board, Boxes(2, 2)) for board in (quiz, twice)] == [0, 0]


def test_count_solutions_against_all_grids(generator: torch.Generator) -> None:
    """4x4 has 288 grids, so the solutions of a quiz can be counted by comparing it with each."""
    boxes = Boxes(2, 2)
    grids = random_grids(6000, boxes, generator).unique(dim=0)
    assert len(grids) == 288
    assert is_solved(grids, boxes).all()
    quizzes = torch.randint(5, (50, 4, 4), generator=generator)
    quizzes *= torch.rand(50, 4, 4, generator=generator) < torch.linspace(0.1, 0.5, 50).view(-1, 1, 1)
    counts = []
    for quiz in quizzes:
        exact = int(agrees(grids, quiz.expand_as(grids)).sum())
        counts.append(exact)
        assert count_solutions(quiz, boxes, most=1000) == exact
        assert count_solutions(quiz, boxes) == min(exact, 2)
    assert {0, 1} < set(counts)


def test_bad_counts() -> None:
    with pytest.raises(InputError, match="most must be positive, got 0"):
        count_solutions(torch.zeros(4, 4), Boxes(2, 2), most=0)
    with pytest.raises(InputError, match=r"quiz must be `board 4 4`, got shape \(1, 9, 9\)"):
        count_solutions(torch.zeros(9, 9), Boxes(2, 2))
