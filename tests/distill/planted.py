"""Solutions of programs whose rules are known, and dense rows as training leaves them: mixed, and with noise."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from neuralilp.blocks import ConstraintBlock

NOISE = 1e-4


def lattice_points(a: Tensor, b: Tensor, low: int, high: int) -> Tensor:
    """All integral points of the box with a·z + b = 0."""
    axis = torch.arange(low, high + 1).double()
    points = torch.cartesian_prod(*[axis] * a.shape[1])
    return points[((points @ a.mT + b).abs() < 1e-9).all(-1)]


def mixed(a: Tensor, b: Tensor, count: int, generator: torch.Generator, noise: float = NOISE) -> ConstraintBlock:
    """``count`` dense learnt equalities with the row space of (a, b)."""
    rows = torch.cat([a, b.unsqueeze(-1)], -1).double()
    _, values, right = torch.linalg.svd(rows, full_matrices=False)
    right = right[values > 1e-9]
    mix = torch.linalg.qr(torch.randn(max(count, len(right)), len(right), generator=generator).double()).Q[:count]
    dense = mix @ right
    norm = torch.linalg.vector_norm(dense[:, :-1], dim=-1)
    dense = dense / norm.unsqueeze(-1)
    dense = dense + noise * torch.randn(dense.shape, generator=generator).double()
    slack = torch.full((len(dense),), 0.01, dtype=torch.float64)
    return ConstraintBlock(dense[:, :-1].contiguous(), dense[:, -1].contiguous(), slack, is_learned=True)


def sudoku_rules(height: int, width: int) -> Tensor:
    """The 4 k² sets that sum to 1, for boxes of height × width, over z[row, column, digit]."""
    k = height * width
    z = torch.arange(k**3).view(k, k, k)
    boxes = z.view(width, height, height, width, k).permute(0, 2, 4, 1, 3).reshape(-1, k)
    lines = [z.reshape(-1, k), z.permute(0, 2, 1).reshape(-1, k), z.permute(1, 2, 0).reshape(-1, k), boxes]
    return torch.zeros(4 * k * k, k**3, dtype=torch.float64).scatter_(1, torch.cat(lines), 1.0)


def grids(height: int, width: int, count: int, seed: int = 0) -> Tensor:
    """Random solved boards as one-hot vectors."""
    k = height * width
    generator = torch.Generator().manual_seed(seed)
    boards = [_filled(height, width, generator) for _ in range(count)]
    return torch.nn.functional.one_hot(torch.tensor(boards), k).double().reshape(count, k**3)


def _filled(height: int, width: int, generator: torch.Generator) -> list[int]:
    """A random solved board, cell by cell with the fewest choices first."""
    k = height * width
    cells = list(itertools.product(range(k), range(k)))
    peers = {
        (r, c): [
            (s, d)
            for s, d in cells
            if (s, d) != (r, c) and (s == r or d == c or (s // height, d // width) == (r // height, c // width))
        ]
        for r, c in cells
    }
    value: dict[tuple[int, int], int] = {}

    def choices(cell: tuple[int, int]) -> list[int]:
        taken = {value.get(peer) for peer in peers[cell]}
        return [digit for digit in range(k) if digit not in taken]

    def fill() -> bool:
        if len(value) == k * k:
            return True
        order = torch.randperm(k * k, generator=generator).tolist()
        cell = min((cells[i] for i in order if cells[i] not in value), key=lambda cell: len(choices(cell)))
        free = choices(cell)
        for i in torch.randperm(len(free), generator=generator).tolist():
            value[cell] = free[i]
            if fill():
                return True
            del value[cell]
        return False

    assert fill()
    return [value[cell] for cell in cells]


def rows_as_set(block: ConstraintBlock) -> set[tuple[int, ...]]:
    """Integer rows with their offsets; an equality with its first entry positive."""
    rows = torch.cat([block.a, block.b.unsqueeze(-1)], -1)
    assert bool((rows == rows.round()).all())
    found = [tuple(int(x) for x in row) for row in rows.tolist()]
    if block.is_equality:
        found = [row if next(x for x in row if x) > 0 else tuple(-x for x in row) for row in found]
    assert len(set(found)) == len(found)
    return set(found)
