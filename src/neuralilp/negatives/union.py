"""The negatives of several samplers together."""

from __future__ import annotations

from torch import Tensor

from neuralilp.errors import InputError
from neuralilp.negatives.base import Draw, Negatives, NegativeSampler
from neuralilp.program import IntegerProgram


class Union(NegativeSampler):
    """N(y*) as the paper means it: everything that all the samplers draw."""

    def __init__(self, *samplers: NegativeSampler) -> None:
        if not samplers:
            raise InputError("samplers must have at least one sampler, got none")
        self.samplers = samplers

    def sample(self, program: IntegerProgram, solution: Tensor, draw: Draw) -> Negatives:
        return Negatives.cat([sampler.sample(program, solution, draw) for sampler in self.samplers])
