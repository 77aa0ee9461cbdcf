"""Learnt inequalities -> few rows of small integers that hold on all solutions and separate what was separated."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.distill.integers import IntArray, products
from neuralilp.distill.space import BoolArray, FloatArray, sines
from neuralilp.program import IntegerProgram
from neuralilp.solving import Status, solve

SCALES = 9
"""Scales tried for each largest coefficient."""

SEPARATED = 1e-5
"""A real row separates a point that it is further from than this."""


@dataclasses.dataclass(frozen=True, eq=False)
class Inequality:
    """a·z + b >= 0, in integers or, where none do, real with |a| = 1."""

    a: FloatArray
    b: float
    is_integer: bool

    def separates(self, points: FloatArray) -> BoolArray:
        least = 0.5 if self.is_integer else SEPARATED
        separated: BoolArray = points @ self.a + self.b < -least
        return separated

    @property
    def effort(self) -> tuple[bool, float, float, int]:
        """Of reading it: real rows last, then by largest coefficient, their sum, and number of terms."""
        size = np.abs(self.a)
        return not self.is_integer, float(size.max()), float(size.sum()), int((size > 0).sum())


def distill_inequalities(
    a: FloatArray,
    b: FloatArray,
    solutions: FloatArray,
    negatives: FloatArray | None,
    bounds: Bounds,
    equalities: ConstraintBlock,
    *,
    largest: int,
    rounding: float,
) -> list[Inequality]:
    """Round each learnt unit row, then drop those that the others make superfluous.

    Rows that bound nothing within the box, or separate no negative (where given) that the equalities and the rows
    before them leave, are dropped first, and those that the others imply last, the hardest to read before the others.
    """
    if negatives is not None:
        negatives = negatives[~separated_by((equalities,), negatives)]
    learnt = [Inequality(row, float(offset), False) for row, offset in zip(a, b, strict=True) if row.any()]
    learnt = [row for row in learnt if _least_in_box(row, bounds) < -SEPARATED]
    if negatives is not None:
        counts = [int(row.separates(negatives).sum()) for row in learnt]
        learnt = [learnt[i] for i in np.argsort(-np.array(counts, dtype=np.int64), kind="stable")]
    rows: dict[bytes, Inequality] = {}
    for row in learnt:
        lost = None
        if negatives is not None:
            lost = negatives[row.separates(negatives)]
            if not len(lost):
                continue
        new = _rounded(row, solutions, lost, largest, rounding)
        if _least_in_box(new, bounds) < -SEPARATED:
            rows.setdefault(new.a.tobytes(), new)
        if negatives is not None:
            negatives = negatives[~new.separates(negatives)]
    return _irredundant(list(rows.values()), bounds, equalities)


def _rounded(
    row: Inequality, solutions: FloatArray, negatives: FloatArray | None, largest: int, rounding: float
) -> Inequality:
    """The smallest integers that separate the negatives, or without any are within an angle; else the row itself.

    The offset is tight: b = -min a·y. Real rows keep theirs, unless a solution needs more room.
    """
    for whole in candidates_of(row.a, largest):
        if negatives is None:
            norm = np.linalg.norm(row.a)
            if sines(whole[None].astype(np.float64), row.a[None] / norm)[0] > rounding:
                continue
        offset = -float(products(whole[None], solutions).min())
        new = Inequality(whole.astype(np.float64), offset, True)
        if negatives is None or new.separates(negatives).all():
            return new
    return Inequality(row.a, max(row.b, -float((solutions @ row.a).min())), False)


def candidates_of(a: FloatArray, largest: int) -> Iterator[IntArray]:
    """The row at many scales rounded, by largest coefficient, and then by angle to the row."""
    seen: set[bytes] = set()
    share = a / np.abs(a).max()
    for most in range(1, largest + 1):
        scale = np.append(most, np.linspace(most - 0.5, most + 0.5, SCALES + 2)[1:-1])
        rows = np.round(np.outer(scale, share)).astype(np.int64)
        rows = rows[np.argsort(-(rows @ share) / np.linalg.norm(rows, axis=1), kind="stable")]
        for row in rows:
            row = row // np.gcd.reduce(row)
            if row.tobytes() not in seen:
                seen.add(row.tobytes())
                yield row


def _least_in_box(row: Inequality, bounds: Bounds) -> float:
    """min a·z + b between the bounds of the integers."""
    lower, upper = bounds.integral_lower.double().numpy(), bounds.integral_upper.double().numpy()
    used = row.a != 0
    at = np.where(row.a > 0, lower, upper)[used]
    return float((row.a[used] * at).sum() + row.b)


def _irredundant(rows: list[Inequality], bounds: Bounds, equalities: ConstraintBlock) -> list[Inequality]:
    """The rows without those that the linear relaxation of the others implies, the easiest to read first."""
    ordered = sorted(rows, key=lambda row: row.effort)
    a, b = np.array([row.a for row in ordered]), np.array([row.b for row in ordered])
    return [ordered[i] for i in irredundant(a.reshape(-1, len(bounds.lower)), b, bounds, (equalities,))]


def irredundant(a: FloatArray, b: FloatArray, bounds: Bounds, others: tuple[ConstraintBlock, ...] = ()) -> list[int]:
    """Places of the rows that are left when those that the relaxation of the rest implies go, the last one first."""
    kept = list(range(len(a)))
    for i in reversed(range(len(a))):
        rest = [j for j in kept if j != i]
        block = ConstraintBlock(torch.from_numpy(a[rest]), torch.from_numpy(b[rest]))
        if smallest(a[i], (*others, block), bounds, relax=True) + b[i] >= -SEPARATED:
            kept = rest
    return kept


def smallest(a: FloatArray, blocks: tuple[ConstraintBlock, ...], bounds: Bounds, *, relax: bool) -> float:
    """min a·z subject to blocks, in float64, and the integers' bounds; minus infinity where it is not known."""
    box = Bounds(bounds.integral_lower.double(), bounds.integral_upper.double())
    answer = solve(IntegerProgram(torch.from_numpy(a), box, blocks), relax=relax, time_limit=10)
    return float(answer.objective) if answer.status[0] is Status.OPTIMAL else -np.inf


def separated_by(blocks: Sequence[ConstraintBlock], points: FloatArray) -> BoolArray:
    """Which points violate some row."""
    separated = np.zeros(len(points), dtype=bool)
    for block in blocks:
        room = block.room(torch.from_numpy(points))
        separated |= (room < -SEPARATED).any(-1).numpy()
    return separated


def inequality_block(rows: Sequence[Inequality], n: int) -> ConstraintBlock:
    a = np.array([row.a for row in rows]).reshape(-1, n)
    return ConstraintBlock(torch.from_numpy(a), torch.tensor([row.b for row in rows], dtype=torch.float64))
