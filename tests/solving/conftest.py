"""Brute force over small boxes: the oracle of every solver test."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from neuralilp.program import IntegerProgram

BruteForce = Callable[[IntegerProgram], Tensor | None]


def _brute_force(program: IntegerProgram) -> Tensor | None:
    """An optimal point of one all-integer program in a finite box, or None when there is no feasible one."""
    program = program.to(torch.float64)
    lower, upper = program.bounds.integral_lower.tolist(), program.bounds.integral_upper.tolist()
    ranges = [range(int(low), int(high) + 1) for low, high in zip(lower, upper, strict=True)]
    points = torch.tensor(list(itertools.product(*ranges)), dtype=torch.float64)
    is_feasible = torch.ones(len(points), dtype=torch.bool)
    for block in program.blocks:
        value = points @ block.a.mT + block.b
        holds = value >= -1e-9 if block.slack is None else value.abs() <= block.slack + 1e-9
        is_feasible &= holds.all(-1)
    points = points[is_feasible]
    return None if not len(points) else points[(points @ program.cost).argmin()]


@pytest.fixture(scope="session")
def brute_force() -> BruteForce:
    return _brute_force
