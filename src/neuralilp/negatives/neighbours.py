"""Integral k-hop neighbours (Section 3.3, item 1), and those that do not worsen the known cost."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from neuralilp.errors import InputError
from neuralilp.negatives.base import Negatives, NegativeSampler, admissible
from neuralilp.program import Bounds, IntegerProgram


class OneHop(NegativeSampler):
    """Every neighbour at L1 distance 1: n flips where variables are binary, else a step up and one down each."""

    def sample(self, program: IntegerProgram, solution: Tensor, generator: torch.Generator | None) -> Negatives:
        places = torch.arange(solution.shape[-1], device=solution.device).unsqueeze(-1)
        if program.bounds.is_binary:
            return Negatives.from_sparse(solution, places, flip(program.bounds, solution).unsqueeze(-1))
        step = torch.ones_like(places, dtype=solution.dtype)
        return Negatives.from_sparse(solution, places.repeat(2, 1), torch.cat([step, -step]))


class KHop(NegativeSampler):
    """``count`` random neighbours at L1 distance exactly k, for each k given; ``count`` None means n.

    Binary variables: k distinct places flip. Otherwise k unit steps fall on places drawn with replacement, and steps
    that meet in one place go the same way, so that none undoes another.
    """

    def __init__(self, hops: int | tuple[int, ...], count: int | None = None) -> None:
        hops = (hops,) if isinstance(hops, int) else tuple(hops)
        if not hops or min(hops) < 1:
            raise InputError(f"hops must be positive numbers, got {hops}")
        if count is not None and count < 1:
            raise InputError(f"count must be None or positive, got {count}")
        self.hops = hops
        self.count = count

    def sample(self, program: IntegerProgram, solution: Tensor, generator: torch.Generator | None) -> Negatives:
        count = self.count or solution.shape[-1]
        hops = torch.tensor(self.hops, device=solution.device).repeat_interleave(count)
        place, step = draw_hops(program.bounds, solution, hops, max(self.hops), generator)
        return Negatives.from_sparse(solution, place, step)


class ImprovingNeighbours(NegativeSampler):
    """Neighbours as :class:`KHop` draws them that stay in the bounds and, where the cost is known, do not worsen it.

    Beyond the paper: most plain neighbours are masked out of the loss, being worse or out of bounds. This draws
    ``tries`` candidates for each that it returns, with steps only where there is room, and keeps the first that the
    loss may use; where none of them is, y* itself stands in, which the loss leaves out.
    """

    def __init__(self, hops: int | tuple[int, ...], count: int | None = None, *, tries: int = 4) -> None:
        if tries < 1:
            raise InputError(f"tries must be positive, got {tries}")
        self.draw = KHop(hops, count)
        self.tries = tries

    def sample(self, program: IntegerProgram, solution: Tensor, generator: torch.Generator | None) -> Negatives:
        count = self.draw.count or solution.shape[-1]
        hops = torch.tensor(self.draw.hops, device=solution.device).repeat_interleave(count)
        place, step = draw_hops(
            program.bounds, solution, hops.repeat(self.tries), max(self.draw.hops), generator, inward=True
        )
        ok = admissible(program, Negatives.from_sparse(solution, place, step))
        ok = ok.unflatten(-1, (self.tries, -1))
        chosen = ok.to(torch.uint8).argmax(-2, keepdim=True)  # the first that is usable, or 0
        chosen = (chosen * hops.numel() + torch.arange(hops.numel(), device=place.device)).squeeze(-2).unsqueeze(-1)
        index = chosen.expand(*chosen.shape[:-1], place.shape[-1])
        place, step = place.gather(-2, index), step.gather(-2, index)
        return Negatives.from_sparse(solution, place, step * ok.any(-2).unsqueeze(-1))


def flip(bounds: Bounds, solution: Tensor) -> Float[Tensor, "*batch var"]:
    """The step of each binary variable to its other value."""
    return bounds.integral_lower + bounds.integral_upper - 2 * solution


def draw_hops(
    bounds: Bounds,
    solution: Float[Tensor, "*batch var"],
    hops: Int[Tensor, " neg"],
    width: int,
    generator: torch.Generator | None,
    inward: bool = False,
) -> tuple[Int[Tensor, "*batch neg hop"], Float[Tensor, "*batch neg hop"]]:
    """Places and steps at L1 distance ``hops`` from the solution (``width`` is the largest of them).

    Places come from random permutations, so that every variable is used equally often. ``inward`` sends a variable
    that is at a bound the other way.
    """
    batch, n = solution.shape[:-1], solution.shape[-1]
    used = torch.arange(width, device=solution.device) < hops.unsqueeze(-1)
    if bounds.is_binary:
        if width > n:
            raise InputError(f"hops must be at most the number of binary variables, {n}, got {width}")
        place = _distinct_places(batch, n, hops.numel(), width, solution.device, generator)
        step = flip(bounds, solution).gather(-1, place.flatten(-2)).view(place.shape)
        return place, step * used
    place = _permuted(batch, n, hops.numel() * width, solution.device, generator).unflatten(-1, (-1, width))
    sign = torch.rand(place.shape, generator=generator, device=solution.device, dtype=solution.dtype) < 0.5
    step = sign.to(solution.dtype) * 2 - 1
    if inward:
        at = place.flatten(-2)
        no_up = (solution + 1 > bounds.upper).gather(-1, at).view(place.shape)
        no_down = (solution - 1 < bounds.lower).gather(-1, at).view(place.shape)
        step = torch.where(no_up, -1, torch.where(no_down, 1, step))
    step = step * used
    for j in range(1, width):  # steps in one place add up, in the direction of the first
        earlier = place[..., :j]
        same = (earlier == place[..., j : j + 1]) & (step[..., :j] != 0) & (step[..., j : j + 1] != 0)
        step[..., :j] += step[..., :j].sign() * same
        step[..., j] = torch.where(same.any(-1), 0, step[..., j])
    return place, step


def _permuted(
    batch: torch.Size, n: int, count: int, device: torch.device, generator: torch.Generator | None
) -> Int[Tensor, "*batch count"]:
    """``count`` numbers below n from random permutations laid end to end."""
    rounds = -(-count // n)
    order = torch.rand(*batch, rounds, n, generator=generator, device=device).argsort(-1)
    return order.flatten(-2)[..., :count]


def _distinct_places(
    batch: torch.Size, n: int, count: int, width: int, device: torch.device, generator: torch.Generator | None
) -> Int[Tensor, "*batch count width"]:
    """``count`` rows of ``width`` distinct numbers below n, every one uniform, each number equally often a column.

    A round of n rows reads one random permutation at ``width`` distinct random shifts of the row's number, which
    takes 2n random numbers instead of n².
    """
    rounds = -(-count // n)
    order, shift = torch.rand(2, *batch, rounds, n, generator=generator, device=device).argsort(-1)
    row = torch.arange(n, device=device).unsqueeze(-1)
    index = (row + shift[..., None, :width]) % n
    place = order.gather(-1, index.flatten(-2)).view(index.shape)
    return place.flatten(-3, -2)[..., :count, :]
