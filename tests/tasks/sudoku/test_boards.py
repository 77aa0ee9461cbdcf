"""Boards, their variables and the rules."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from neuralilp.errors import InputError, ShapeError
from neuralilp.tasks.sudoku.boards import Boxes, agrees, as_boards, digits_of, is_solved, one_hot, rules

SOLVED = torch.tensor([[1, 2, 3, 4], [3, 4, 1, 2], [2, 1, 4, 3], [4, 3, 2, 1]], dtype=torch.int8)
FOUR, SIX = Boxes(2, 2), Boxes(2, 3)
WIDE = torch.tensor(
    [
        [1, 2, 3, 4, 5, 6],
        [4, 5, 6, 1, 2, 3],
        [2, 3, 1, 5, 6, 4],
        [5, 6, 4, 2, 3, 1],
        [3, 1, 2, 6, 4, 5],
        [6, 4, 5, 3, 1, 2],
    ]
)
"""Its boxes are 2 high and 3 wide; as 3 high and 2 wide they would hold 1, 2, 4, 5, 2, 3."""


@pytest.mark.parametrize(
    ("size", "boxes"), [(4, (2, 2)), (6, (2, 3)), (8, (2, 4)), (9, (3, 3)), (12, (3, 4)), (16, (4, 4)), (35, (5, 7))]
)
def test_boxes_of_a_size(size: int, boxes: tuple[int, int]) -> None:
    assert Boxes.of_size(size) == Boxes(*boxes)
    assert Boxes(*boxes).size == size
    assert Boxes(*boxes).num_variables == size**3


@pytest.mark.parametrize("size", [-4, 0, 1, 2, 3, 5, 7, 13])
def test_sizes_without_boxes(size: int) -> None:
    with pytest.raises(InputError, match=f"size must be a product of two numbers from 2 on.*got {size}$"):
        Boxes.of_size(size)


def test_bad_boxes() -> None:
    with pytest.raises(InputError, match="boxes must be at least 2 high and 2 wide, got 1x5"):
        Boxes(1, 5)
    with pytest.raises(InputError, match="boxes must have at most 35 cells, got 6x6 with 36"):
        Boxes.of_size(36)
    assert Boxes.parse("3x2") == Boxes(3, 2)
    for text in ("3", "3x", "ax2", "2x3x4", "-2x3"):
        with pytest.raises(InputError, match="boxes must look like 2x3"):
            Boxes.parse(text)


def test_one_hot_lays_out_row_column_digit() -> None:
    board = torch.zeros(1, 6, 6, dtype=torch.int8)
    board[0, 2, 3] = 5
    z = one_hot(board, SIX)
    assert z.shape == (1, 216)
    assert z.dtype == torch.float32
    assert z.nonzero().tolist() == [[0, 2 * 36 + 3 * 6 + 4]]


def test_digits_of_turns_one_hot_back() -> None:
    boards = torch.stack([SOLVED, SOLVED * torch.eye(4, dtype=torch.int8)])
    assert torch.equal(digits_of(one_hot(boards, FOUR), FOUR), boards)


def test_a_cell_that_is_not_one_hot_is_blank() -> None:
    z = one_hot(SOLVED[None], FOUR).view(4, 4, 4)
    z[0, 0, 1] = 1  # two digits
    z[1, 1, 3] = 0  # none
    z[2, 2, 0] = torch.nan
    z[3, 3] = torch.tensor([0.5, 0.5, 0, 0])
    z[0, 3] = torch.tensor([1.0, 0, 0, -1])
    z[3, 0] = torch.nan
    expected = SOLVED.clone()
    for row, column in ((0, 0), (1, 1), (2, 2), (3, 3), (0, 3), (3, 0)):
        expected[row, column] = 0
    assert torch.equal(digits_of(z.view(1, 64), FOUR)[0], expected)


def test_is_solved() -> None:
    assert is_solved(SOLVED[None], FOUR).tolist() == [True]
    assert is_solved(WIDE[None], SIX).tolist() == [True]
    assert is_solved(WIDE[None], Boxes(3, 2)).tolist() == [False]
    assert is_solved(WIDE.mT[None], Boxes(3, 2)).tolist() == [True]
    assert is_solved(torch.zeros(0, 4, 4), FOUR).tolist() == []


def naive_is_solved(board: Tensor, boxes: Boxes) -> bool:
    k = boxes.size
    cells = [(row, column) for row in range(k) for column in range(k)]
    for same in (
        lambda row, column: row,
        lambda row, column: column,
        lambda row, column: (row // boxes.rows, column // boxes.columns),
    ):
        for unit in {same(*cell) for cell in cells}:
            if sorted(int(board[cell]) for cell in cells if same(*cell) == unit) != list(range(1, k + 1)):
                return False
    return True


def test_is_solved_against_loops(generator: torch.Generator) -> None:
    """Any change of one or two cells spoils a grid; only one of those swaps that keep the rows' digits does not."""
    boards = [SOLVED.clone() for _ in range(200)]
    for board in boards[1:]:
        cells = torch.randint(4, (2, 2), generator=generator).tolist()
        board[tuple(cells[0])], board[tuple(cells[1])] = board[tuple(cells[1])].item(), board[tuple(cells[0])].item()
    boards += [torch.randint(5, (4, 4), generator=generator, dtype=torch.int8) for _ in range(50)]
    found = is_solved(torch.stack(boards), FOUR).tolist()
    assert found == [naive_is_solved(board, FOUR) for board in boards]
    assert 0 < sum(found) < len(found)


def test_rows_alone_are_not_enough() -> None:
    rows_only = torch.tensor([1, 2, 3, 4]).repeat(4, 1)
    latin = torch.stack([torch.arange(4).roll(-shift) + 1 for shift in range(4)])  # no boxes
    assert is_solved(torch.stack([rows_only, rows_only.mT, latin]), FOUR).tolist() == [False] * 3


def test_agrees() -> None:
    quiz = SOLVED * torch.eye(4, dtype=torch.int8)
    other = quiz.clone()
    other[3, 3] = 2
    boards = SOLVED.expand(2, 4, 4)
    assert agrees(boards, torch.stack([quiz, other])).tolist() == [True, False]
    with pytest.raises(ShapeError, match="boards and quizzes must have one shape"):
        agrees(boards, quiz[None])


@pytest.mark.parametrize("boxes", [FOUR, SIX, Boxes(3, 2)])
def test_rules_hold_on_solved_boards_alone(boxes: Boxes) -> None:
    a, b = rules(boxes)
    k = boxes.size
    assert a.shape == (4 * k * k, k**3)
    assert a.sum(1).tolist() == [k] * (4 * k * k)
    assert b.tolist() == [-1] * (4 * k * k)
    board = SOLVED if k == 4 else WIDE if boxes == SIX else WIDE.mT
    z = one_hot(board[None], boxes)[0]
    assert (a @ z + b == 0).all()
    swapped = board.clone()
    swapped[0] = board[k - 1]
    assert (a @ one_hot(swapped[None], boxes)[0] + b != 0).any()


def test_order_of_the_rules() -> None:
    a, _ = rules(SIX)
    z = one_hot(WIDE[None], SIX)[0].view(6, 6, 6)
    z[1, 4] = 0  # a 2: no digit in that cell, no 2 in row 1, column 4 and the box on the top right
    wrong = (a @ z.flatten() == 0).nonzero().flatten().tolist()
    assert wrong == [1 * 6 + 4, 36 + 1 * 6 + 1, 72 + 4 * 6 + 1, 108 + 1 * 6 + 1]


@pytest.mark.wrong_types
@pytest.mark.parametrize(
    ("boards", "message"),
    [
        (torch.zeros(2, 9, 9), r"quizzes must be `board 4 4`, got shape \(2, 9, 9\)"),
        (torch.zeros(4, 4), r"quizzes must be `board 4 4`, got shape \(4, 4\)"),
        (torch.zeros(1, 4, 4, dtype=torch.bool), "quizzes must hold digits, got torch.bool"),
        (torch.full((1, 4, 4), 1.5), "quizzes must be integral: board 0 has 1.5 in row 1, column 1"),
        (torch.full((1, 4, 4), torch.nan), "quizzes must be integral: board 0 has nan in row 1, column 1"),
        (torch.full((1, 4, 4), torch.inf), "quizzes must hold digits from 1 to 4, .*: board 0 has inf"),
        (torch.full((1, 4, 4), -1), "quizzes must hold digits from 1 to 4, and 0 for a blank: board 0 has -1"),
        (
            torch.stack([SOLVED, 257 * (SOLVED == 4) * torch.ones(4, 4, dtype=torch.int64)]),
            "quizzes must hold digits from 1 to 4, and 0 for a blank: board 1 has 257 in row 1, column 4",
        ),
    ],
)
def test_bad_boards_are_named(boards: Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_boards(boards, FOUR, "quizzes")


@pytest.mark.wrong_types
def test_bad_variables_are_named() -> None:
    with pytest.raises(ShapeError, match=r"z must be `board 64` for boards of size 4, got shape \(1, 216\)"):
        digits_of(torch.zeros(1, 216), FOUR)
