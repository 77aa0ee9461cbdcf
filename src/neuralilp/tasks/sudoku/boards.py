"""Boards of sudoku: their boxes, their digits, the one-hot vectors of their programs, and the rules.

A board is ``k × k`` cells of int8, row by row: digits from 1 to k, 0 for a blank. The variables of its program are
``z[row, column, digit - 1]``, flattened in that order: n = k³.
"""

from __future__ import annotations

import dataclasses
import math
import re

import torch
from jaxtyping import Bool, Float, Int8
from torch import Tensor

from neuralilp.errors import InputError, ShapeError

LARGEST = 35
"""Of the sizes: digits are written 1 to 9 and then A to Z."""


@dataclasses.dataclass(frozen=True)
class Boxes:
    """Boxes that are ``rows`` high and ``columns`` wide, on a board of ``rows · columns`` digits."""

    rows: int
    columns: int

    def __post_init__(self) -> None:
        if self.rows < 2 or self.columns < 2:
            raise InputError(f"boxes must be at least 2 high and 2 wide, got {self}")
        if self.size > LARGEST:
            raise InputError(f"boxes must have at most {LARGEST} cells, got {self} with {self.size}")

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}"

    @property
    def size(self) -> int:
        """k: the digits, and the cells of a row, of a column and of a box."""
        return self.rows * self.columns

    @property
    def num_variables(self) -> int:
        return self.size**3

    @classmethod
    def of_size(cls, size: int) -> Boxes:
        """The most square boxes of a size, no higher than wide: 2x2 for 4, 2x3 for 6, 3x3 for 9."""
        for rows in range(math.isqrt(max(size, 0)), 1, -1):
            if size % rows == 0:
                return cls(rows, size // rows)
        raise InputError(f"size must be a product of two numbers from 2 on, such as 4, 6, 8 or 9, got {size}")

    @classmethod
    def parse(cls, text: str) -> Boxes:
        """Boxes out of ``2x3``: 2 high and 3 wide."""
        match = re.fullmatch(r"([0-9]{1,3})x([0-9]{1,3})", text.strip())
        if match is None:
            raise InputError(f"boxes must look like 2x3 (2 high, 3 wide), got {text!r}")
        return cls(int(match[1]), int(match[2]))


def as_boards(values: Tensor, boxes: Boxes, name: str = "boards") -> Int8[Tensor, "board row column"]:
    """Boards out of any tensor of numbers, checked: the size, and in every cell an integer from 0 to k."""
    k = boxes.size
    if values.ndim != 3 or values.shape[1:] != (k, k):
        raise ShapeError(f"{name} must be `board {k} {k}`, got shape {tuple(values.shape)}")
    if values.is_complex() or values.dtype == torch.bool:
        raise ShapeError(f"{name} must hold digits, got {values.dtype}")
    if values.is_floating_point():
        _require(values == values.round(), values, f"{name} must be integral")
    _require((values >= 0) & (values <= k), values, f"{name} must hold digits from 1 to {k}, and 0 for a blank")
    return values.to(torch.int8)


def one_hot(boards: Tensor, boxes: Boxes) -> Float[Tensor, "board n"]:
    """The variables z of boards; a blank is all zeros."""
    digits = as_boards(boards, boxes).long()
    return torch.nn.functional.one_hot(digits, boxes.size + 1)[..., 1:].flatten(1).float()


def digits_of(z: Float[Tensor, "board n"], boxes: Boxes) -> Int8[Tensor, "board row column"]:
    """The boards of variables; blank wherever a cell is not one-hot, as where a solver has no answer (NaN)."""
    k = boxes.size
    if z.ndim != 2 or z.shape[1] != k**3:
        raise ShapeError(f"z must be `board {k**3}` for boards of size {k}, got shape {tuple(z.shape)}")
    cells = z.view(-1, k, k, k)
    is_one = cells == 1
    is_digit = (is_one.sum(-1) == 1) & (is_one | (cells == 0)).all(-1)
    return torch.where(is_digit, is_one.byte().argmax(-1) + 1, 0).to(torch.int8)


def is_solved(boards: Tensor, boxes: Boxes) -> Bool[Tensor, " board"]:
    """Does every row, column and box hold each digit once?

    The k powers 2^digit of a unit sum to 2 + 4 + ... + 2^k, a number with k bits, only if each occurs once.
    """
    power = torch.ones((), dtype=torch.int64) << as_boards(boards, boxes).long()
    expected = 2 ** (boxes.size + 1) - 2
    units = (power.sum(2), power.sum(1), _split(power, boxes).sum((2, 4)).flatten(1))
    return torch.stack([(unit == expected).all(1) for unit in units]).all(0)


def agrees(boards: Tensor, quizzes: Tensor) -> Bool[Tensor, " board"]:
    """Does every board hold the givens of its quiz?"""
    if boards.shape != quizzes.shape or boards.ndim != 3:
        raise ShapeError(
            f"boards and quizzes must have one shape `board row column`, got {tuple(boards.shape)} "
            f"and {tuple(quizzes.shape)}"
        )
    return ((quizzes == 0) | (boards == quizzes)).flatten(1).all(1)


def rules(boxes: Boxes) -> tuple[Float[Tensor, "constr n"], Float[Tensor, " constr"]]:
    """(a, b) of the true rules ``a·z + b = 0``, for checking what was learnt, never for training.

    4k² rows "these k variables sum to 1": one digit a cell; then each digit once a row, a column and a box, in that
    order.
    """
    k = boxes.size
    z = torch.eye(k**3).view(k**3, k, k, k)
    box = _split(z, boxes).sum((2, 4)).view(k**3, -1)
    units = [z.sum(3).flatten(1), z.sum(2).flatten(1), z.sum(1).flatten(1), box]
    return torch.cat(units, 1).mT.contiguous(), torch.full((4 * k * k,), -1.0)


def _split(boards: Tensor, boxes: Boxes) -> Tensor:
    """``board row column ...`` as ``board band row-in-box stack column-in-box ...``."""
    return boards.unflatten(2, (boxes.rows, boxes.columns)).unflatten(1, (boxes.columns, boxes.rows))


def _require(is_good: Tensor, values: Tensor, rule: str) -> None:
    if bool(is_good.all()):
        return
    board, row, column = (~is_good).nonzero()[0].tolist()
    value = values[board, row, column].item()
    raise InputError(f"{rule}: board {board} has {value:g} in row {row + 1}, column {column + 1}")
