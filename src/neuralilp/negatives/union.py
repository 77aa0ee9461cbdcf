"""The negatives of several samplers together."""

from __future__ import annotations

import torch
from torch import Tensor

from neuralilp.errors import InputError
from neuralilp.negatives.base import Negatives, NegativeSampler
from neuralilp.program import IntegerProgram


class Union(NegativeSampler):
    """N(y*) as the paper means it: everything that all the samplers draw."""

    def __init__(self, *samplers: NegativeSampler) -> None:
        if not samplers:
            raise InputError("samplers must have at least one sampler, got none")
        self.samplers = samplers

    def sample(self, program: IntegerProgram, solution: Tensor, generator: torch.Generator | None) -> Negatives:
        return Negatives.cat([sampler.sample(program, solution, generator) for sampler in self.samplers])
