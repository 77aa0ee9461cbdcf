"""Random solved grids of any box shape, many at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int8
from torch import Tensor

from neuralilp.errors import InputError
from neuralilp.tasks.sudoku.boards import Boxes
from neuralilp.tasks.sudoku.masks import Masks, boards_at_once, boards_of, count_bits, find_singles, mask_type

PILOTS = 500
"""Grids whose weights say what counts as heavy."""

HEAVY = 0.95
"""Quantile of the weights from which on grids are always kept."""


def random_grids(count: int, boxes: Boxes, generator: torch.Generator) -> Int8[Tensor, "board row column"]:
    """Solved grids, drawn about uniformly from all there are.

    A blank board is filled with digits at random where the fewest fit, all singles in between, and given up when it
    contradicts itself. That finds a grid with a probability of one over the product of the numbers of choices on the
    way, so grids are thinned: kept in proportion to that product, their weight. The heaviest twentieth are all kept,
    and thereby somewhat rarer than others. At 4x4, where those share one weight, the draw is exactly uniform.
    """
    if count < 0:
        raise InputError(f"count must not be negative, got {count}")
    at_once = boards_at_once(boxes)
    grids = np.zeros((boxes.size**2, 0), mask_type(boxes))
    _, weights = _fill(PILOTS, boxes, generator)
    heavy = np.quantile(weights, HEAVY, method="lower")
    share = np.exp(np.minimum(weights - heavy, 0)).sum() / PILOTS
    while grids.shape[1] < count:
        tries = int((count - grids.shape[1]) / share * 1.1) + 10
        more, weights = _fill(min(tries, at_once), boxes, generator)
        is_kept = _uniform(len(weights), generator) < np.exp(weights - heavy)
        grids = np.concatenate([grids, more[:, is_kept]], 1)
    return boards_of(grids[:, :count], boxes)


def _fill(count: int, boxes: Boxes, generator: torch.Generator) -> tuple[Masks, npt.NDArray[np.float64]]:
    """Grids out of so many attempts, and the logarithms of their weights.

    They are in the order of the attempts: in that of their completion, light grids would come before heavy ones.
    """
    grids = np.zeros((boxes.size**2, count), mask_type(boxes))
    weights = np.zeros(count)
    known, attempt = grids.copy(), np.arange(count)
    while len(attempt):
        found, candidates, is_contradicted = find_singles(known, boxes)
        is_full = (known != 0).all(0) & ~is_contradicted
        grids[:, attempt[is_full]] = known[:, is_full]
        is_open = ~is_full & ~is_contradicted
        if not is_open.all():
            known, found, candidates = known[:, is_open], found[:, is_open], candidates[:, is_open]
            attempt = attempt[is_open]
        known |= found
        stuck = np.flatnonzero(~found.any(0))
        if len(stuck):
            cell, digit, choices = _guess(candidates[:, stuck], generator)
            known[cell, stuck] = digit
            weights[attempt[stuck]] += np.log(choices)
    is_grid = grids[0] != 0
    return grids[:, is_grid], weights[is_grid]


def _guess(candidates: Masks, generator: torch.Generator) -> tuple[npt.NDArray[np.intp], Masks, npt.NDArray[np.uint8]]:
    """A random digit in the first blank with the fewest candidates: its cell, its mask, and how many there were."""
    choices = count_bits(candidates)
    cell = np.where(choices == 0, np.uint8(255), choices).argmin(0)
    board = np.arange(candidates.shape[1])
    mask, number = candidates[cell, board], choices[cell, board]
    skipped = (_uniform(len(board), generator) * number).astype(np.uint8)
    one = mask.dtype.type(1)
    for step in range(int(skipped.max())):
        mask = np.where(skipped > step, mask & (mask - one), mask)
    return cell, mask & (~mask + one), number


def _uniform(count: int, generator: torch.Generator) -> npt.NDArray[np.float64]:
    return torch.rand(count, generator=generator, dtype=torch.float64).numpy()
