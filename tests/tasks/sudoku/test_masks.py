"""Bit masks and singles, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from neuralilp.tasks.sudoku.boards import Boxes
from neuralilp.tasks.sudoku.grids import random_grids
from neuralilp.tasks.sudoku.masks import boards_of, count_bits, find_singles, mask_type, masks_of

SHAPES = [Boxes(2, 2), Boxes(2, 3), Boxes(3, 2), Boxes(3, 3)]


def test_a_mask_type_for_each_size() -> None:
    sizes = {4: np.uint16, 9: np.uint16, 16: np.uint16, 18: np.uint32, 32: np.uint32, 35: np.uint64}
    assert {size: mask_type(Boxes.of_size(size)).type for size in sizes} == sizes


@pytest.mark.parametrize("kind", [np.uint16, np.uint32, np.uint64])
def test_count_bits(kind: type) -> None:
    largest = np.iinfo(kind).max
    numbers = [0, 1, 2, 3, 6, 255, 256, 0x1357, largest, largest - 1, largest // 2]
    assert count_bits(np.array(numbers, kind)).tolist() == [int(number).bit_count() for number in numbers]


@pytest.mark.parametrize("size", [4, 9, 16, 35])
def test_boards_become_masks_and_boards_again(size: int, generator: torch.Generator) -> None:
    boxes = Boxes.of_size(size)
    boards = torch.randint(size + 1, (3, size, size), generator=generator).to(torch.int8)
    masks = masks_of(boards, boxes)
    assert masks.shape == (size * size, 3)
    assert int(masks[size + 2, 1]) == (1 << int(boards[1, 1, 2])) >> 1
    assert torch.equal(boards_of(masks, boxes), boards)


def naive_singles(board: list[int], boxes: Boxes) -> tuple[list[set[int]], list[set[int]], bool]:
    """Found digits and candidates of each cell, and whether there is a contradiction."""
    k = boxes.size
    keys = [
        (("row", i // k), ("column", i % k), ("box", i // k // boxes.rows, i % k // boxes.columns))
        for i in range(k * k)
    ]
    units = {key: [i for i in range(k * k) if key in keys[i]] for key in {key for of in keys for key in of}}
    digits = set(range(1, k + 1))
    held = {key: [board[i] for i in cells if board[i]] for key, cells in units.items()}
    candidates = [set() if board[i] else digits - {d for key in keys[i] for d in held[key]} for i in range(k * k)]
    found = [set(options) if len(options) == 1 else set() for options in candidates]
    bad = any(not board[i] and not candidates[i] for i in range(k * k))
    for key, cells in units.items():
        bad |= len(set(held[key])) < len(held[key])
        for digit in digits - set(held[key]):
            places = [i for i in cells if digit in candidates[i]]
            bad |= not places
            if len(places) == 1:
                found[places[0]].add(digit)
    return found, candidates, bad or any(len(options) > 1 for options in found)


@pytest.mark.parametrize("boxes", SHAPES, ids=str)
def test_singles_against_loops(boxes: Boxes, generator: torch.Generator) -> None:
    k = boxes.size
    boards = random_grids(60, boxes, generator)
    share = torch.linspace(0, 1, 60).view(-1, 1, 1)
    boards = boards * (torch.rand(60, k, k, generator=generator) < share)
    is_spoilt = torch.rand(60, k, k, generator=generator) < 0.02  # some boards contradict themselves
    boards = torch.where(is_spoilt, torch.randint(k + 1, (60, k, k), generator=generator), boards).to(torch.int8)
    found, candidates, is_contradicted = find_singles(masks_of(boards, boxes), boxes)
    count = 0
    for number, board in enumerate(boards.flatten(1).tolist()):
        expected = naive_singles(board, boxes)
        for masks, sets in zip((found, candidates), expected[:2], strict=True):
            assert masks[:, number].tolist() == [sum(1 << (digit - 1) for digit in options) for options in sets]
        assert bool(is_contradicted[number]) == expected[2]
        count += expected[2]
    assert 0 < count < 60
