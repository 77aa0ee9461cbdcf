"""The negative term of ILP-Loss (Eqs. 7 and 9) on sparse negatives, with its gradient in the same pass.

The loss is linear in each negative's Σ_i w_i max(0, μ⁻ + d_i) and the weights w carry no gradient, so the derivative
for a distance d_i is w_i·[μ⁻ + d_i > 0]: known as soon as the weights are. One pass over the negatives, a slab at a
time, yields the value and that derivative; the graph that autograd would keep for (negatives × rows) tensors never
exists. :mod:`neuralilp.dense` is the same formula written plainly, and the tests hold the two together.

Distances are handled as they come: learned inequalities by their d; an equality by the one value s = (a·z + b)/|a|
behind its two distances σ ± s; everything known (bounds, known rows) summed up beforehand to three numbers a negative.
"""

from __future__ import annotations

import dataclasses
import functools
import shutil
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from neuralilp.differences import Differences
from neuralilp.rows import UnitRows

SLAB = 2**17
"""Distances handled at once, so that a slab and its temporaries stay in the cache; four times as many compiled."""

FAR = 1e6
"""Stands in for the distance to an infinite bound: no weight, and no NaN."""


@dataclasses.dataclass(frozen=True, eq=False)
class KnownRows:
    """The rows of one negative that the loss cannot move, summed up.

    ``nearest`` is the smallest distance d among them, ``mass`` = Σ exp(-(d - nearest)/τ), and ``hinge`` the same sum
    with max(0, μ⁻ + d) as weights.
    """

    nearest: Float[Tensor, " neg"]
    mass: Float[Tensor, " neg"]
    hinge: Float[Tensor, " neg"]

    @classmethod
    def summarise(cls, distance: Float[Tensor, "neg known"], rate: Tensor | None, margin: float) -> KnownRows:
        distance = distance.clamp(max=FAR)
        nearest = distance.amin(-1)
        weight = decay(distance - nearest.unsqueeze(-1), rate)
        return cls(nearest, weight.sum(-1), (weight * (margin + distance).relu()).sum(-1))

    def rows(self, index: Tensor) -> KnownRows:
        return KnownRows(self.nearest[index], self.mass[index], self.hinge[index])

    def merge(self, other: KnownRows, rate: Tensor | None) -> KnownRows:
        nearest = torch.minimum(self.nearest, other.nearest)
        mine, its = decay(self.nearest - nearest, rate), decay(other.nearest - nearest, rate)
        return KnownRows(nearest, mine * self.mass + its * other.mass, mine * self.hinge + its * other.hinge)


def decay(gap: Tensor, rate: Tensor | None) -> Tensor:
    """exp(-gap/τ) for ``rate`` = -1/τ; for None its limit τ → 0: 1 where the gap is 0, shared evenly by ties."""
    if rate is None:
        return (gap <= 0).to(gap.dtype)
    return (gap * rate).exp_()


class NegativeTerm(torch.autograd.Function):
    """L₋ = Σ weight Σ_i w_i max(0, μ⁻ + d_i) of Eq. 7, and the smallest distance of each negative.

    Derivatives go to ``table``, ``base`` and ``slack`` of the learned :class:`~neuralilp.rows.UnitRows`, which are
    given one by one for autograd to see, and to ``cost``, the distances from the cost row.
    """

    @staticmethod
    def forward(
        ctx: Any,
        table: Float[Tensor, "place constr"],
        base: Float[Tensor, "example constr"],
        slack: Float[Tensor, "group equality"],
        cost: Float[Tensor, " row"],
        group: Int[Tensor, " example"] | None,
        differences: Differences,
        weight: Float[Tensor, " row"],
        known: KnownRows,
        rate: Tensor | None,
        margin: float,
        compiled: bool,
    ) -> tuple[Tensor, Tensor]:
        rows = UnitRows(table, base, slack, group)
        step = separate_compiled() if compiled else separate
        slab = max(SLAB * (4 if compiled else 1) // max(table.shape[-1], 1), 1)
        first = rows.num_inequalities
        value, nearest, cost_slope = table.new_zeros(()), torch.empty_like(cost), torch.empty_like(cost)
        slack_slope = torch.zeros_like(slack)
        slope = differences.product(table, group)  # holds distances first: a slab's slopes then take their place
        for start in range(0, slope.shape[0], slab):
            part = slice(start, start + slab)
            example = differences.example[part]
            distance = slope[part].add_(base[example])
            d, s = distance[:, :first], distance[:, first:]
            value_part, nearest[part], cost_slope[part], d_slope, s_slope, slack_part = step(
                d if rows.num_inequalities else None,
                s if rows.num_equalities else None,
                rows.slack_of(example),
                cost[part],
                known.nearest[part],
                known.mass[part],
                known.hinge[part],
                weight[part],
                rate,
                margin,
            )
            value += value_part
            if d_slope is not None:
                d.copy_(d_slope)
            if s_slope is not None:
                s.copy_(s_slope)
                if group is None:
                    slack_slope += slack_part.sum(0)
                else:
                    slack_slope.index_add_(0, group[example], slack_part)
        if any(ctx.needs_input_grad):
            base_slope = torch.zeros_like(base).index_add_(0, differences.example, slope)
            table_slope = differences.transposed_product(slope, group, table.shape[0])
            ctx.save_for_backward(table_slope, base_slope, slack_slope, cost_slope)
        ctx.mark_non_differentiable(nearest)
        return value, nearest

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, slope: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        return *(slope * saved for saved in ctx.saved_tensors), *[None] * 7


def separate(
    d: Float[Tensor, "neg inequality"] | None,
    s: Float[Tensor, "neg equality"] | None,
    sigma: Float[Tensor, "#neg equality"],
    cost: Float[Tensor, " neg"],
    known_nearest: Float[Tensor, " neg"],
    known_mass: Float[Tensor, " neg"],
    known_hinge: Float[Tensor, " neg"],
    weight: Float[Tensor, " neg"],
    rate: Tensor | None,
    margin: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor]:
    """One slab: the value, each negative's smallest distance, and the slopes for cost, d, s and sigma.

    Of an equality's two distances σ + s and σ - s, ``near`` is σ - |s| and ``far`` σ + |s|, which is never cut off by
    the hinge. Everything is relative to the smallest distance, so that no exponential overflows.
    """
    nearest = torch.minimum(known_nearest, cost)
    if d is not None:
        nearest = torch.minimum(nearest, d.amin(1))
    if s is not None:
        size = s.abs()
        nearest = torch.minimum(nearest, (sigma - size).amin(1))
    column = nearest.unsqueeze(1)
    known = decay(known_nearest - nearest, rate)
    e_cost = decay(cost - nearest, rate)
    h_cost = (cost + margin).relu()
    total = known * known_mass + e_cost
    value = known * known_hinge + e_cost * h_cost
    slope_d, slope_s, slope_sigma = None, None, sigma
    if d is not None:
        e = decay(d - column, rate)
        h = (d + margin).relu_()
        total = total + e.sum(1)
        value = value + torch.linalg.vecdot(e, h)
        slope_d = e.mul_(h.sign_())
    if s is not None:
        near = decay(sigma - size - column, rate)
        far = decay(sigma + size - column, rate)
        total = total + near.sum(1) + far.sum(1)
        h = (sigma + margin) + size
        value = value + torch.linalg.vecdot(far, h)
        h = ((sigma + margin) - size).relu_()
        value = value + torch.linalg.vecdot(near, h)
        near.mul_(h.sign_())
    scale = weight / total
    if d is not None:
        slope_d = slope_d * scale.unsqueeze(1)
    if s is not None:
        slope_s = (far - near).mul_(scale.unsqueeze(1)).mul_(s.sign())
        slope_sigma = far.add_(near).mul_(scale.unsqueeze(1))
    cost_slope = e_cost * h_cost.sign() * scale
    return (value * scale).sum(), nearest, cost_slope, slope_d, slope_s, slope_sigma


def compiler_is_present() -> bool:
    """Is there a C++ compiler for ``torch.compile`` to use?"""
    return any(shutil.which(name) for name in ("g++", "clang++", "c++"))


@functools.cache
def separate_compiled() -> Any:
    return torch.compile(separate, dynamic=True)
