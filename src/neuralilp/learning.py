"""learn_rules: from a table of solutions, with their costs or without, to integer rules that a person can read.

Equalities are those of the affine hull of the solutions. Inequalities are chosen (:mod:`neuralilp.mining`) among rows
of two variables, sums along named axes, and rows that the optimality conditions suggest, rounded to small integers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.distill import Axes, Distilled, distill
from neuralilp.distill.inequalities import candidates_of, irredundant
from neuralilp.distill.integers import IntArray
from neuralilp.distill.space import FloatArray, sines
from neuralilp.evidence import consistent
from neuralilp.mining import doubtful, mine_rules, pair_rows, slice_rows, supported_rows
from neuralilp.mining.candidates import Rows, tight
from neuralilp.warmstart import affine_hull, fit_optimality_conditions

ANGLE = 0.02
"""The sine of the angle by which rounding may turn a suggested row."""
LARGEST = 20
"""Coefficients of a rounded row, at most."""
RESTARTS = 4
NEAR = 4
"""Integer rows that are tried for each suggested one, of the smallest and of the nearest."""


@dataclasses.dataclass(frozen=True, eq=False)
class Learnt:
    """Rules, and what they rest on. Rows are in float64."""

    rules: Distilled
    kept: Bool[Tensor, " example"]
    """Examples that were learnt from; the others contradict some of these."""
    evidence: Float[Tensor, " rule"]
    """For each inequality, how many solutions would violate it were variables independent."""
    unexplained: int
    """Points that cannot be feasible, by the costs, and that no rule separates."""
    is_settled: bool
    """Half of the examples have the same equalities in common."""


def learn_rules(
    solutions: Float[Tensor, "example var"],
    bounds: Bounds,
    *,
    costs: Float[Tensor, "example var"] | None = None,
    known: Sequence[ConstraintBlock] = (),
    axes: Axes | None = None,
    rows: int = 8,
    doubts: bool = False,
    seed: int = 0,
    deadline: float | None = None,
    tell: Callable[[str], None] | None = None,
) -> Learnt:
    """Rules that hold on all examples that do not contradict others.

    ``rows`` is how many the optimality conditions may suggest at once (0: none; without costs there are none).
    ``known`` constraints are taken for granted. With ``doubts``, examples that break what hardly any other breaks are
    left out too (:func:`neuralilp.mining.doubtful`). After ``deadline``, of ``time.monotonic``, no more are looked for.
    """
    tell = tell or (lambda text: None)
    y = solutions.double()
    kept = torch.ones(len(y), dtype=torch.bool) if costs is None else consistent(costs, y)
    if not bool(kept.all()):
        tell(f"{int((~kept).sum())} of {len(y)} examples contradict others and are left out")
    if doubts:
        kept = kept & ~doubtful(y, axes)
        tell(f"learnt from {int(kept.sum())} of {len(y)} examples: the others are in doubt")
    y = y[kept]
    box = Bounds(bounds.lower.double(), bounds.upper.double())
    given = [block.double() for block in known]
    hull = affine_hull(y)
    equalities = equal_rules(hull.a, hull.b, y, box) if hull.is_settled else none_of(y.shape[1])
    tell(f"{len(equalities.a)} equalities" + ("" if hull.is_settled else ": too few examples to tell any"))
    candidates = pair_rows(y)
    if axes is not None:
        candidates = Rows.joined(candidates, slice_rows(y, axes))
    fixed = [*given, equalities] if len(equalities.a) else given
    if costs is None:
        found, evidence = supported_rows(candidates, y)
        unexplained = 0
    else:
        c = costs.double()[kept]
        if rows and not hull.rank:
            candidates = Rows.joined(candidates, suggested_rows(c, y, box, rows, seed))
        mined = mine_rules(y, box, c, candidates, known=fixed, deadline=deadline)
        found, evidence, unexplained = mined.rules, mined.evidence, len(mined.unexplained)
    chosen = irredundant_rows(found, box, fixed)
    tell(f"{len(chosen)} inequalities")
    found, evidence = found.take(chosen), evidence[chosen]
    is_whole = found.is_whole
    order = torch.cat([is_whole.nonzero().flatten(), (~is_whole).nonzero().flatten()])
    found, evidence = found.take(order), evidence[order]
    whole = int(is_whole.sum())
    rules = Distilled(
        equalities=equalities,
        inequalities=ConstraintBlock(found.a[:whole], found.b[:whole]),
        unexplained_equalities=none_of(y.shape[1]),
        unexplained_inequalities=ConstraintBlock(found.a[whole:], found.b[whole:]),
        rank=hull.rank if hull.is_settled else 0,
        dropped_equalities=0,
        dropped_inequalities=0,
        lost_negatives=0,
        is_exact=True,
    )
    return Learnt(rules, kept, evidence, unexplained, hull.is_settled)


def none_of(n: int) -> ConstraintBlock:
    """No equalities."""
    empty = torch.empty(0, dtype=torch.float64)
    return ConstraintBlock(empty.view(0, n), empty, empty)


def equal_rules(a: Tensor, b: Tensor, y: Tensor, box: Bounds) -> ConstraintBlock:
    """The equalities of the hull as short integer rows; directions that have none are left out."""
    if not len(a):
        return none_of(y.shape[1])
    learnt = ConstraintBlock(a, b, torch.full_like(b, 1e-6), is_learned=True)
    return distill([learnt], y, bounds=box).equalities


def suggested_rows(cost: Tensor, y: Tensor, box: Bounds, rows: int, seed: int) -> Rows:
    """Rows from the optimality conditions: small integers near them, and themselves."""
    if not bool(cost.abs().amax() > 0):
        return Rows.none(y)
    single = Bounds(box.lower.float(), box.upper.float())
    generator = torch.Generator().manual_seed(seed)
    fit = fit_optimality_conditions(cost.float(), y.float(), single, rows, restarts=RESTARTS, generator=generator)
    real = fit.a.flatten(0, 1).double().numpy()
    wholes = {whole.tobytes(): whole for row in real for whole in near_integers(row)}
    whole = np.array(list(wholes.values()), dtype=np.float64).reshape(-1, y.shape[1])
    return tight(torch.from_numpy(np.concatenate([whole, real])), y)


def near_integers(row: FloatArray) -> list[IntArray]:
    """Integer rows within ANGLE of one: the smallest, and the nearest."""
    tried = np.array(list(candidates_of(row, LARGEST)))
    angle = sines(tried.astype(np.float64), row[None])
    smallest = np.flatnonzero(angle <= ANGLE)[:NEAR]
    nearest = np.argsort(angle, kind="stable")[:NEAR]
    return [tried[i] for i in np.union1d(smallest, nearest[angle[nearest] <= ANGLE])]


def irredundant_rows(rows: Rows, box: Bounds, fixed: Sequence[ConstraintBlock]) -> Tensor:
    """The places of the rows that the linear relaxation of the others does not imply."""
    kept = irredundant(rows.a.numpy(), rows.b.numpy(), box, tuple(fixed))
    return torch.tensor(kept, dtype=torch.long)
