"""Many boards at once as bit masks, and the singles that follow from their digits.

The mask of a cell has bit d - 1 for digit d, and is 0 for a blank. Masks are laid out ``cell board``, so that every
step runs over contiguous boards.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int8
from torch import Tensor

from neuralilp.tasks.sudoku.boards import Boxes

Masks = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]

CHUNK = 2**18
"""Cells that are worked on at once: more would leave the processor's cache."""


class Singles(NamedTuple):
    found: Masks
    """``cell board``: the digit of a blank that has no other, or that is the only place for it in a unit."""
    candidates: Masks
    """``cell board``: the digits that no unit of a blank holds; 0 where the digit is known."""
    is_contradicted: Flags
    """``board``: a unit holds a digit twice, a blank has no candidate or two digits, or a digit has no place."""


def mask_type(boxes: Boxes) -> np.dtype[Any]:
    return np.dtype(np.uint16 if boxes.size <= 16 else np.uint32 if boxes.size <= 32 else np.uint64)


def full_mask(boxes: Boxes) -> Any:
    """All digits."""
    return mask_type(boxes).type(2**boxes.size - 1)


def boards_at_once(boxes: Boxes) -> int:
    return max(CHUNK // boxes.size**2, 1)


def masks_of(boards: Int8[Tensor, "board row column"], boxes: Boxes) -> Masks:
    table = np.array([0, *(2**digit for digit in range(boxes.size))], mask_type(boxes))
    return table[boards.flatten(1).mT.contiguous().numpy()]


def boards_of(masks: Masks, boxes: Boxes) -> Int8[Tensor, "board row column"]:
    digits = np.where(masks != 0, count_bits(masks - masks.dtype.type(1)) + 1, 0).astype(np.int8)
    return torch.from_numpy(np.ascontiguousarray(digits.T)).view(-1, boxes.size, boxes.size)


def has_two(masks: Masks) -> Flags:
    """Does a mask hold two digits or more?"""
    return (masks & (masks - masks.dtype.type(1))) != 0


def count_bits(masks: Masks) -> npt.NDArray[np.uint8]:
    """The number of bits of each mask, summed in ever wider fields."""
    number = masks.dtype.type
    bits = 8 * masks.dtype.itemsize

    def every(width: int) -> Any:
        return number(sum((2**width - 1) << place for place in range(0, bits, 2 * width)))

    width = 1
    while width < bits:
        masks = (masks & every(width)) + ((masks >> number(width)) & every(width))
        width *= 2
    return masks.astype(np.uint8)


def find_singles(known: Masks, boxes: Boxes) -> Singles:
    """All naked and hidden singles of boards, from their known digits alone."""
    full = full_mask(boxes)
    held = [_occurrences(unit) for unit in _units(known, boxes)]
    is_blank = known == 0
    candidates = _spread(*(full & ~once for once, _ in held), boxes=boxes)
    candidates *= is_blank
    places = [_occurrences(unit) for unit in _units(candidates, boxes)]
    found = candidates & _spread(*(once & ~twice for once, twice in places), boxes=boxes, is_any=True)
    found |= candidates * ~has_two(candidates)
    is_contradicted = ((is_blank & (candidates == 0)) | has_two(found)).any(0)
    for (has, has_twice), (fits, _) in zip(held, places, strict=True):
        is_contradicted |= ((has_twice != 0) | ((has | fits) != full)).reshape(-1, known.shape[1]).any(0)
    return Singles(found, candidates, is_contradicted)


def _units(masks: Masks, boxes: Boxes) -> tuple[list[Masks], list[Masks], list[Masks]]:
    """The first, second, ... cells of all rows, those of all columns and those of all boxes."""
    lines = masks.reshape(boxes.size, boxes.size, -1)
    split = masks.reshape(boxes.columns, boxes.rows, boxes.rows, boxes.columns, -1)
    in_box = [split[:, i, :, j] for i in range(boxes.rows) for j in range(boxes.columns)]
    return [lines[:, j] for j in range(boxes.size)], list(lines), in_box


def _occurrences(cells: Iterable[Masks]) -> tuple[Masks, Masks]:
    """The digits that units hold at all, and those that they hold twice or more."""
    once, *others = cells
    once, twice = once.copy(), np.zeros_like(once)
    for cell in others:
        twice |= once & cell
        once |= cell
    return once, twice


def _spread(rows: Masks, columns: Masks, in_boxes: Masks, *, boxes: Boxes, is_any: bool = False) -> Masks:
    """For each cell, the digits of all of its three units, or of any of them."""
    combine = np.bitwise_or if is_any else np.bitwise_and
    k = boxes.size
    lines = combine(rows[:, None], columns[None]).reshape(boxes.columns, boxes.rows, boxes.rows, boxes.columns, -1)
    combine(lines, in_boxes[:, None, :, None], out=lines)
    return lines.reshape(k * k, -1)
