"""Integral k-hop neighbours (Section 3.3, item 1), and those that do not worsen the known cost."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from neuralilp.blocks import Bounds
from neuralilp.errors import InputError
from neuralilp.negatives.base import FEW_VARIABLES, Draw, Negatives, NegativeSampler, admissible
from neuralilp.program import IntegerProgram


class OneHop(NegativeSampler):
    """Every neighbour at L1 distance 1: n flips where variables are binary, else a step up and one down each."""

    def sample(self, program: IntegerProgram, solution: Tensor, draw: Draw) -> Negatives:
        n, is_binary = solution.shape[-1], program.bounds.is_binary
        if n <= FEW_VARIABLES:
            eye = torch.eye(n, dtype=solution.dtype, device=solution.device)
            ways = flip(program.bounds, solution).unsqueeze(-2) * eye if is_binary else torch.cat([eye, -eye])
            return Negatives.from_dense(solution, ways)
        places = torch.arange(n, device=solution.device).unsqueeze(-1)
        if is_binary:
            return Negatives.from_sparse(solution, places, flip(program.bounds, solution).unsqueeze(-1))
        step = torch.ones_like(places, dtype=solution.dtype)
        return Negatives.from_sparse(solution, places.repeat(2, 1), torch.cat([step, -step]))


class KHop(NegativeSampler):
    """``count`` random neighbours at L1 distance exactly k, for each k given; ``count`` None means n.

    Binary variables: k distinct places flip. Otherwise k unit steps fall on places drawn with replacement, and steps
    that meet in one place go the same way, so that none undoes another.
    """

    def __init__(self, hops: int | tuple[int, ...], count: int | None = None) -> None:
        hops = (hops,) if isinstance(hops, int | float) else tuple(hops)
        if not hops or not all(isinstance(hop, int) and hop >= 1 for hop in hops):
            raise InputError(f"hops must be positive integers, got {hops}")
        if count is not None and count < 1:
            raise InputError(f"count must be None or positive, got {count}")
        self.hops = hops
        self.count = count

    def sample(self, program: IntegerProgram, solution: Tensor, draw: Draw) -> Negatives:
        return draw_hops(program.bounds, solution, self.hops, self.count or solution.shape[-1], draw)


class ImprovingNeighbours(NegativeSampler):
    """Neighbours as :class:`KHop` draws them that stay in the bounds and, where the cost is known, do not worsen it.

    Beyond the paper: most plain neighbours are masked out of the loss, being worse or out of bounds. This draws
    ``tries`` candidates for each that it returns, with steps only where there is room, and keeps the first that the
    loss may use; where none of them is, y* itself stands in, which the loss leaves out.
    """

    def __init__(self, hops: int | tuple[int, ...], count: int | None = None, *, tries: int = 4) -> None:
        if tries < 1:
            raise InputError(f"tries must be positive, got {tries}")
        self.plain = KHop(hops, count)
        self.tries = tries

    def sample(self, program: IntegerProgram, solution: Tensor, draw: Draw) -> Negatives:
        count = self.plain.count or solution.shape[-1]
        wanted = count * len(self.plain.hops)
        drawn = draw_hops(program.bounds, solution, self.plain.hops, count * self.tries, draw, inward=True)
        # Negatives lie hop after hop, then try after try: bring the tries of one negative together.
        ok = admissible(program, drawn).unflatten(-1, (len(self.plain.hops), self.tries, count))
        first = ok.to(torch.uint8).argmax(-2)  # the first that is usable, or 0
        offset = torch.arange(0, wanted * self.tries, count * self.tries, device=first.device).unsqueeze(-1)
        index = (offset + first * count + torch.arange(count, device=first.device)).flatten(-2)
        found = ok.any(-2).flatten(-2).to(solution.dtype).unsqueeze(-1)

        def choose(tensor: Tensor) -> Tensor:
            return tensor.gather(-2, index.unsqueeze(-1).expand(*index.shape, tensor.shape[-1]))

        if drawn.place.shape[-2]:
            return Negatives.from_sparse(solution, choose(drawn.place), choose(drawn.step) * found)
        return Negatives.from_dense(solution, choose(drawn.dense) * found)


def flip(bounds: Bounds, solution: Tensor) -> Float[Tensor, "*batch var"]:
    """The step of each binary variable to its other value."""
    return bounds.integral_lower + bounds.integral_upper - 2 * solution


def draw_hops(
    bounds: Bounds,
    solution: Float[Tensor, "*batch var"],
    hops: tuple[int, ...],
    count: int,
    draw: Draw,
    inward: bool = False,
) -> Negatives:
    """``count`` neighbours at L1 distance k, for each k of ``hops`` in turn.

    Places come from random permutations, so that every variable is used equally often. ``inward`` sends a variable
    that is at a bound the other way. Slots are laid out hop before negative, which later sums over hops prefer.
    """
    batch, n, width = solution.shape[:-1], solution.shape[-1], max(hops)
    device, dtype = solution.device, solution.dtype
    used = (torch.arange(width, device=device).unsqueeze(-1) < torch.tensor(hops, device=device)).to(dtype)
    used = used.repeat_interleave(count, -1)
    places = _distinct_places if bounds.is_binary else _permuted
    place = places(batch, n, count * len(hops), width, draw)
    if n <= FEW_VARIABLES:
        by_negative = place.mT
        times = torch.zeros(*by_negative.shape[:-1], n, dtype=dtype, device=device)
        times.scatter_add_(-1, by_negative, used.mT.expand(by_negative.shape))
        if bounds.is_binary:
            return Negatives.from_dense(solution, times * flip(bounds, solution).unsqueeze(-2))
        value, lower, upper = (tensor.unsqueeze(-2) for tensor in (solution, bounds.lower, bounds.upper))
        return Negatives.from_dense(solution, times * _signs(value, lower, upper, draw(*times.shape), inward))

    def at_places(values: Tensor) -> Tensor:
        return values.expand_as(solution).gather(-1, place.flatten(-2)).view(place.shape)

    if bounds.is_binary:
        return Negatives.from_sparse(solution, place.mT, (at_places(flip(bounds, solution)) * used).mT)
    value, lower, upper = (at_places(tensor) for tensor in (solution, bounds.lower, bounds.upper))
    step = _signs(value, lower, upper, draw(*place.shape), inward) * used
    for later in range(1, width):  # steps that meet in one place become one step, the first one's way
        for earlier in range(later):
            meet = (place[..., earlier, :] == place[..., later, :]) & (step[..., earlier, :] != 0)
            both = meet & (step[..., later, :] != 0)
            step[..., earlier, :] += step[..., earlier, :].sign() * both
            step[..., later, :] *= ~both
    return Negatives.from_sparse(solution, place.mT, step.mT)


def _signs(value: Tensor, lower: Tensor, upper: Tensor, random: Tensor, inward: bool) -> Tensor:
    """Up or down at random; ``inward``, never past a bound that ``value`` is at."""
    up = random < 0.5
    if inward:
        up = (up | (value - 1 < lower)) & (value + 1 <= upper)
    return up.to(random.dtype) * 2 - 1


def _permuted(batch: torch.Size, n: int, count: int, width: int, draw: Draw) -> Int[Tensor, "*batch width count"]:
    """Places below n, each row from random permutations of its own, so that one may be drawn twice in a column."""
    order = draw(*batch, width, -(-count // n), n).argsort(-1)
    return order.flatten(-2)[..., :count]


def _distinct_places(
    batch: torch.Size, n: int, count: int, width: int, draw: Draw
) -> Int[Tensor, "*batch width count"]:
    """Columns of ``width`` distinct places below n, all sets equally likely, each place equally often in a row.

    A round of n columns reads one random permutation at ``width`` distinct random shifts of the column's number,
    which takes 2n random numbers instead of n².
    """
    if width > n:
        raise InputError(f"hops must be at most the number of binary variables, {n}, got {width}")
    rounds = -(-count // n)
    order, shift = draw(2, *batch, rounds, n).argsort(-1)
    index = (torch.arange(n, device=order.device) + shift[..., :width].unsqueeze(-1)) % n
    place = order.gather(-1, index.flatten(-2)).view(index.shape)
    return place.transpose(-3, -2).flatten(-2)[..., :count]
