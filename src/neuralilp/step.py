"""One training step up to the number to minimise: encode, sample, loss, balance; compiled as a whole where it pays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from neuralilp.loss import ILPLoss
from neuralilp.model import NeuralILP
from neuralilp.negatives.base import Draw, NegativeSampler
from neuralilp.program import TOLERANCE, IntegerProgram
from neuralilp.terms import LossTerms


class LossStep(nn.Module):
    """x, y* -> the balanced loss and its terms; ``backward`` and the optimiser are the caller's.

    The modules do all the work; this only calls them in turn. With few variables a step is a hundred tiny operations,
    and what they cost is the calling. ``compile=True`` fuses them into one graph: the same numbers, for some seconds
    at the first call. It needs samplers that take all their random numbers from ``draw``, as the solver-free ones do.
    """

    def __init__(
        self, model: NeuralILP, sampler: NegativeSampler, loss: ILPLoss, balancer: nn.Module, *, compile: bool = False
    ) -> None:
        super().__init__()
        self.model = model
        self.sampler = sampler
        self.loss = loss
        self.balancer = balancer
        self.is_compiled = compile
        self._count: dict[torch.Size, int] = {}
        self._fused: Callable[..., Any] = torch.compile(self._all_at_once, dynamic=False, fullgraph=True)

    def forward(
        self,
        x: Any,
        solution: Float[Tensor, "*batch var"],
        *,
        temperature: float,
        generator: torch.Generator | None = None,
    ) -> tuple[Float[Tensor, ""], LossTerms]:
        if self.is_compiled and temperature > 0:
            return self._compiled(x, solution, temperature, generator)
        program = self.model(x)
        negatives = self.sampler(program, solution, generator=generator)
        terms = self.loss(program, solution, negatives, temperature=temperature)
        return self.balancer(terms), terms

    def _compiled(
        self, x: Any, solution: Tensor, temperature: float, generator: torch.Generator | None
    ) -> tuple[Tensor, LossTerms]:
        numbers = Draw(solution, generator)(self.count_numbers(x, solution))
        total, terms, is_good = self._fused(x, solution, numbers, solution.new_full((), temperature))
        if not is_good:
            self.model(x).check_solution(solution)
        return total, terms

    def count_numbers(self, x: Any, solution: Float[Tensor, "*batch var"]) -> int:
        """How many random numbers a compiled step takes, found by one plain pass for each new shape."""
        if solution.shape not in self._count:
            draw = Draw(solution, torch.Generator(solution.device), is_fixed=True)
            with torch.no_grad():
                program = self.model(x)
                program.check_solution(solution)
                self.sampler.sample(program, solution, draw)
            self._count[solution.shape] = draw.count
        return self._count[solution.shape]

    def _all_at_once(
        self, x: Any, solution: Tensor, numbers: Tensor, temperature: Tensor
    ) -> tuple[Tensor, LossTerms, Tensor]:
        program = self.model(x)
        with torch.no_grad():
            negatives = self.sampler.sample(program, solution, Draw(solution, numbers=numbers))
            is_good = _is_good(program, solution)
        terms = self.loss.terms(program, solution, negatives, -1 / temperature)
        return self.balancer(terms), terms, is_good


def _is_good(program: IntegerProgram, solution: Tensor) -> Tensor:
    """``program.check_solution`` as one number."""
    good = ((solution - solution.round() == 0) & program.bounds.contain(solution)).all()
    for block in program.known:
        a, b = block.unit().explicit()
        good = good & ((a @ solution.unsqueeze(-1)).squeeze(-1) + b >= -TOLERANCE).all()
    return good
