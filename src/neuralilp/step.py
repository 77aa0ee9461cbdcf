"""One training step up to the number to minimise: encode, sample, loss, balance; compiled as a whole where it pays."""

from __future__ import annotations

import copy
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from neuralilp.blocks import broadcast
from neuralilp.loss import ILPLoss, rate_of
from neuralilp.model import NeuralILP
from neuralilp.negatives.base import Draw, NegativeSampler
from neuralilp.program import IntegerProgram
from neuralilp.separation import COMPILE_ERRORS, compiler_is_present
from neuralilp.terms import LossTerms


class LossStep(nn.Module):
    """x, y* -> the balanced loss and its terms; ``backward`` and the optimiser are the caller's.

    The modules do all the work; this only calls them in turn. With few variables a step is a hundred tiny operations,
    and what they cost is the calling. ``compile=True`` fuses them into one graph: the same numbers, for some seconds
    at the first call. It needs samplers that take all their random numbers from ``draw``, as the solver-free ones do.

    Where learned constraints have further batch dimensions before those of x (restarts), each solution serves for all.

    Compiled are steps with the shape of the first one; others (the last batch of an epoch) run plainly, as does
    everything where no C++ compiler is found or compiling fails, with a warning.
    """

    def __init__(
        self, model: NeuralILP, sampler: NegativeSampler, loss: ILPLoss, balancer: nn.Module, *, compile: bool = False
    ) -> None:
        super().__init__()
        self.model = model
        self.sampler = sampler
        self.loss = loss
        self.balancer = balancer
        self.is_compiled = compile and compiler_is_present()
        if compile and not self.is_compiled:
            warnings.warn("no C++ compiler was found: steps are not compiled", stacklevel=2)
        self._compiled_shape: torch.Size | None = None
        self._numbers = 0

    def forward(
        self,
        x: Any,
        solution: Float[Tensor, "*batch var"],
        *,
        temperature: float,
        generator: torch.Generator | None = None,
    ) -> tuple[Float[Tensor, ""], LossTerms]:
        rate = rate_of(temperature, solution)
        failure = None
        if self.is_compiled and rate is not None and self._compiled_shape in (None, solution.shape):
            state = None if generator is None else generator.get_state()
            try:
                return self._fused(x, solution, rate, self.loss.margins(temperature), generator)
            except COMPILE_ERRORS as error:
                failure = error
                if generator is not None and state is not None:
                    generator.set_state(state)
        program = self.model(x)  # where the arguments are at fault, this says so
        solution = for_all(program, solution)
        negatives = self.sampler(program, solution, generator=generator)
        terms = self.loss(program, solution, negatives, temperature=temperature)
        if failure is not None:
            warnings.warn(f"compiling failed, steps go on plainly: {failure}", stacklevel=2)
            self.is_compiled = False
        return self.balancer(terms), terms

    def _fused(
        self,
        x: Any,
        solution: Tensor,
        rate: Tensor,
        margins: tuple[float, float],
        generator: torch.Generator | None,
    ) -> tuple[Tensor, LossTerms]:
        self.model.box()  # looks at bounds that have moved, which cannot be compiled
        numbers = Draw(solution, generator)(self.count_numbers(x, solution))
        if self not in _compiled:
            _compiled[self] = compile_whole_step()
        total, terms, is_good = _compiled[self](
            self, x, solution, numbers, rate, *(solution.new_full((), margin) for margin in margins)
        )
        if not is_good:
            program = self.model(x)
            program.check_solution(for_all(program, solution))
        return total, terms

    def count_numbers(self, x: Any, solution: Float[Tensor, "*batch var"]) -> int:
        """How many random numbers a compiled step takes, found by one plain pass that also validates."""
        if self._compiled_shape is None:
            draw = Draw(solution, torch.Generator(solution.device), is_fixed=True)
            model = copy.deepcopy(self.model)  # whose running statistics, if any, this pass may move
            with torch.no_grad():
                program = model(x)
                many = for_all(program, solution)
                program.check_solution(many)
                program.check_learned_part()
                self.sampler.sample(program, many, draw)
            self._compiled_shape, self._numbers = solution.shape, draw.count
        return self._numbers


def whole_step(
    step: LossStep,
    x: Any,
    solution: Tensor,
    numbers: Tensor,
    rate: Tensor,
    positive_margin: Tensor,
    negative_margin: Tensor,
) -> tuple[Tensor, LossTerms, Tensor]:
    """What is compiled: the loss, its terms, and whether the solution was one that can be learnt from."""
    program = step.model(x)
    solution = for_all(program, solution)
    with torch.no_grad():
        negatives = step.sampler.sample(program, solution, Draw(solution, numbers=numbers))
        is_good = program.fits(solution)
    terms = step.loss.terms(program, solution, negatives, rate, positive_margin, negative_margin)
    return step.balancer(terms), terms, is_good


def for_all(program: IntegerProgram, solution: Float[Tensor, "*batch var"]) -> Float[Tensor, "*programs var"]:
    """The solution for each program, where learned constraints alone have further dimensions; else as it is."""
    given = [
        program.cost.shape[:-1],
        program.bounds.lower.shape[:-1],
        *(block.batch_shape() for block in program.known),
    ]
    batch, own = program.batch_shape, solution.shape[:-1]
    return solution.expand(*batch, -1) if len(own) < len(batch) and own == broadcast(*given) else solution


_compiled: weakref.WeakKeyDictionary[LossStep, Callable[..., Any]] = weakref.WeakKeyDictionary()
"""The compiled function of each step, kept apart from it so that a step can be copied and pickled."""


def compile_whole_step() -> Callable[..., Any]:
    """:func:`whole_step` compiled as a function of its own: PyTorch limits how many versions one function has."""
    own = types.FunctionType(whole_step.__code__.replace(), whole_step.__globals__, whole_step.__name__)
    return torch.compile(own, dynamic=False, fullgraph=True)
