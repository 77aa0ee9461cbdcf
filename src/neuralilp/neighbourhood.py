"""A smooth loss over all near neighbours of y* at once, for few binary variables; beyond the paper.

ILP-Loss asks of every negative that the cost or some row separates it, by hinges that share it out (Eqs. 7 and 9). Here
the same is a probability. A negative is separated by the cost, or by row i, with the probabilities σ(c·y⁻ - c·y*) and
σ(-(a_i·y⁻ + b_i)), independently of each other: by any with 1 less the product of σ of the opposites. The loss is -log
of that, summed over the neighbours, and of σ(a_i·y* + b_i) over the rows. There is no margin, weight or temperature:
the scales of c and A are learnt, and set them.

The neighbours that differ from y* in a set of places are sums over those places: all of up to three places among 30 are
4,525, and take less time than a layer of a network.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from neuralilp.errors import InputError
from neuralilp.model import NeuralILP

MOST_NEIGHBOURS = 50_000


class NeighbourTerms(NamedTuple):
    """What there is to see of a batch; each is a mean over it."""

    positive: Float[Tensor, ""]
    """-log of the probability that y* is inside all rows."""
    negative: Float[Tensor, ""]
    """-log of the probability that each neighbour is separated, summed over them."""
    separated: Float[Tensor, ""]
    """Share of the examples whose neighbours all cost more or are outside."""
    inside: Float[Tensor, ""]
    """Share of the examples inside every learned row."""


class NeighbourhoodStep(nn.Module):
    """x, y* -> the loss over all neighbours within ``hops`` flips of y*, and its terms.

    The model must have binary variables and learned inequalities, and no known rows.
    """

    def __init__(self, model: NeuralILP, hops: int = 3) -> None:
        super().__init__()
        n = model.num_variables
        if not 1 <= hops <= n:
            raise InputError(f"hops must be from 1 to the {n} variables of model, got {hops}")
        count = sum(math.comb(n, k) for k in range(1, hops + 1))
        if count > MOST_NEIGHBOURS:
            raise InputError(f"hops must leave at most {MOST_NEIGHBOURS} neighbours, got {hops} and thus {count}")
        self.model = model
        for k in range(1, hops + 1):
            places = torch.tensor(list(itertools.combinations(range(n), k)))
            self.register_buffer(f"places{k}", places, persistent=False)
        self.hops = hops

    def forward(
        self,
        x: Any,
        solution: Float[Tensor, "*batch var"],
        *,
        temperature: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> tuple[Float[Tensor, ""], NeighbourTerms]:
        """Nothing is drawn and nothing has a temperature: both arguments are there for the training loop."""
        program = self.model(x)
        if program.known or any(block.is_equality for block in program.learned):
            raise InputError("model must have learned inequalities alone for the loss over neighbours")
        if not (program.bounds.is_binary and bool((program.bounds.integral_lower == 0).all())):
            raise InputError("model must have binary variables for the loss over neighbours")
        move = 1 - 2 * solution
        shape = solution.shape
        cost = self.changes(program.movable_cost * move)
        rows = [block.a.expand(*shape[:-1], *block.a.shape[-2:]) for block in program.learned]
        inside = [
            torch.linalg.vecdot(a, solution.unsqueeze(-2)) + block.b
            for a, block in zip(rows, program.learned, strict=True)
        ]
        # log σ of the opposite of each: how probable it is that nothing separates a neighbour.
        unseparated, is_left = functional.logsigmoid(-cost), cost <= 0
        for a, at in zip(rows, inside, strict=True):
            value = self.changes(a * move.unsqueeze(-2)) + at.unsqueeze(-1)
            unseparated = unseparated + functional.logsigmoid(value).sum(-2)
            is_left = is_left & (value >= 0).all(-2)
        negative = -log_of_rest(unseparated).sum(-1).mean()
        every = torch.cat(inside, -1)
        positive = -functional.logsigmoid(every).sum(-1).mean()
        separated = (~is_left).all(-1).to(negative.dtype).mean()
        terms = NeighbourTerms(
            positive.detach(), negative.detach(), separated, (every >= 0).all(-1).to(negative.dtype).mean()
        )
        return positive + negative, terms

    def places(self) -> list[Int[Tensor, "neighbour hop"]]:
        return [getattr(self, f"places{k}") for k in range(1, self.hops + 1)]

    def changes(self, change: Float[Tensor, "*batch var"]) -> Float[Tensor, "*batch neighbour"]:
        """What flipping each set of places changes, given what each place does."""
        return torch.cat([change[..., places].sum(-1) for places in self.places()], -1)


def log_of_rest(log_p: Tensor) -> Tensor:
    """log(1 - p), given log p < 0; finite where p is rounded to 1."""
    return torch.log(-torch.expm1(log_p.clamp(max=-1e-7)))
