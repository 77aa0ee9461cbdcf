"""The last stage of learning static rows with known costs: hard negatives, small margins, no temperature.

A point z of the box with c_s·z < c_s·y_s for some example s is infeasible, whichever example it came from, since all
examples share the constraints (and labels are right: :mod:`neuralilp.evidence` finds those that are not). So the
negatives of all examples make one pool, and every y_s is a positive. Each round searches for the points that the
present rows separate worst, adds them to the pool, and fits the rows to it by ILP-Loss at temperature 0 (Eqs. 6
and 7), with margins that shrink. Beyond the paper.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from neuralilp.blocks import Bounds, row_norm
from neuralilp.errors import InputError, ShapeError
from neuralilp.negatives.nearest import MOVES, check_rows, distinct, nearest_improving
from neuralilp.separation import keep_freed_memory

CHUNK = 2**19
"""Distances of pool points held at once."""


@dataclasses.dataclass(frozen=True)
class Polishing:
    """The schedule of :func:`polish`; a pair is a start and an end, with a geometric path between them."""

    rounds: int = 6
    steps: int = 200
    """Of Adam, each round."""
    learning_rate: tuple[float, float] = (3e-3, 1e-4)
    """Of the first and of the last round; within a round it falls like a cosine."""
    margins: tuple[float, float] = (0.01, 0.001)
    """μ⁺ = μ⁻ at the start and end of each round."""
    reach: float = 0.5
    """Pool points farther outside than this under every restart are forgotten."""
    prune_round: int = 4
    """After this round (the first is 0) only the best restart goes on, without its superfluous rows."""
    allow: int = 3
    """Pool points that may be lost with each row."""
    hops: int = 3
    top: int = 16
    beam: int = 4
    depth: int = 2
    max_moves: int = MOVES
    seed: int = 0
    """Of the moves, where there are more than ``max_moves``."""

    def __post_init__(self) -> None:
        for name in ("rounds", "steps", "reach", "hops", "top", "beam", "depth", "max_moves"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("learning_rate", "margins"):
            if not min(getattr(self, name)) > 0:
                raise InputError(f"{name} must be two positive numbers, got {getattr(self, name)}")
        if not 0 <= self.prune_round < self.rounds:
            raise InputError(f"prune_round must be one of the {self.rounds} rounds, from 0, got {self.prune_round}")
        if self.allow < 0:
            raise InputError(f"allow must not be negative, got {self.allow}")

    def rate(self, round: int) -> float:
        start, end = self.learning_rate
        return start * (end / start) ** (round / max(self.rounds - 1, 1))


class PolishState(NamedTuple):
    """All that the next round depends on, beside the examples and the settings, and how the last one ended.

    For a checkpoint, ``state._asdict()`` is an int and tensors, and ``PolishState(**saved)`` the way back.
    """

    round: int
    """Rounds done."""
    a: Float[Tensor, "restart constr var"]
    b: Float[Tensor, "restart constr"]
    pool: Float[Tensor, "point var"]
    loss: Float[Tensor, " restart"]
    """Where the fit ended, before any pruning."""
    unseparated: Int[Tensor, " restart"]
    """Pool points that satisfy every row."""
    violated: Int[Tensor, " restart"]
    """Examples whose solution violates a row."""


def polish(
    a: Float[Tensor, "restart constr var"],
    b: Float[Tensor, "restart constr"],
    cost: Float[Tensor, "example var"],
    solution: Float[Tensor, "example var"],
    bounds: Bounds,
    *,
    settings: Polishing | None = None,
    state: PolishState | None = None,
    on_round: Callable[[PolishState], None] | None = None,
) -> PolishState:
    """Fit rows that start near the truth (as :func:`~neuralilp.warmstart.fit_optimality_conditions` leaves them).

    Returns the state after the last round, with one restart left. ``on_round`` sees the state after each round; given
    back as ``state`` it lets the rest follow as if there had been no stop, bit for bit (a and b are then unused).
    Offsets tight to the examples should be moved out by about the last margin first.
    """
    settings = settings or Polishing()
    if state is None:
        state = start(a, b, cost)
    while state.round < settings.rounds:
        state = polish_round(state, cost, solution, bounds, settings)
        if on_round is not None:
            on_round(state)
    return state


def start(
    a: Float[Tensor, "restart constr var"], b: Float[Tensor, "restart constr"], cost: Float[Tensor, "example var"]
) -> PolishState:
    """The state before the first round: the rows scaled to norm 1, and an empty pool."""
    if a.ndim != 3:
        raise ShapeError(f"a must be `restart constr var`, got shape {tuple(a.shape)}")
    check_rows(a, b, cost)
    norm, none = row_norm(a), torch.zeros(len(a), dtype=torch.long, device=a.device)
    unit = a / norm.unsqueeze(-1)
    return PolishState(0, unit, b / norm, a.new_empty(0, a.shape[-1]), torch.full_like(b[:, 0], torch.nan), none, none)


@torch.no_grad()
def polish_round(
    state: PolishState,
    cost: Float[Tensor, "example var"],
    solution: Float[Tensor, "example var"],
    bounds: Bounds,
    settings: Polishing,
) -> PolishState:
    """One round: search, pool, fit; after ``prune_round`` also choose a restart and prune it. A pure function."""
    a, b, pool = state.a, state.b, state.pool
    found = [pool]
    for restart in range(len(a)):
        generator = torch.Generator().manual_seed(settings.seed + state.round)
        found.append(
            nearest_improving(
                a[restart],
                b[restart],
                cost,
                solution,
                bounds,
                hops=settings.hops,
                top=settings.top,
                beam=settings.beam,
                depth=settings.depth,
                max_moves=settings.max_moves,
                generator=generator,
            )
        )
    pool = distinct(torch.cat(found))
    pool = pool[nearest_distance(a, b, pool).amax(0) > -settings.reach]
    a, b, loss = fit_pool(
        a,
        b,
        pool,
        solution,
        steps=settings.steps,
        learning_rate=settings.rate(state.round),
        margins=settings.margins,
    )
    unseparated, violated = wrong_sides(a, b, pool, solution)
    if state.round == settings.prune_round:
        best = best_restart(unseparated, violated)
        a, b, loss, unseparated, violated = (part[best : best + 1] for part in (a, b, loss, unseparated, violated))
        kept = prune(a[0], b[0], pool, settings.allow)
        a, b = a[:, kept], b[:, kept]
        unseparated, violated = wrong_sides(a, b, pool, solution)
    return PolishState(state.round + 1, a, b, pool, loss, unseparated, violated)


@torch.no_grad()
def fit_pool(
    a: Float[Tensor, "restart constr var"],
    b: Float[Tensor, "restart constr"],
    pool: Float[Tensor, "point var"],
    solution: Float[Tensor, "example var"],
    *,
    steps: int = 200,
    learning_rate: float = 1e-3,
    margins: tuple[float, float] = (0.01, 0.001),
) -> tuple[Float[Tensor, "restart constr var"], Float[Tensor, "restart constr"], Float[Tensor, " restart"]]:
    """Rows of norm 1 that separate the pool from the solutions, and the loss of each restart at the end:

        mean over examples of [ Σ_rows max(0, μ - d(y)) ]  +  1/(number of examples) Σ_pool max(0, μ + min_rows d(z))

    which is ILP-Loss at temperature 0 with μ⁺ = μ⁻ = μ. Adam with a rate that falls like a cosine, while μ goes
    geometrically from the first to the second margin.
    """
    check_rows(a, b, solution)
    if steps < 1 or not learning_rate > 0 or not min(margins) > 0:
        raise InputError(
            f"steps, learning_rate and margins must be positive, got {steps}, {learning_rate} and {margins}"
        )
    keep_freed_memory()
    a, b = a.clone(), b.clone()
    points, positives = pool.mT.contiguous(), solution.mT.contiguous()
    optimizer = torch.optim.Adam([a, b], betas=(0.9, 0.99), fused=True)
    first, last = margins
    for step in range(steps):
        done = step / steps
        optimizer.param_groups[0]["lr"] = learning_rate * (0.5 * (1 + math.cos(math.pi * done)) + 0.01)
        _, a.grad, b.grad = pool_loss(a, b, points, positives, first * (last / first) ** done)
        optimizer.step()
    loss, _, _ = pool_loss(a, b, points, positives, last)
    return torch.nn.functional.normalize(a, dim=-1), b.detach(), loss


def pool_loss(
    a: Float[Tensor, "restart constr var"],
    b: Float[Tensor, "restart constr"],
    points: Float[Tensor, "var point"],
    positives: Float[Tensor, "var example"],
    margin: float,
) -> tuple[Float[Tensor, " restart"], Float[Tensor, "restart constr var"], Float[Tensor, "restart constr"]]:
    """The loss of :func:`fit_pool` with its gradients for a (not yet of norm 1) and b.

    Written out: a negative within the margin pulls at its nearest row alone, so that everything after the minimum
    touches only the few such negatives, one row each.
    """
    restarts, constr = b.shape
    norm = torch.linalg.vector_norm(a, dim=-1, keepdim=True)
    unit = a / norm
    rows, offset = unit.flatten(0, 1), b.view(-1, 1)

    inside = torch.addmm(offset, rows, positives)
    active = (inside < margin).to(a.dtype)
    loss = ((margin - inside) * active).view(restarts, -1).sum(-1)
    to_rows, to_offset = -(active @ positives.mT), -active.sum(-1)

    for part in points.split(max(CHUNK // len(rows), 1), dim=-1):
        distance = torch.addmm(offset, rows, part).view(restarts, constr, -1)
        restart, point = (distance.amin(1) > -margin).nonzero(as_tuple=True)
        nearest, row = distance[restart, :, point].min(-1)
        row += restart * constr
        loss.index_add_(0, restart, nearest + margin)
        to_rows.index_add_(0, row, part.mT[point])
        to_offset.index_add_(0, row, torch.ones_like(nearest))

    count = positives.shape[-1]
    to_unit = to_rows.view_as(a) / count
    to_a = (to_unit - unit * (unit * to_unit).sum(-1, keepdim=True)) / norm
    return loss / count, to_a, to_offset.view_as(b) / count


def best_restart(unseparated: Int[Tensor, " restart"], violated: Int[Tensor, " restart"]) -> int:
    """The restart with the fewest pool points and examples on the wrong side."""
    return int((unseparated + violated).argmin())


def wrong_sides(
    a: Float[Tensor, "restart constr var"],
    b: Float[Tensor, "restart constr"],
    pool: Float[Tensor, "point var"],
    solution: Float[Tensor, "example var"],
) -> tuple[Int[Tensor, " restart"], Int[Tensor, " restart"]]:
    """How many pool points satisfy every row, and how many solutions do not; rows that are NaN have all wrong."""
    is_separated = nearest_distance(a, b, pool) < 0
    is_inside = nearest_distance(a, b, solution) >= 0
    return is_separated.logical_not().sum(-1), is_inside.logical_not().sum(-1)


def nearest_distance(
    a: Float[Tensor, "restart constr var"], b: Float[Tensor, "restart constr"], z: Float[Tensor, "point var"]
) -> Float[Tensor, "restart point"]:
    """min over rows of a·z + b for each restart, one restart at a time to spare memory."""
    return torch.stack([(z @ rows.mT + offset).amin(-1) for rows, offset in zip(a, b, strict=True)])


@torch.no_grad()
def prune(
    a: Float[Tensor, "constr var"], b: Float[Tensor, " constr"], pool: Float[Tensor, "point var"], allow: int = 0
) -> Int[Tensor, " kept"]:
    """The rows to keep, of those that separate the pool.

    Greedy: again and again the row goes that alone separates the fewest points of the pool, until that is more than
    ``allow`` points. One row always stays.
    """
    separates = pool @ a.mT + b < 0
    kept = torch.arange(len(a), device=a.device)
    while len(kept) > 1:
        mine = separates[:, kept]
        alone = (mine & (mine.sum(-1, keepdim=True) == 1)).sum(0)
        least = int(alone.argmin())
        if alone[least] > allow:
            break
        kept = torch.cat([kept[:least], kept[least + 1 :]])
    return kept
