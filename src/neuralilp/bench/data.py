"""Small batches of the paper's tasks, made on the spot for timing."""

from __future__ import annotations

import torch
from torch import Tensor

from neuralilp.blocks import Bounds
from neuralilp.errors import InputError
from neuralilp.program import IntegerProgram
from neuralilp.solving import solve
from neuralilp.tasks.random_constraints.generate import random_costs, random_rows

BOXES = {4: (2, 2), 6: (2, 3), 9: (3, 3)}


def sudoku_batch(size: int, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Puzzles x and solutions y* of symbolic sudoku as one-hot vectors of size³; about 40 % of the cells are given."""
    if size not in BOXES:
        raise InputError(f"size must be one of {sorted(BOXES)}, got {size}")
    rows, columns = BOXES[size]
    grids = torch.stack([_solved_grid(rows, columns, generator) for _ in range(batch)])
    solution = torch.nn.functional.one_hot(grids, size).float()
    given = torch.rand(batch, size, size, 1, generator=generator) < 0.4
    return (solution * given).flatten(1), solution.flatten(1)


def _solved_grid(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """The cyclic grid with its digits, and its lines within their bands, shuffled."""
    size = rows * columns

    def shuffled_lines(band: int) -> Tensor:
        lines = torch.arange(size).view(-1, band)
        within = torch.stack([line[torch.randperm(band, generator=generator)] for line in lines])
        return within[torch.randperm(size // band, generator=generator)].flatten()

    row, column = torch.arange(size).unsqueeze(-1), torch.arange(size)
    grid = (columns * (row % rows) + row // rows + column) % size
    digits = torch.randperm(size, generator=generator)
    return digits[grid[shuffled_lines(rows)][:, shuffled_lines(columns)]]


def random_constraints_batch(
    batch: int, generator: torch.Generator, num_variables: int = 16, num_constraints: int = 8
) -> tuple[Tensor, Tensor]:
    """Costs and solutions of one random program over [-5, 5]^n, by the recipe of Paulus et al. 2021."""
    bounds = Bounds(torch.full((num_variables,), -5.0), torch.full((num_variables,), 5.0))
    rows = random_rows(bounds, num_constraints, generator)
    cost = random_costs(batch, num_variables, generator)
    return cost, solve(IntegerProgram(cost, bounds, (rows,))).z
