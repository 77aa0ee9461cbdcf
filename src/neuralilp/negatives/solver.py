"""Solver negatives: the current program's own answer (Section 3.3, item 4)."""

from __future__ import annotations

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
    """

    def __init__(self, *, share: float = 1.0, **options: Any) -> None:
        if not 0 < share <= 1:
            raise InputError(f"share must be above 0 and at most 1, got {share}")
        if options.get("relax"):
            raise InputError("relax must not be set: a negative is an integral point")
        self.share = share
        self.options = options

    def sample(self, program: IntegerProgram, solution: Tensor, draw: Draw) -> Negatives:
        from neuralilp.solving import solve  # the core needs no solver until one is asked for

        if self.share < 1 and draw(1).item() >= self.share:
            return Negatives.from_dense(solution, solution.new_empty(*solution.shape[:-1], 0, solution.shape[-1]))
        z = solve(program.detach(), **self.options).z.expand(solution.shape)
        solved = ~z.isnan().any(-1, keepdim=True)
        return Negatives.from_dense(solution, torch.where(solved, z - solution, 0).unsqueeze(-2))
