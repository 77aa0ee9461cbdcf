"""Knapsacks with whole weights, solved exactly and all at once by dynamic programming."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from neuralilp.errors import InputError, ShapeError

AT_ONCE = 500
"""Instances whose tables are held at once."""


class Optimum(NamedTuple):
    z: Float[Tensor, "instance item"]
    is_unique: Bool[Tensor, " instance"]


def solve_knapsacks(
    price: Int[Tensor, "instance item"], weight: Int[Tensor, "instance item"], capacity: int
) -> Optimum:
    """max p·z with w·z <= capacity over {0, 1}ᴺ, and whether no other choice is as good."""
    if price.shape != weight.shape or price.ndim != 2 or not price.shape[1]:
        raise ShapeError(
            f"price and weight must both be `instance item`, got {tuple(price.shape)} and {tuple(weight.shape)}"
        )
    if capacity < 0 or bool((weight < 0).any()):
        raise InputError(f"capacity and weight must not be negative, got {capacity} and {int(weight.min())}")
    parts = [
        _solved(p.long(), w.long(), capacity) for p, w in zip(price.split(AT_ONCE), weight.split(AT_ONCE), strict=True)
    ]
    return Optimum(*(torch.cat(each) for each in zip(*parts, strict=True)))


def _solved(price: Tensor, weight: Tensor, capacity: int) -> tuple[Tensor, Tensor]:
    """``best`` and ``count`` hold, for each room up to the capacity, the best value and how many choices have it."""
    instances, items = price.shape
    room = torch.arange(capacity + 1)
    best = torch.zeros(instances, capacity + 1, dtype=torch.long)
    count = torch.ones_like(best)
    is_taken = torch.empty(items, instances, capacity + 1, dtype=torch.bool)
    for i in range(items):
        left = room - weight[:, i, None]
        before = left.clamp(min=0)
        taken = torch.where(left >= 0, best.gather(1, before) + price[:, i, None], -1)
        ways = count.gather(1, before)
        count = (torch.where(best >= taken, count, 0) + torch.where(taken >= best, ways, 0)).clamp(max=2)
        is_taken[i] = taken > best
        best = torch.maximum(best, taken)
    left = torch.full((instances,), capacity)
    z = torch.zeros(instances, items)
    for i in reversed(range(items)):
        takes = is_taken[i].gather(1, left[:, None])[:, 0]
        z[:, i] = takes.float()
        left = left - weight[:, i] * takes
    return z, count[:, -1] == 1
