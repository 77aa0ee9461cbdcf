"""distill: learnt constraints -> few, sparse, small-integer rules that hold on all training solutions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.distill.equalities import distill_equalities
from neuralilp.distill.inequalities import distill_inequalities, inequality_block, separated_by, smallest
from neuralilp.distill.inputs import Evidence, joined, renamed
from neuralilp.distill.space import FloatArray, learnt_space
from neuralilp.errors import InputError
from neuralilp.program import IntegerProgram


@dataclasses.dataclass(frozen=True, eq=False)
class Distilled:
    """Rules in the package's convention a·z + b >= 0, or a·z + b = 0 with slack 0, and what became of the rest."""

    equalities: ConstraintBlock
    """Integer rows, slack 0."""
    inequalities: ConstraintBlock
    """Integer rows."""
    unexplained_equalities: ConstraintBlock
    """Learnt directions that no integer rows express, as real unit rows with the learnt slack."""
    unexplained_inequalities: ConstraintBlock
    """Learnt rows that could not be rounded, as real unit rows."""
    rank: int
    """Independent equalities that were learnt and hold on the solutions."""
    dropped_equalities: int
    """Learnt rows that the solutions contradict."""
    dropped_inequalities: int
    """Learnt rows that bound nothing, repeat others, or are implied."""
    lost_negatives: int
    """Negatives given that the learnt rows separate and the rules do not."""
    is_exact: bool
    """Every learnt row is implied by all blocks together, the unexplained among them: none was dropped as contradicted,
    and integer points that satisfy the blocks violate no learnt inequality by a larger distance than ``rounding``."""

    @property
    def num_rules(self) -> int:
        return len(self.equalities.a) + len(self.inequalities.a)

    @property
    def num_unexplained(self) -> int:
        return len(self.unexplained_equalities.a) + len(self.unexplained_inequalities.a)

    def blocks(self, *, keep_unexplained: bool = True) -> tuple[ConstraintBlock, ...]:
        """The blocks that have rows, known ones."""
        blocks = [self.equalities, self.inequalities]
        if keep_unexplained:
            blocks += [self.unexplained_equalities, self.unexplained_inequalities]
        return tuple(block for block in blocks if len(block.a))


@torch.no_grad()
def distill(
    learnt: IntegerProgram | Sequence[ConstraintBlock],
    solutions: Float[Tensor, "example var"],
    *,
    bounds: Bounds | None = None,
    negatives: Float[Tensor, "neg var"] | None = None,
    tolerance: float = 0.2,
    rounding: float = 0.01,
    largest: int = 10,
) -> Distilled:
    """Read learnt constraints as few, sparse rows of small integers that hold on all ``solutions``.

    What was learnt decides, and the solutions are evidence: a rule must follow from the learnt rows and hold on every
    solution. Nothing is assumed about the meaning or the order of the variables.

    Equalities: learnt rows that hold on the solutions, up to noise, span a space. Its sparse integer rows are the
    rules: sets of variables of which exactly one is 1, then others by linear programs. They span that space, and
    redundant sums of variables stay if they are as sparse. Directions that no integers express stay real.

    Inequalities: the smallest integers that, tight on the solutions, still separate every one of ``negatives`` that
    the learnt row separates and no other rule does; without negatives, integers within the angle ``rounding``. Rows
    that bound nothing, separate no negative of their own, or are implied by others are dropped.

    Args:
        learnt: a program, whose learned blocks are read, or blocks. One set of rows for all examples.
        bounds: of the variables, where blocks are given; without, there are none.
        negatives: points that are known to be infeasible.
        tolerance: the sine of the angle up to which a learnt equality counts as holding on the solutions.
        rounding: the sine of the angle by which rounding may turn an inequality, where there are no negatives.
        largest: coefficients of rules are at most this, but for equalities that have no others.
    """
    if isinstance(learnt, IntegerProgram):
        if bounds is not None:
            raise InputError("bounds must not be given where learnt is a program: it has its own")
        blocks, bounds = list(learnt.learned), learnt.bounds
    else:
        blocks = list(learnt)
    for name, value in {"tolerance": tolerance, "rounding": rounding}.items():
        if not 0 < value < 1:
            raise InputError(f"{name} must lie between 0 and 1, got {value}")
    if largest < 1:
        raise InputError(f"largest must be at least 1, got {largest}")
    evidence = Evidence.of(blocks, solutions, bounds, negatives)
    y, points, box = evidence.solutions, evidence.negatives, evidence.bounds
    a, b, slack = joined([block for block in evidence.blocks if block.is_equality], y.shape[1])
    space = learnt_space(a, b, slack, y, tolerance)
    found = distill_equalities(space, y, largest)
    equalities = _equality_block(found.a.astype(np.float64), found.b.astype(np.float64), 0.0)
    rest = _equality_block(found.rest, -found.rest @ space.origin, max(space.slack, 1e-5))

    a, b, _ = joined([block for block in evidence.blocks if not block.is_equality], y.shape[1])
    rows = distill_inequalities(a, b, y, points, box, equalities, largest=largest, rounding=rounding)
    whole, real = ([row for row in rows if row.is_integer is kind] for kind in (True, False))
    results = (equalities, inequality_block(whole, y.shape[1]), rest, inequality_block(real, y.shape[1]))
    lost = 0
    if points is not None:
        lost = int((separated_by(evidence.blocks, points) & ~separated_by(results, points)).sum())
    is_exact = space.dropped == 0 and _imply(results, a, b, box, rounding)
    own = [renamed(block, evidence.order, solutions.dtype) for block in results]
    return Distilled(
        equalities=own[0],
        inequalities=own[1],
        unexplained_equalities=own[2],
        unexplained_inequalities=own[3],
        rank=space.rank,
        dropped_equalities=space.dropped,
        dropped_inequalities=len(a) - len(rows),
        lost_negatives=lost,
        is_exact=is_exact,
    )


def _equality_block(a: FloatArray, b: FloatArray, slack: float) -> ConstraintBlock:
    return ConstraintBlock(torch.from_numpy(a), torch.from_numpy(b), torch.full((len(a),), slack, dtype=torch.float64))


def _imply(blocks: tuple[ConstraintBlock, ...], a: FloatArray, b: FloatArray, box: Bounds, rounding: float) -> bool:
    """Do integer points of the rules satisfy the learnt rows, within the distance ``rounding``?"""
    return all(
        smallest(row, blocks, box, relax=True) + offset >= -rounding
        or smallest(row, blocks, box, relax=False) + offset >= -rounding
        for row, offset in zip(a, b, strict=True)
    )
