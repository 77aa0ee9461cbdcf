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
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from neuralilp.differences import Differences
from neuralilp.rows import UnitRows

SLAB = 2**20
"""Distances held at once: a few megabytes, which the allocator keeps instead of giving them back to the system."""

CHUNK = 2**17
"""Distances handled at once where nothing is compiled, so that they and their temporaries stay in the cache."""

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
        return KnownRows(*(part.index_select(0, index) for part in (self.nearest, self.mass, self.hinge)))

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

    Derivatives go to ``stacked`` and ``slack``, the learned rows (``rows`` itself is opaque to autograd), and to
    ``cost``, the distances from the cost row.
    """

    @staticmethod
    def forward(
        ctx: Any,
        stacked: Float[Tensor, "entry constr"],
        slack: Float[Tensor, "group equality"],
        cost: Float[Tensor, " row"],
        rows: UnitRows,
        differences: Differences,
        weight: Float[Tensor, " row"],
        known: KnownRows,
        rate: Tensor | None,
        margin: float,
        compiled: bool,
    ) -> tuple[Tensor, Tensor]:
        rows = UnitRows(rows.table.replace(stacked.detach()), slack.detach())
        wants = any(ctx.needs_input_grad)
        separate_slab = separate_compiled() if compiled else separate
        chunk = SLAB if compiled else CHUNK
        first, constr = rows.num_inequalities, max(stacked.shape[-1], 1)
        slopes = UnitRows(rows.table.replace(torch.zeros_like(stacked)), torch.zeros_like(slack))
        nearest, cost_slope, value = torch.empty_like(cost), torch.empty_like(cost), cost.new_zeros(())
        for at, slab in differences.slabs(max(SLAB // constr, 1)):
            values = slab.values(rows.table)
            for low in range(0, values.shape[0], max(chunk // constr, 1)):
                inner = slice(low, low + max(chunk // constr, 1))
                outer = slice(at.start + low, min(at.start + inner.stop, at.stop))
                example, part = slab.example[inner], values[inner]
                value_part, nearest[outer], cost_slope[outer], d_slope, s_slope, slack_slope = separate_slab(
                    part[:, :first] if rows.num_inequalities else None,
                    part[:, first:] if rows.num_equalities else None,
                    rows.slack_of(example),
                    cost[outer],
                    known.nearest[outer],
                    known.mass[outer],
                    known.hinge[outer],
                    weight[outer],
                    rate,
                    margin,
                )
                value += value_part
                if not wants:
                    continue
                if d_slope is not None:
                    part[:, :first] = d_slope  # the values of this part are done with
                if s_slope is not None:
                    part[:, first:] = s_slope
                    if rows.table.group is None:
                        slopes.slack.add_(slack_slope.sum(0))
                    else:
                        slopes.slack.index_add_(0, rows.table.group[example], slack_slope)
            if wants:
                slab.add_slopes(values, slopes.table)
        ctx.save_for_backward(slopes.table.stacked, slopes.slack, cost_slope)
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
