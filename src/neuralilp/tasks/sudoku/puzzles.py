"""Quizzes with one solution, and what is needed to tell that they have one."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Int8
from torch import Tensor

from neuralilp.errors import InputError
from neuralilp.tasks.sudoku.boards import Boxes, as_boards, is_solved
from neuralilp.tasks.sudoku.masks import (
    Flags,
    Masks,
    boards_at_once,
    boards_of,
    find_singles,
    masks_of,
)

GIVENS = (29 / 81, 37 / 81)
"""Fewest and most givens of the public 9x9 puzzles, as a share of the cells."""


def default_givens(boxes: Boxes) -> tuple[int, int]:
    """29 to 37 at 9x9, and that share of the cells at other sizes."""
    fewest, most = (share * boxes.size**2 for share in GIVENS)
    return round(fewest), round(most)


def random_puzzles(
    grids: Tensor, boxes: Boxes, generator: torch.Generator, givens: int | tuple[int, int] | None = None
) -> Int8[Tensor, "board row column"]:
    """Quizzes of solved grids, each with that grid as its only solution.

    Cells go in a random order, each only if the quiz remains solvable by naked and hidden singles alone, which proves
    that there is one solution. Each quiz stops at a number of givens drawn from ``givens`` (one number, or fewest and
    most; :func:`default_givens` otherwise), or before if no cell more can go.
    """
    boards = as_boards(grids, boxes, "grids")
    wrong = (~is_solved(boards, boxes)).nonzero().flatten().tolist()
    if wrong:
        raise InputError(f"grids must be solved boards: board {wrong[0]} breaks the rules of {boxes} boxes")
    fewest, most = _range(givens, boxes)
    wanted = torch.randint(fewest, most + 1, (len(boards),), generator=generator)
    parts = []
    for part, goal in zip(*(x.split(boards_at_once(boxes)) for x in (boards, wanted)), strict=True):
        order = torch.rand(boxes.size**2, len(part), generator=generator).argsort(0)
        parts.append(boards_of(_thinned(masks_of(part, boxes), goal.numpy(), order.numpy(), boxes), boxes))
    return torch.cat(parts)


def solve_by_propagation(quizzes: Tensor, boxes: Boxes) -> Int8[Tensor, "board row column"]:
    """All that follows from quizzes by naked and hidden singles; blank where nothing does.

    A quiz that contradicts itself comes back as it was.
    """
    boards = as_boards(quizzes, boxes, "quizzes")
    result = boards.clone()
    for start in range(0, len(boards), boards_at_once(boxes)):
        part = slice(start, start + boards_at_once(boxes))
        known, is_contradicted = _propagated(masks_of(boards[part], boxes), boxes)
        result[part] = torch.where(
            torch.from_numpy(is_contradicted).view(-1, 1, 1), boards[part], boards_of(known * ~is_contradicted, boxes)
        )
    return result


def count_solutions(quiz: Tensor, boxes: Boxes, most: int = 2) -> int:
    """How many solutions a quiz has, counted up to ``most``, by a search that owes nothing to singles.

    A set of variables is one integer, with bit ``(row k + column) k + digit - 1``. Depth first, the search chooses in
    the unit (a cell, or a digit in a row, a column or a box) that has the fewest variables left.
    """
    if most < 1:
        raise InputError(f"most must be positive, got {most}")
    digits = as_boards(quiz.unsqueeze(0), boxes, "quiz").flatten().tolist()
    units, units_of = _unit_sets(boxes)
    left, open_units = (1 << boxes.num_variables) - 1, set(range(len(units)))
    for variable in (cell * boxes.size + digit - 1 for cell, digit in enumerate(digits) if digit):
        if not left >> variable & 1:
            return 0
        left = _without_rivals(left, variable, units, units_of)
        open_units -= set(units_of[variable])

    def search(left: int, open_units: set[int], most: int) -> int:
        if not open_units:
            return 1
        choices = left & units[min(open_units, key=lambda unit: (left & units[unit]).bit_count())]
        count = 0
        while choices and count < most:
            variable = choices.bit_length() - 1
            choices ^= 1 << variable
            rest = open_units - set(units_of[variable])
            count += search(_without_rivals(left, variable, units, units_of), rest, most - count)
        return count

    return search(left, open_units, most)


def _unit_sets(boxes: Boxes) -> tuple[list[int], list[tuple[int, ...]]]:
    """The set of variables of each unit, and the four units of each variable."""
    k = boxes.size
    units, units_of = [0] * (4 * k * k), []
    for variable in range(k**3):
        cell, digit = divmod(variable, k)
        row, column = divmod(cell, k)
        box = row // boxes.rows * boxes.rows + column // boxes.columns
        of = (cell, *((kind * k + line) * k + digit for kind, line in ((1, row), (2, column), (3, box))))
        units_of.append(of)
        for unit in of:
            units[unit] |= 1 << variable
    return units, units_of


def _without_rivals(left: int, variable: int, units: list[int], units_of: list[tuple[int, ...]]) -> int:
    """What is left once a variable is chosen: it, and none that shares a unit with it."""
    for unit in units_of[variable]:
        left &= ~units[unit]
    return left | 1 << variable


def _range(givens: int | tuple[int, int] | None, boxes: Boxes) -> tuple[int, int]:
    if givens is None:
        return default_givens(boxes)
    fewest, most = (givens, givens) if isinstance(givens, int) else givens
    if not 0 <= fewest <= most <= boxes.size**2:
        raise InputError(
            f"givens must be a number of cells, or the fewest and the most, between 0 and {boxes.size**2}, got {givens}"
        )
    return fewest, most


def _thinned(known: Masks, goal: Masks, order: Masks, boxes: Boxes) -> Masks:
    """Grids without the cells that can go, tried in their order, until ``goal`` are left."""
    left = np.full(known.shape[1], len(known))
    for cells in order:
        active = np.flatnonzero(left > goal)
        if not len(active):
            break
        cell = cells[active]
        trial = known[:, active]
        trial[cell, np.arange(len(active))] = 0
        gone = _follows(trial, cell, boxes)
        known[cell[gone], active[gone]] = 0
        left[active[gone]] -= 1
    return known


def _follows(known: Masks, cell: Masks, boxes: Boxes) -> Flags:
    """Does the digit of a blank cell follow by singles? Then all does that followed with it given."""
    result = np.zeros(len(cell), bool)
    board = np.arange(len(cell))
    while len(board):
        found = find_singles(known, boxes).found
        is_found = found[cell, np.arange(len(cell))] != 0
        result[board[is_found]] = True
        is_open = ~is_found & found.any(0)
        known = (known | found)[:, is_open]
        cell, board = cell[is_open], board[is_open]
    return result


def _propagated(known: Masks, boxes: Boxes) -> tuple[Masks, Flags]:
    """Boards with all singles filled in, and which of them contradict themselves."""
    known, is_contradicted = known.copy(), np.zeros(known.shape[1], bool)
    board = np.arange(known.shape[1])
    while len(board):
        found, _, is_bad = find_singles(known[:, board], boxes)
        is_contradicted[board] = is_bad
        is_open = ~is_bad & found.any(0)
        board = board[is_open]
        known[:, board] |= found[:, is_open]
    return known, is_contradicted
