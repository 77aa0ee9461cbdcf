"""Of all the integral points near the examples, those that improve a known cost and nearly satisfy the present rows."""

from __future__ import annotations

import itertools
import math

import torch
from jaxtyping import Float
from torch import Tensor

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.errors import InputError, ShapeError
from neuralilp.evidence import tie
from neuralilp.program import IntegerProgram

MOVES = 2**15
"""Moves tried from each point, at most."""

CHUNK = 2**18
"""Distances handled at once."""

ROWS = 8
"""Rows that what is left of the moves meets at once."""

OUT = 1e30
"""The price of leaving the box: finite, so that a move that does not pays 0 · OUT = 0."""

NEVER = -torch.inf
"""The distance that ranks points which cannot be used behind all others."""


@torch.no_grad()
def nearest_improving(
    a: Float[Tensor, "constr var"],
    b: Float[Tensor, " constr"],
    cost: Float[Tensor, "example var"],
    solution: Float[Tensor, "example var"],
    bounds: Bounds,
    *,
    hops: int = 3,
    top: int = 16,
    beam: int = 4,
    depth: int = 2,
    max_moves: int = MOVES,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "point var"]:
    """Distinct integral points that are cheaper than some example's solution, and the nearest to satisfying the rows.

    They are infeasible, whatever the true constraints, or that solution would not be optimal; and nearest means the
    largest min over rows of (a·z + b)/|a|, so the present rows separate these worst. For every example the ``top``
    nearest of the points with up to ``hops`` coordinates of y moved by ±1 within the bounds; then, ``depth`` - 1
    times, the top/2 nearest to each of the ``beam`` nearest found last, with up to hops - 1 coordinates moved.

    Labels must be right (:func:`~neuralilp.evidence.consistent` finds those that are not), and cheaper is by more
    than a :func:`~neuralilp.evidence.tie`. Above ``max_moves`` moves (see :func:`moves`), a
    random choice of them is tried.
    """
    check_examples(cost, solution, bounds)
    check_rows(a, b, cost)
    for name, value in {"hops": hops, "top": top, "beam": beam, "depth": depth, "max_moves": max_moves}.items():
        if value < 1:
            raise InputError(f"{name} must be positive, got {value}")
    block = ConstraintBlock(a, b).unit()
    first = Neighbourhood(block, bounds, moves(solution, hops, max_moves, generator))
    later = Neighbourhood(block, bounds, moves(solution, max(hops - 1, 1), max_moves, generator))
    enough = tie(cost, solution)
    found = []
    chunk = max(CHUNK // max(len(first.moves), beam * len(later.moves)), 1)
    for c, y, least in zip(cost.split(chunk), solution.split(chunk), enough.split(chunk), strict=True):
        z, distance = first.nearest(c, y, y, least, top)
        found.append(z[distance > NEVER])
        for _ in range(depth - 1):
            order = distance.topk(min(beam, distance.shape[-1])).indices
            start, reached = z.gather(1, order.unsqueeze(-1).expand(-1, -1, y.shape[-1])), distance.gather(1, order)
            own = [tensor.repeat_interleave(order.shape[-1], 0) for tensor in (c, y, least)]
            z, distance = later.nearest(own[0], own[1], start.flatten(0, 1), own[2], max(top // 2, 1))
            distance.masked_fill_((reached == NEVER).view(-1, 1), NEVER)
            z, distance = z.view(len(y), -1, y.shape[-1]), distance.view(len(y), -1)
            found.append(z[distance > NEVER])
    return distinct(torch.cat(found))


def moves(
    like: Float[Tensor, "*batch var"], hops: int, most: int, generator: torch.Generator | None = None
) -> Float[Tensor, "move var"]:
    """All the ways to move up to ``hops`` of the variables by ±1, or about ``most`` of them where there are more.

    Those of one variable are always there. Then each number of variables gets all its moves if they fit into an even
    share of what is left, and otherwise so many at random.
    """
    n, hops, parts = like.shape[-1], min(hops, like.shape[-1]), []
    left = most
    for hop in range(1, hops + 1):
        share = max(left, 0) // (hops - hop + 1)
        if hop == 1 or math.comb(n, hop) * 2**hop <= share:
            places = torch.tensor(list(itertools.combinations(range(n), hop)))
            signs = torch.tensor(list(itertools.product((-1, 1), repeat=hop)))
            places, signs = places.repeat(len(signs), 1), signs.repeat_interleave(len(places), 0)
        else:
            places = torch.randint(n, (share, hop), generator=generator)
            signs = torch.randint(2, (share, hop), generator=generator) * 2 - 1
            is_distinct = (places.sort(-1).values.diff(dim=-1) > 0).all(-1)
            places, signs = places[is_distinct], signs[is_distinct]
        part = torch.zeros(len(places), n, dtype=like.dtype).scatter_(1, places, signs.to(like.dtype))
        parts.append(part.to(like.device))
        left -= len(part)
    return torch.cat(parts)


class Neighbourhood:
    """Points one move away, against fixed rows and bounds."""

    def __init__(self, rows: ConstraintBlock, bounds: Bounds, moves: Tensor) -> None:
        self.rows, self.moves = rows, moves
        self.lower, self.upper = bounds.integral_lower, bounds.integral_upper
        self.shift = rows.a @ moves.mT
        # [c | is at upper | is at lower] times this is the price of each move, OUT where it leaves the box.
        self.price = torch.cat([moves, (moves > 0) * OUT, (moves < 0) * OUT], -1).mT.contiguous()

    def nearest(self, cost: Tensor, solution: Tensor, z: Tensor, least: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """``count`` points a move away from each z, cheaper than ``solution`` by ``least``, and their distances.

        The nearest first; where there are not so many, the distance is NEVER.
        """
        gain = self.prices(cost, solution, z)
        distance = self.rows.values(z)
        smallest = distance[:, :1] + self.shift[0]
        other = torch.empty_like(smallest)
        for row in range(1, len(self.shift)):
            torch.add(distance[:, row : row + 1], self.shift[row], out=other)
            torch.minimum(smallest, other, out=smallest)
        smallest.masked_fill_(gain >= -least.unsqueeze(-1), NEVER)
        distance, index = smallest.topk(min(count, len(self.moves)))
        return z.unsqueeze(1) + self.moves[index], distance

    def prices(self, cost: Tensor, solution: Tensor, z: Tensor) -> Tensor:
        """`example move`: what each point a move away from z costs more than ``solution``, OUT outside the box."""
        is_at_bound = [(z >= self.upper).to(z.dtype), (z <= self.lower).to(z.dtype)]
        # The difference of two costs from the difference of the points, which does not lose digits to c·y.
        return torch.addmm(
            (cost * (z - solution)).sum(-1, keepdim=True), torch.cat([cost, *is_at_bound], -1), self.price
        )

    def inside(
        self, cost: Tensor, solution: Tensor, least: Tensor, count: int, tolerance: float
    ) -> tuple[Tensor, Tensor]:
        """Points a move away from each solution, cheaper than it by ``least`` and inside all rows; and their moves.

        At most ``count`` an example, those deepest inside. Few moves are cheaper and fewer satisfy a row, so only what
        is left of them meets the next rows.
        """
        example, move = (self.prices(cost, solution, solution) < -least.unsqueeze(-1)).nonzero(as_tuple=True)
        distance = self.rows.values(solution)
        depth = torch.full((len(example),), torch.inf, dtype=solution.dtype, device=solution.device)
        for at in range(0, len(self.shift), ROWS):
            here = distance[:, at : at + ROWS][example] + self.shift[at : at + ROWS].mT.contiguous()[move]
            depth = torch.minimum(depth, here.amin(-1))
            is_left = depth >= -tolerance
            example, move, depth = example[is_left], move[is_left], depth[is_left]
        order = depth.argsort(descending=True, stable=True)
        order = order[example[order].argsort(stable=True)]
        example, move = example[order], move[order]
        first = torch.searchsorted(example, example)
        is_kept = torch.arange(len(example), device=example.device) - first < count
        example, move = example[is_kept], move[is_kept]
        return solution[example] + self.moves[move], self.moves[move]


def distinct(points: Float[Tensor, "point var"]) -> Float[Tensor, "other var"]:
    """Each integral point once, in lexicographic order.

    Where the box around them is small enough to number its points by an int64, numbers are sorted instead of rows,
    which is many times faster.
    """
    if not len(points):
        return points
    low = points.amin(0)
    size = (points.amax(0) - low).long() + 1
    if size.double().log2().sum() >= 62:
        return torch.unique(points, dim=0)
    after = size.flip(0).cumprod(0).flip(0).roll(-1)  # how many points of the box share their first coordinates
    after[-1] = 1
    number = torch.unique(((points - low).long() * after).sum(-1))
    return (number.unsqueeze(-1) // after % size).to(points.dtype) + low


def check_examples(cost: Tensor, solution: Tensor, bounds: Bounds) -> None:
    """Raise unless costs, solutions and bounds can be examples of one program with static constraints."""
    if cost.ndim != 2:
        raise ShapeError(f"cost must be `example var`, got shape {tuple(cost.shape)}")
    if bounds.lower.ndim != 1:
        raise ShapeError(f"bounds must be those of all examples, `var`, got shape {tuple(bounds.lower.shape)}")
    IntegerProgram(cost, bounds, ()).check_solution(solution)


def check_rows(a: Tensor, b: Tensor, cost: Tensor) -> None:
    """Raise unless the last dimensions of a and b are rows for the examples, of their dtype, finite and not zero."""
    if a.ndim < 2 or 0 in a.shape or a.shape[-1] != cost.shape[-1] or b.shape != a.shape[:-1]:
        raise ShapeError(
            f"a and b must be `constr var` and `constr` with {cost.shape[-1]} variables and at least one row, "
            f"got shapes {tuple(a.shape)} and {tuple(b.shape)}"
        )
    if not a.dtype == b.dtype == cost.dtype:
        raise ShapeError(f"a and b must have the dtype of cost, {cost.dtype}, got {a.dtype} and {b.dtype}")
    if not (a.isfinite().all() and b.isfinite().all()):
        raise InputError("a and b must be finite")
    is_zero = (a == 0).all(-1)
    if is_zero.any():
        raise InputError(f"a must have no zero row: row {is_zero.nonzero()[0].tolist()} is zero")
