"""Solver negatives: the current program's own answer (Section 3.3, item 4)."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch import Tensor

from neuralilp.errors import InputError
from neuralilp.negatives.base import Draw, Negatives, NegativeSampler
from neuralilp.program import IntegerProgram


class SolverNegatives(NegativeSampler):
    """The optimum of the program as it stands: wrong, or equal to y* and then left out by the loss.

    The one sampler that calls a solver. An example that has no answer (infeasible, time limit) gives no negative.
    ``share`` of all batches, drawn at random, get such negatives; the others get none, at no cost. ``options`` go to
    :func:`neuralilp.solving.solve`.

    With a ``margin`` it is the optimum of learned rows that are loosened by that distance: also a point that the rows
    keep out, but by less. Rows then go on learning where the answer is right already. Beyond the paper.
    """

    def __init__(self, *, share: float = 1.0, margin: float = 0.0, **options: Any) -> None:
        if not 0 < share <= 1:
            raise InputError(f"share must be above 0 and at most 1, got {share}")
        if not (math.isfinite(margin) and margin >= 0):
            raise InputError(f"margin must be at least 0, got {margin}")
        if options.get("relax"):
            raise InputError("relax must not be set: a negative is an integral point")
        self.share = share
        self.margin = margin
        self.options = options

    def sample(self, program: IntegerProgram, solution: Tensor, draw: Draw) -> Negatives:
        from neuralilp.solving import solve  # the core needs no solver until one is asked for

        if self.share < 1 and draw(1).item() >= self.share:
            return Negatives.from_dense(solution, solution.new_empty(*solution.shape[:-1], 0, solution.shape[-1]))
        z = solve(loosened(program.detach(), self.margin), **self.options).z.expand(solution.shape)
        solved = ~z.isnan().any(-1, keepdim=True)
        return Negatives.from_dense(solution, torch.where(solved, z - solution, 0).unsqueeze(-2))


def loosened(program: IntegerProgram, margin: float) -> IntegerProgram:
    """The program with its learned rows moved outwards by a distance."""
    if not margin:
        return program
    blocks = tuple(block.loosened(margin) if block.is_learned else block for block in program.blocks)
    return dataclasses.replace(program, blocks=blocks)
