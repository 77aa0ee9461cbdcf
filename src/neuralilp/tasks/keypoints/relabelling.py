"""A step that learns from each pair in several orders of its points, for one call of the solver."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from neuralilp.loss import ILPLoss
from neuralilp.model import NeuralILP
from neuralilp.negatives import Negatives
from neuralilp.negatives.base import NegativeSampler
from neuralilp.terms import LossTerms


class RelabelledStep(nn.Module):
    """x, y* -> the balanced loss and its terms, as :class:`~neuralilp.LossStep`, over ``orders`` orders of the points.

    The points of both images come in random order, so a cost and its solution in another order are an example as good
    as the first; and static rows, which do not know the order, must hold there too. Negatives of ``sampler`` are drawn
    in each order, those of ``searched`` once and then put into all: what a solver found wrong counts many times.

    ``noise`` is added to the cost before, in multiples of its root mean square: normal, another one in every step. A
    cost that is right on the pairs of training leaves rows nothing to do; where it is in doubt, they learn.
    """

    def __init__(
        self,
        model: NeuralILP,
        sampler: NegativeSampler,
        loss: ILPLoss,
        balancer: nn.Module,
        *,
        k: int,
        searched: NegativeSampler | None = None,
        orders: int = 16,
        noise: float = 0.0,
    ) -> None:
        super().__init__()
        self.model, self.sampler, self.loss, self.balancer = model, sampler, loss, balancer
        self.k, self.searched, self.orders, self.noise = k, searched, orders, noise

    def forward(
        self,
        x: Any,
        solution: Float[Tensor, "batch var"],
        *,
        temperature: float,
        generator: torch.Generator | None = None,
    ) -> tuple[Float[Tensor, ""], LossTerms]:
        program = self.model(x)
        noise = torch.randn(program.cost.shape, generator=generator, device=program.cost.device)
        size = program.cost.detach().square().mean(-1, keepdim=True).sqrt()
        program = dataclasses.replace(program, cost=program.cost + self.noise * size * noise)
        place = random_orders(self.orders, len(solution), self.k, generator).to(solution.device)

        def relabelled(values: Float[Tensor, "batch *more var"]) -> Float[Tensor, "order batch *more var"]:
            where = place.view(*place.shape[:2], *[1] * (values.ndim - 2), -1)
            many = values.expand(self.orders, *values.shape)
            return many.gather(-1, where.expand_as(many))

        y = relabelled(solution)
        many = dataclasses.replace(program, cost=relabelled(program.cost))
        negatives = self.sampler(many, y, generator=generator)
        if self.searched is not None:
            found = self.searched(program, solution, generator=generator).points()
            negatives = Negatives.cat([negatives, Negatives.from_points(y, relabelled(found))])
        terms = self.loss(many, y, negatives, temperature=temperature)
        return self.balancer(terms), terms


def random_orders(
    orders: int, batch: int, k: int, generator: torch.Generator | None = None
) -> Int[Tensor, "order batch var"]:
    """Where each entry of a k×k matrix comes from, when its rows and its columns are put into random orders."""
    left, right = torch.rand(2, orders, batch, k, generator=generator).argsort(-1)
    return (left.unsqueeze(-1) * k + right.unsqueeze(-2)).flatten(-2)
