"""Batch negatives: the other solutions of the mini-batch (Section 3.3, item 3)."""

from __future__ import annotations

import torch
from torch import Tensor

from neuralilp.negatives.base import Draw, Negatives, NegativeSampler
from neuralilp.program import IntegerProgram


class BatchNegatives(NegativeSampler):
    """Every other y*_s' of the mini-batch, along the last batch dimension; none in a batch of one."""

    def sample(self, program: IntegerProgram, solution: Tensor, draw: Draw) -> Negatives:
        if solution.ndim == 1:
            return Negatives.from_dense(solution, solution.new_empty(0, solution.shape[-1]))
        size = solution.shape[-2]
        shift = torch.arange(1, size, device=solution.device)
        others = (torch.arange(size, device=solution.device).unsqueeze(-1) + shift) % max(size, 1)
        return Negatives.from_dense(solution, solution[..., others, :] - solution.unsqueeze(-2))
