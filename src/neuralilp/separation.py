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
import warnings
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from neuralilp.blocks import FAR
from neuralilp.differences import Differences
from neuralilp.rows import UnitRows

SLAB = 2**20
"""Distances held at once: a few megabytes, which the allocator keeps instead of giving them back to the system."""

COMPILE_ERRORS = (torch._dynamo.exc.TorchDynamoException, torch._dynamo.exc.FailOnRecompileLimitHit)
"""What ``torch.compile`` raises when it is not the caller's fault, or not his alone."""

CHUNK = 2**17
"""Distances handled at once, so that they and their temporaries stay in the cache."""

COMPILED_CHUNK = 2**19
"""The same where fused loops have no temporaries to speak of."""


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
    def summarise(cls, distance: Float[Tensor, "neg known"], rate: Tensor | None, margin: float | Tensor) -> KnownRows:
        distance = distance.clamp(max=FAR)
        nearest = distance.amin(-1)
        weight = decay(distance - nearest.unsqueeze(-1), rate)
        return cls(nearest, weight.sum(-1), (weight * (margin + distance).relu()).sum(-1))

    @classmethod
    def none(cls, like: Float[Tensor, " neg"]) -> KnownRows:
        """No rows: out of reach, and without weight."""
        return cls(torch.full_like(like, FAR), torch.zeros_like(like), torch.zeros_like(like))

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
        margin: float | Tensor,
        compiled: bool,
    ) -> tuple[Tensor, Tensor]:
        rows = UnitRows(rows.table.replace(stacked.detach()), slack.detach())
        slopes = UnitRows(rows.table.replace(torch.zeros_like(stacked)), torch.zeros_like(slack))
        if not torch.compiler.is_compiling():
            keep_freed_memory()
        separate_chunk = separate_compiled() if compiled else separate
        first, constr = rows.num_inequalities, max(stacked.shape[-1], 1)
        chunk = max((COMPILED_CHUNK if compiled else CHUNK) // constr, 1)
        nearest, cost_slope, value = torch.empty_like(cost), torch.empty_like(cost), cost.new_zeros(())
        for slab, operator in differences.slabs(rows.table, max(SLAB // constr, 1)):
            values = operator.values(rows.table)
            for low in range(slab.start, slab.stop, chunk):
                part = slice(low, min(low + chunk, slab.stop))
                mine = values[part.start - slab.start : part.stop - slab.start]
                example = differences.example[part]
                value_part, nearest[part], cost_slope[part], slack_slope = separate_chunk(
                    mine[:, :first] if rows.num_inequalities else None,
                    mine[:, first:] if rows.num_equalities else None,
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
                if rows.table.group is None:
                    slopes.slack.add_(slack_slope)
                else:
                    slopes.slack.index_add_(0, rows.table.group[example], slack_slope)
            if any(ctx.needs_input_grad):
                operator.add_slopes(values, slopes.table)
        ctx.save_for_backward(slopes.table.stacked, slopes.slack, cost_slope)
        ctx.mark_non_differentiable(nearest)
        return value, nearest

    @staticmethod
    @once_differentiable
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
    margin: float | Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One chunk of Eqs. 7 and 9: the value, each negative's smallest distance, and the slopes for cost and sigma.

    The slopes for d and s take their place. Of an equality's two distances σ + s and σ - s, ``near`` is σ - |s| and
    ``far`` σ + |s|, which the hinge never cuts off. Everything is relative to the smallest distance, so that no
    exponential overflows.
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
    if d is not None:
        e = decay(d - column, rate)
        h = (d + margin).relu_()
        total = total + e.sum(1)
        value = value + torch.linalg.vecdot(e, h)
        e.mul_(h.sign_())
    if s is not None:
        near = decay((sigma - size) - column, rate)
        far = decay((sigma + size) - column, rate) if rate is None else far_from_near(near, sigma, column, rate)
        total = total + (near.sum(1) + far.sum(1))
        h = ((sigma + margin) - size).relu_()
        value = value + torch.linalg.vecdot(near, h) + torch.linalg.vecdot(far, size.add_(sigma + margin))
        near.mul_(h.sign_())
    scale = (weight / total).unsqueeze(1)
    if d is not None:
        d.copy_(e.mul_(scale))
    slope_sigma = torch.zeros_like(sigma)
    if s is not None:
        slope_sigma = (far + near).mul_(scale)
        if sigma.shape[0] == 1:
            slope_sigma = slope_sigma.sum(0, keepdim=True)
        s.sign_().mul_(far.sub_(near).mul_(scale))
    return (value * scale.squeeze(1)).sum(), nearest, e_cost * h_cost.sign() * scale.squeeze(1), slope_sigma


def far_from_near(near: Tensor, sigma: Tensor, nearest: Tensor, rate: Tensor) -> Tensor:
    """exp(-(σ + |s| - nearest)/τ) from near = exp(-(σ - |s| - nearest)/τ), by a division instead of a second exp.

    Their product is exp(-2(σ - nearest)/τ), for which one factor a row and one a column do. Both are at most 1, as
    nearest <= min σ; where near vanishes, far <= near does too.
    """
    lowest = sigma.amin(1, keepdim=True)
    by_column, by_row = (2 * rate * (sigma - lowest)).exp(), (2 * rate * (lowest - nearest)).exp()
    return (by_column * by_row).div_(near.clamp(min=torch.finfo(near.dtype).tiny))


def compiler_is_present() -> bool:
    """Is there a C++ compiler for ``torch.compile`` to use?"""
    return any(shutil.which(name) for name in ("g++", "clang++", "c++"))


@functools.cache
def keep_freed_memory() -> None:
    """Have the C library keep the memory of freed slabs for the next step instead of returning it to the system.

    glibc learns from the largest block freed so far (of at most 32 MB) how much to keep; freeing one never touched
    teaches it. Elsewhere this does nothing. Without it a third of a step can go into page faults.
    """
    torch.empty(31 * 2**20, dtype=torch.uint8)


class _Compiled:
    """:func:`separate` through ``torch.compile``, or as it is, with a warning, once compiling has failed."""

    def __init__(self) -> None:
        self.function: Any = torch.compile(separate, dynamic=True)
        self.has_failed = False

    def __call__(self, *arguments: Any) -> Any:
        if not self.has_failed:
            try:
                return self.function(*arguments)
            except COMPILE_ERRORS as error:
                warnings.warn(f"compiling failed, the loss goes on plainly: {error}", stacklevel=2)
                self.has_failed = True
        return separate(*arguments)


separate_compiled = functools.cache(_Compiled)
