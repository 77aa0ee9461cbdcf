"""Project and sample: integral points near the current hyperplanes (Section 3.3, item 2)."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from neuralilp.blocks import Bounds
from neuralilp.differences import sizes_are_free
from neuralilp.negatives.base import Draw, Negatives, NegativeSampler
from neuralilp.program import IntegerProgram


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
            distance = unit.values(solution)
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
    sides, constr = distance.shape[-1], a.shape[-2]
    if distance.numel() * n < SPARSE_FROM or draw.is_fixed or not sizes_are_free(solution):
        move = -distance.unsqueeze(-1) * (a if sides == constr else torch.cat([a] * (sides // constr), -2))
        return Negatives.from_dense(solution, round_at_random(move, draw))
    example, side = torch.arange(batch.numel()).unsqueeze(-1), torch.arange(sides) % constr
    if a.ndim == 2:
        row_of_a = side.expand(batch.numel(), sides)
    else:
        a = a.expand(*batch, constr, n)
        row_of_a = example * constr + side
    row, place, step = round_sparsely(distance.reshape(-1), a.reshape(-1, n), row_of_a.reshape(-1), draw)
    place, step = _padded(bounds, solution.reshape(-1, n), sides, row, place, step)
    return Negatives.from_sparse(solution, place.unflatten(0, batch), step.unflatten(0, batch))


def round_at_random(move: Tensor, draw: Draw) -> Tensor:
    """floor(r) + 1 with probability r - floor(r), else floor(r)."""
    low = move.floor()
    return low + (draw(*move.shape) < move - low)


def round_sparsely(
    distance: Float[Tensor, " row"], a: Float[Tensor, "constr var"], row_of_a: Int[Tensor, " row"], draw: Draw
) -> tuple[Int[Tensor, " entry"], Int[Tensor, " entry"], Float[Tensor, " entry"]]:
    """``round_at_random(-distance·a[row_of_a])`` in distribution, as the (row, place, step) that are not zero.

    Far most coordinates of a projection are within a few hundredths of y*, and stay. With p_j the probability that
    coordinate j moves, λ_j = -log(1 - p_j), and λ the largest of a row: a Poisson number of events of mean nλ fall on
    uniform coordinates, each event counts with probability λ_j / λ, and a coordinate moves if an event counts there.
    So j sees a Poisson number of mean λ_j that is independent of the other coordinates', and moves with probability
    1 - exp(-λ_j) = p_j: exactly independent rounding, for a few random numbers a row instead of n.
    """
    n = a.shape[-1]
    largest = distance.abs() * a.abs().amax(-1).index_select(0, row_of_a)
    likely = (largest >= LIKELY_MOVE).nonzero().squeeze(-1)
    step = round_at_random(-distance[likely, None] * a[row_of_a[likely]], draw)
    likely_row, likely_place = step.nonzero(as_tuple=True)

    rate = torch.where(largest < LIKELY_MOVE, -torch.log1p(-largest), 0)
    events = torch.poisson(rate * n, generator=draw.generator).long()
    row = torch.arange(distance.numel()).repeat_interleave(events)
    place = torch.randint(n, row.shape, generator=draw.generator)
    move = a.take(row_of_a.index_select(0, row).mul_(n).add_(place)).mul_(distance.index_select(0, row))
    counts = draw(*row.shape).mul_(rate.index_select(0, row)) < move.abs().neg_().log1p_().neg_()
    at = counts.nonzero().squeeze(-1)
    row, place, step_down = row[at], place[at], move[at].sign()
    # A coordinate moves once, however many events count there.
    first = torch.from_numpy(np.unique((row * n + place).numpy(), return_index=True)[1])
    return (
        torch.cat([likely[likely_row], row[first]]),
        torch.cat([likely_place, place[first]]),
        torch.cat([step[likely_row, likely_place], -step_down[first]]),
    )


def _padded(
    bounds: Bounds, solution: Tensor, sides: int, row: Tensor, place: Tensor, step: Tensor
) -> tuple[Int[Tensor, "example side hop"], Float[Tensor, "example side hop"]]:
    """Entries as rows of one width; a row that leaves the bounds becomes y* itself, which the loss leaves out."""
    examples, rows = solution.shape[0], solution.shape[0] * sides
    at = row // sides * solution.shape[-1] + place
    value = solution.take(at) + step
    lower, upper = (bound.expand_as(solution).reshape(-1).take(at) for bound in (bounds.lower, bounds.upper))
    leaves = torch.zeros(rows, dtype=torch.bool).index_fill_(0, row[(value < lower) | (value > upper)], True)
    stay = (~leaves.index_select(0, row)).nonzero().squeeze(-1)
    row, order = row[stay].sort(stable=True)
    count = torch.bincount(row, minlength=rows)
    width = max(int(count.max()), 1)
    slot = row * width + torch.arange(row.numel()) - (count.cumsum(0) - count).index_select(0, row)
    shape = (examples, sides, width)
    padded_place = torch.zeros(rows * width, dtype=torch.long).index_copy_(0, slot, place[stay][order])
    padded_step = torch.zeros(rows * width, dtype=step.dtype).index_copy_(0, slot, step[stay][order])
    return padded_place.view(shape), padded_step.view(shape)
