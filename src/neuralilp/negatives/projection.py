"""Project and sample: integral points near the current hyperplanes (Section 3.3, item 2)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from neuralilp.differences import sizes_are_free
from neuralilp.negatives.base import Draw, Negatives, NegativeSampler
from neuralilp.program import Bounds, IntegerProgram


class ProjectAndSample(NegativeSampler):
    """y* projected on each learned hyperplane (both of an equality's), then rounded at random to an integer.

    A coordinate r is rounded to floor(r) or ceil(r) with probability ceil(r) - r and r - floor(r), so that the mean
    of the sample is the projection. Where y* lies on the hyperplane, or the row is zero and is no hyperplane, the
    projection is y* itself, which the loss leaves out.
    """

    def sample(self, program: IntegerProgram, solution: Tensor, draw: Draw) -> Negatives:
        parts = []
        for block in program.learned:
            unit = block.unit()
            distance = program.row_values(unit, solution)
            if unit.slack is not None:
                distance = torch.cat([distance + unit.slack, distance - unit.slack], -1)
            parts.append(round_projection(program.bounds, solution, unit.a, distance, draw))
        none = solution.new_empty(*solution.shape[:-1], 0, solution.shape[-1])
        return Negatives.cat(parts) if parts else Negatives.from_dense(solution, none)


SPARSE_FROM = 2**18
"""Coordinates to round from which on only those that may move are visited (on a CPU)."""

LIKELY_MOVE = 0.25
"""A row that moves some coordinate with at least this probability is rounded coordinate by coordinate."""


def round_projection(
    bounds: Bounds,
    solution: Float[Tensor, "*batch var"],
    a: Float[Tensor, "*#batch constr var"],
    distance: Float[Tensor, "*batch side"],
    draw: Draw,
) -> Negatives:
    """Negatives from y* - distance·a rounded at random; ``side`` runs over the unit rows once, or twice."""
    batch, n = solution.shape[:-1], solution.shape[-1]
    if distance.numel() * n < SPARSE_FROM or not sizes_are_free(solution):
        sides = distance.shape[-1] // a.shape[-2]
        move = -distance.unsqueeze(-1) * (a if sides == 1 else torch.cat([a] * sides, -2))
        return Negatives.from_dense(solution, round_at_random(move, draw))
    place, step = _round_sparsely(bounds, solution.reshape(-1, n), a, distance, draw)
    return Negatives.from_sparse(solution, place.unflatten(0, batch), step.unflatten(0, batch))


def round_at_random(move: Tensor, draw: Draw) -> Tensor:
    """floor(r) + 1 with probability r - floor(r), else floor(r)."""
    low = move.floor()
    return low + (draw(*move.shape) < move - low)


def _round_sparsely(bounds: Bounds, solution: Tensor, a: Tensor, distance: Tensor, draw: Draw) -> tuple[Tensor, Tensor]:
    """As :func:`round_at_random` in distribution, without a random number for every coordinate.

    Far most coordinates of a projection are within a few hundredths of y*, and stay. With p_j the probability that
    coordinate j moves, λ_j = -log(1 - p_j), and λ the largest of a row: a Poisson number of events of mean nλ fall on
    uniform coordinates, each event counts with probability λ_j / λ, and a coordinate moves if an event counts there.
    So j sees a Poisson number of mean λ_j that is independent of the other coordinates', and moves with probability
    1 - exp(-λ_j) = p_j: exactly independent rounding. Points that leave the bounds come back as y*.
    """
    examples, n = solution.shape
    sides, constr = distance.shape[-1], a.shape[-2]
    a = (a if a.ndim == 2 else a.expand(*distance.shape[:-1], constr, n)).reshape(-1, n)
    distance = distance.reshape(-1)
    example, side = torch.arange(examples).unsqueeze(-1), torch.arange(sides)
    row_of_a = ((example * constr if a.shape[0] > constr else 0) + side % constr).expand(examples, sides).reshape(-1)
    largest = distance.abs() * a.abs().amax(-1)[row_of_a]
    many = (largest >= LIKELY_MOVE).nonzero().squeeze(-1)
    step = round_at_random(-distance[many, None] * a[row_of_a[many]], draw)
    many_row, many_place = step.nonzero(as_tuple=True)

    rate = torch.where(largest < LIKELY_MOVE, -torch.log1p(-largest), 0)
    events = torch.poisson(rate * n, generator=draw.generator).long()
    row = torch.arange(distance.numel()).repeat_interleave(events)
    place = torch.randint(n, row.shape, generator=draw.generator)
    move = -distance[row] * a[row_of_a[row], place]
    counts = draw(*row.shape) * rate[row] < -torch.log1p(-move.abs())
    key = (row * n + place)[counts].unique()
    row, place = key // n, key % n
    sign = -distance[row].sign() * a[row_of_a[row], place].sign()

    row, place = torch.cat([many[many_row], row]), torch.cat([many_place, place])
    step = torch.cat([step[many_row, many_place], sign])
    point = solution[row // sides, place] + step
    lower, upper = (bound.expand_as(solution)[row // sides, place] for bound in (bounds.lower, bounds.upper))
    left = torch.zeros(distance.numel(), dtype=torch.bool).index_fill_(0, row[(point < lower) | (point > upper)], True)
    stay = ~left[row]
    row, by_row = row[stay].sort(stable=True)
    place, step = place[stay][by_row], step[stay][by_row]
    count = torch.bincount(row, minlength=distance.numel())
    slot = torch.arange(row.numel()) - (count.cumsum(0) - count)[row]
    width = max(int(count.max()), 1)
    padded_place = torch.zeros(distance.numel(), width, dtype=torch.long)
    padded_step = torch.zeros(distance.numel(), width, dtype=solution.dtype)
    padded_place[row, slot], padded_step[row, slot] = place, step
    return padded_place.view(examples, sides, width), padded_step.view(examples, sides, width)
