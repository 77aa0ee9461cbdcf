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
    ``options`` go to :func:`neuralilp.solving.solve`.
    """

    def __init__(self, **options: Any) -> None:
        if options.get("relax"):
            raise InputError("relax must not be set: a negative is an integral point")
        self.options = options

    def sample(self, program: IntegerProgram, solution: Tensor, draw: Draw) -> Negatives:
        from neuralilp.solving import solve  # the core needs no solver until one is asked for

        z = solve(program.detach(), **self.options).z.expand(solution.shape)
        solved = ~z.isnan().any(-1, keepdim=True)
        return Negatives.from_dense(solution, torch.where(solved, z - solution, 0).unsqueeze(-2))
