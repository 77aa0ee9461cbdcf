"""A step that learns from each pair in several orders of its points, and from what a solver found wrong with others."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from neuralilp.errors import InputError
from neuralilp.loss import ILPLoss
from neuralilp.model import NeuralILP
from neuralilp.negatives import Negatives
from neuralilp.negatives.base import NegativeSampler
from neuralilp.terms import LossTerms

MEMORY = 4096
"""Negatives that are remembered: the last ones."""


class RelabelledStep(nn.Module):
    """x, y* -> the balanced loss and its terms, as :class:`~neuralilp.LossStep`, over ``orders`` orders of the points.

    The points of both images come in random order, so a cost and its solution in another order are an example as good
    as the first; and static rows, which do not know the order, must hold there too. Negatives of ``sampler`` are drawn
    in each order, those of ``searched`` once and then put into all: what a solver found wrong counts many times.

    It counts for other pairs too. A negative says how a matching goes wrong, "these two swapped", and each pair has as
    many ways to go wrong like that as it has orders in which its solution is the same. Of the last negatives that were
    found ``recalled`` ones, each in such an order, are put to every example in every order. A solver that is called for
    few of the batches is then enough.

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
        recalled: int = 0,
        noise: float = 0.0,
    ) -> None:
        super().__init__()
        if recalled and searched is None:
            raise InputError(f"recalled must be 0 where nothing is searched, got {recalled}")
        self.model, self.sampler, self.loss, self.balancer = model, sampler, loss, balancer
        self.k, self.searched, self.orders, self.noise, self.recalled = k, searched, orders, noise, recalled
        self.memory = NegativeMemory(MEMORY if recalled else 0, k)

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
        straight = straightening(solution, self.k)
        drawn = random_orders(self.orders, len(solution), self.k, generator=generator)
        left, right = (side.to(solution.device) for side in drawn)
        place = straight.expand(self.orders, -1, -1).gather(-1, entries(left, right))

        def relabelled(values: Float[Tensor, "batch *more var"]) -> Float[Tensor, "order batch *more var"]:
            where = place.view(*place.shape[:2], *[1] * (values.ndim - 2), -1)
            many = values.expand(self.orders, *values.shape)
            return many.gather(-1, where.expand_as(many))

        y = relabelled(solution)
        many = dataclasses.replace(program, cost=relabelled(program.cost))
        negatives = [self.sampler(many, y, generator=generator)]
        if self.searched is not None:
            found = self.searched(program, solution, generator=generator).points()
            negatives.append(Negatives.from_points(y, relabelled(found)))
            if self.recalled:
                self.memory.add(found.gather(-1, straight.unsqueeze(-2).expand_as(found)))
                again = self.memory.recall(self.recalled, left, right, generator=generator)
                negatives.append(Negatives.from_points(y, again.to(y)))
        terms = self.loss(many, y, Negatives.cat(negatives), temperature=temperature)
        return self.balancer(terms), terms


class NegativeMemory(nn.Module):
    """The last ``size`` negatives, in the order of their points in which y* is the identity."""

    point: Tensor
    count: Tensor

    def __init__(self, size: int, k: int) -> None:
        super().__init__()
        self.k = k
        self.register_buffer("point", torch.zeros(size, k * k, dtype=torch.int8))
        self.register_buffer("count", torch.tensor(0))

    def add(self, found: Float[Tensor, "*batch var"]) -> None:
        """Those that are not y* itself take the places of the oldest."""
        found = found.flatten(0, -2)
        is_wrong = (found != torch.eye(self.k, device=found.device).flatten()).any(-1)
        wrong = found[is_wrong][-len(self.point) :]
        place = (self.count + torch.arange(len(wrong), device=found.device)) % len(self.point)
        self.point[place] = wrong.to(self.point)
        self.count += len(wrong)

    def recall(
        self,
        number: int,
        left: Int[Tensor, "*batch k"],
        right: Int[Tensor, "*batch k"],
        *,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """``number`` for each order of left and right points, `*batch number var`; none as long as there are none.

        Putting both sides into one more random order first leaves the identity, and so y*, as it is.
        """
        known = min(int(self.count), len(self.point))
        number = number if known else 0
        device = self.point.device
        which = torch.randint(max(known, 1), (*left.shape[:-1], number), generator=generator).to(device)
        same = torch.rand(*which.shape, self.k, generator=generator).argsort(-1).to(device)
        sides = (same.gather(-1, side.unsqueeze(-2).expand_as(same)) for side in (left, right))
        return self.point[which].gather(-1, entries(*sides))


def straightening(solution: Float[Tensor, "*batch var"], k: int) -> Int[Tensor, "*batch var"]:
    """Where each entry comes from when the right points are put into the order in which y* is the identity."""
    partner = solution.unflatten(-1, (k, k)).argmax(-1)
    return entries(torch.arange(k, device=solution.device).expand_as(partner), partner)


def random_orders(
    *shape: int, generator: torch.Generator | None = None
) -> tuple[Int[Tensor, "*batch k"], Int[Tensor, "*batch k"]]:
    """An order of the left points and one of the right points."""
    left, right = torch.rand(2, *shape, generator=generator).argsort(-1)
    return left, right


def entries(left: Int[Tensor, "*batch k"], right: Int[Tensor, "*batch k"]) -> Int[Tensor, "*batch var"]:
    """Where each entry of a k×k matrix comes from, when its rows and its columns are put into these orders."""
    return (left.unsqueeze(-1) * left.shape[-1] + right.unsqueeze(-2)).flatten(-2)
