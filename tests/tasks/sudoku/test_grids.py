"""Random solved grids: they keep the rules, and no others."""

from __future__ import annotations

import pytest
import torch

from neuralilp.errors import InputError
from neuralilp.tasks.sudoku.boards import Boxes, is_solved, one_hot
from neuralilp.tasks.sudoku.grids import random_grids


@pytest.mark.parametrize("boxes", [(2, 2), (2, 3), (3, 2), (2, 4), (3, 3), (5, 2)])
def test_grids_are_solved(boxes: tuple[int, int], generator: torch.Generator) -> None:
    shape = Boxes(*boxes)
    grids = random_grids(7, shape, generator)
    assert grids.shape == (7, shape.size, shape.size)
    assert grids.dtype == torch.int8
    assert is_solved(grids, shape).all()


def test_all_grids_of_4x4_are_about_equally_frequent(generator: torch.Generator) -> None:
    """288 grids; the sum over them of (count - mean)² / mean has mean 287 and deviation sqrt(2 · 287) = 24.

    So must it be in every part of the draw: the test boards are the last of it.
    """
    for part in random_grids(4 * 288 * 50, Boxes(2, 2), generator).split(288 * 50):
        _, counts = part.flatten(1).unique(dim=0, return_counts=True)
        assert len(counts) == 288
        assert ((counts - 50.0) ** 2 / 50).sum() < 287 + 4 * 24


@pytest.mark.parametrize(("size", "rank"), [(4, 40), (6, 101), (9, 249)])
def test_no_equalities_hold_but_the_rules(size: int, rank: int, generator: torch.Generator) -> None:
    """The rules of sudoku have this rank (of 4k² rows); symmetries of one grid alone would have more."""
    boxes = Boxes.of_size(size)
    y = one_hot(random_grids(500, boxes, generator), boxes).double()
    extended = torch.cat([y, torch.ones(500, 1, dtype=torch.float64)], 1)
    assert extended.shape[1] - int(torch.linalg.matrix_rank(extended)) == rank


def test_grids_differ_in_more_than_symmetries(generator: torch.Generator) -> None:
    """Relabelling digits and permuting lines within bands keep the cycle types by which two rows map to each other.

    A cyclic grid has few of these; random grids have almost all that rows without fixed digits can have.
    """
    types = set()
    for grid in random_grids(50, Boxes(3, 3), generator).tolist():
        step = dict(zip(grid[0], grid[4], strict=True))
        lengths, left = [], set(step)
        while left:
            start = left.pop()
            digit, length = step[start], 1
            while digit != start:
                left.remove(digit)
                digit, length = step[digit], length + 1
            lengths.append(length)
        types.add(tuple(sorted(lengths)))
    assert len(types) >= 5  # of (9), (2 7), (3 6), (4 5), (2 2 5), (2 3 4), (3 3 3), (2 2 2 3)


def test_the_seed_decides() -> None:
    boxes = Boxes(2, 3)
    first, again, other = (random_grids(5, boxes, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_counts() -> None:
    assert random_grids(0, Boxes(2, 2), torch.Generator()).shape == (0, 4, 4)
    with pytest.raises(InputError, match="count must not be negative, got -1"):
        random_grids(-1, Boxes(2, 2), torch.Generator())
