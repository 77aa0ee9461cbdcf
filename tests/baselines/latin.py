"""Latin squares of order 3: sudoku at its smallest (boxes one high and three wide are the rows), 12 grids."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from neuralilp.baselines import RRNStep, SATNetStep

CELLS, DIGITS = 9, 3


class Puzzles(NamedTuple):
    x: Tensor
    solution: Tensor


def latin_puzzles(generator: torch.Generator) -> tuple[Puzzles, Puzzles]:
    """All puzzles with one solution and at least three givens, shuffled: a sixth to train on, and the rest."""
    rows = list(itertools.permutations(range(DIGITS)))
    grids = torch.tensor([a + b + c for a, b, c in itertools.product(rows, rows, rows) if is_latin(a, b, c)])
    masks = torch.tensor([mask for mask in itertools.product((False, True), repeat=CELLS) if 3 <= sum(mask) < CELLS])
    fits = ((grids[:, None, None] == grids) | ~masks[:, None]).all(-1)
    grid, mask = (fits.sum(-1) == 1).nonzero().unbind(-1)
    solution = functional.one_hot(grids[grid], DIGITS).float()
    x = solution * masks[mask].unsqueeze(-1)
    order = torch.randperm(len(x), generator=generator)
    first, rest = order[: len(x) // 6], order[len(x) // 6 :]
    return tuple(Puzzles(x[part].flatten(1), solution[part].flatten(1)) for part in (first, rest))


def is_latin(*rows: tuple[int, ...]) -> bool:
    return all(len(set(column)) == len(column) for column in zip(*rows, strict=True))


def accuracy_after(
    step: RRNStep | SATNetStep, steps: int, *, batch: int, lr: float, generator: torch.Generator
) -> float:
    """The share of test squares that are right after so many steps of Adam."""
    train, test = latin_puzzles(generator)
    optimiser = torch.optim.Adam(step.parameters(), lr=lr)
    for _ in range(steps):
        rows = torch.randperm(len(train.x), generator=generator)[:batch]
        loss, _ = step(train.x[rows], train.solution[rows], temperature=1.0, generator=generator)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return (step.model.predict(test.x) == test.solution).all(-1).float().mean().item()
