"""Of rows that hold on all solutions, those that are no accident and say something that the others do not.

Where costs are known, a point that is cheaper than some example's solution is infeasible, or that solution would not
be optimal. Rules are then chosen one by one, each the row that separates most of such points that are left among the
neighbours of the examples. Where no row of the candidates separates a point, the sparsest that does is looked for by a
linear program. Without costs every row that is no accident is a rule, unless others imply it. No program of the
examples is ever solved. Beyond the paper.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.errors import InputError
from neuralilp.evidence import tie
from neuralilp.mining.candidates import Rows
from neuralilp.mining.chance import TOLERANCE, expected_violations
from neuralilp.mining.separating import sparsest_separating
from neuralilp.negatives.nearest import Neighbourhood, check_examples, distinct, moves

TOP = 16
"""Neighbours of an example that are looked at in one round."""

MOVES = 2**13
"""Of single variables, and differences between solutions, at most so many of each."""

REAL_WORTH = 0.8
"""Of a point that a real row separates, against one in integers."""

MOST_UNEXPLAINED = 50
"""Points without a rule, after which no more is looked for: each takes a linear program, and wrong examples make
many."""

CERTAINTY = 5.0
"""exp(-5): about the chance that one accident or more is among the rules."""


@dataclasses.dataclass(frozen=True, eq=False)
class Mined:
    """Rules a·z + b >= 0 that hold on every solution, in float64."""

    rules: Rows
    evidence: Float[Tensor, " rule"]
    """How many solutions would violate each, were variables independent (:func:`expected_violations`)."""
    negatives: Float[Tensor, "neg var"]
    """Points that cannot be feasible, which the rules separate."""
    unexplained: Float[Tensor, "other var"]
    """Points that cannot be feasible, and that no row separates but by accident."""

    def block(self) -> ConstraintBlock:
        return ConstraintBlock(*self.rules)


def least_evidence(tried: int) -> float:
    """Violations to be expected from independent variables, for a row to count as no accident among so many tried."""
    return math.log(max(tried, 1)) + CERTAINTY


def mine_rules(
    solution: Float[Tensor, "example var"],
    bounds: Bounds,
    cost: Float[Tensor, "example var"],
    candidates: Rows,
    *,
    known: Sequence[ConstraintBlock] = (),
    hops: int = 2,
    deadline: float | None = None,
    on_rule: Callable[[int], None] | None = None,
) -> Mined:
    """Rules for examples of one program with static constraints, all of whose labels are right.

    ``known`` rows, such as equalities that hold on all solutions, need not be found again. ``candidates`` hold on all
    solutions. Neighbours are points with up to ``hops`` variables moved by ±1, or where equalities are known by two
    such moves that together keep to them. After ``deadline`` (of ``time.monotonic``), or once many points have no rule,
    no more is looked for.
    """
    check_examples(cost, solution, bounds)
    cost, solution = cost.double(), solution.double()
    if bool((solution @ candidates.a.mT + candidates.b < -TOLERANCE).any()):
        raise InputError("candidates must hold on all solutions")
    box = Bounds(bounds.lower.double(), bounds.upper.double())
    points = distinct(solution)
    equalities = [block.a.double() for block in known if block.is_equality]
    tried = all_moves(solution, hops, torch.cat([solution.new_empty(0, solution.shape[-1]), *equalities]))
    candidates = easiest_first(candidates)
    chance = expected_violations(*candidates, solution)
    strong = chance >= least_evidence(len(candidates.a))
    candidates, chance = candidates.take(strong), chance[strong]
    given, rules = _inequalities(known, solution), Rows.none(solution)
    evidence = chance.new_empty(0)
    negatives: list[Tensor] = []
    unexplained: list[Tensor] = []
    while True:
        around = Neighbourhood(ConstraintBlock(*Rows.joined(given, rules)).unit(), box, tried)
        left = cheaper_inside(around, cost, solution)
        for point in unexplained:
            left = left[(left != point).any(-1)]
        is_late = deadline is not None and time.monotonic() > deadline
        if not len(left) or is_late or len(unexplained) >= MOST_UNEXPLAINED:
            break
        picked = covering(candidates, left)
        if len(picked):
            new, its = candidates.take(picked), chance[picked]
            negatives += list(left[new.separates(left).any(-1)])
        else:
            row = sparsest_separating(left[0], points)
            new = Rows.none(solution) if row is None else Rows(row[0].unsqueeze(0), left.new_tensor([row[1]]))
            its = expected_violations(*new, solution) if row is not None else chance[:0]
            if row is None or float(its) < least_evidence(len(candidates.a) + len(rules.a) + 1):
                unexplained.append(left[0])
                continue
            negatives.append(left[0])
        rules, evidence = Rows.joined(rules, new), torch.cat([evidence, its])
        if on_rule is not None:
            on_rule(len(rules.a))
    none = solution.new_empty(0, solution.shape[-1])
    return Mined(
        rules,
        evidence,
        distinct(torch.stack(negatives)) if negatives else none,
        torch.stack(unexplained) if unexplained else none,
    )


def covering(candidates: Rows, points: Float[Tensor, "point var"]) -> Int[Tensor, " picked"]:
    """Candidates that separate, one after the other, most of the points that are left; until none separates any.

    Of those that separate as many, the first. A real row must separate more than one in integers: it fits points that
    are no rule's as well.
    """
    separates = candidates.separates(points)
    worth = torch.where(candidates.is_whole, 1.0, REAL_WORTH)
    picked: list[int] = []
    while separates.shape[1] and bool(separates.any()):
        best = int((separates.sum(0) * worth).argmax())
        picked.append(best)
        separates = separates[~separates[:, best]]
    return torch.tensor(picked, dtype=torch.long)


def supported_rows(candidates: Rows, solution: Float[Tensor, "example var"]) -> tuple[Rows, Float[Tensor, " rule"]]:
    """Where there are no costs: the candidates that are no accident, with their evidence.

    The strongest first: sums of many variables imply those of fewer.
    """
    evidence = expected_violations(*candidates, solution)
    order = evidence.argsort(descending=True, stable=True)
    order = order[evidence[order] >= least_evidence(len(candidates.a))]
    return candidates.take(order), evidence[order]


def easiest_first(rows: Rows) -> Rows:
    """By integers or not, then by the sum of the coefficients."""
    size = torch.where(rows.is_whole, rows.a.abs().sum(-1), torch.inf)
    return rows.take(size.argsort(stable=True))


def all_moves(
    solution: Float[Tensor, "example var"], hops: int, equalities: Float[Tensor, "constr var"]
) -> Float[Tensor, "move var"]:
    """Moves of single variables; with equalities, those pairs of moves that together keep to all of them."""
    generator = torch.Generator().manual_seed(0)
    steps = moves(solution, hops, 2 * MOVES, generator)
    if not len(equalities):
        return steps
    weights = torch.randn(len(equalities), generator=generator, dtype=torch.float64)
    change = (steps @ equalities.mT @ weights).mul(1e6).round()
    kept = [steps[change == 0]]
    order = change.argsort(stable=True)
    steps, change = steps[order], change[order]
    _, group, size = change.unique_consecutive(return_inverse=True, return_counts=True)
    first = size.cumsum(0) - size
    one = torch.randint(len(steps), (8 * MOVES,), generator=generator)
    share = torch.rand(len(one), generator=generator, dtype=torch.float64)
    other = first[group[one]] + (share * size[group[one]]).long()
    kept.append((steps[one] - steps[other])[one != other])
    both = distinct(torch.cat(kept))
    length = both.abs().sum(-1)
    both, length = both[length > 0], length[length > 0]
    return both[length.argsort(stable=True)[: 2 * MOVES]]


def cheaper_inside(
    around: Neighbourhood, cost: Float[Tensor, "example var"], solution: Float[Tensor, "example var"]
) -> Float[Tensor, "point var"]:
    """Neighbours that are cheaper than a solution and satisfy all rows, each once, by the length of the move."""
    found, lengths = [], []
    chunk = max(2**20 // len(around.moves), 1)
    for c, y, least in zip(*(each.split(chunk) for each in (cost, solution, tie(cost, solution))), strict=True):
        points, steps = around.inside(c, y, least, TOP, TOLERANCE)
        found.append(points)
        lengths.append(steps.abs().sum(-1))
    points, length = torch.cat(found), torch.cat(lengths)
    points = points[length.argsort(stable=True)]
    _, first = torch.unique(points, dim=0, return_inverse=True)
    seen: dict[int, int] = {}
    for place, group in enumerate(first.tolist()):
        seen.setdefault(group, place)
    return points[list(seen.values())]


def _inequalities(blocks: Sequence[ConstraintBlock], like: Tensor) -> Rows:
    """All rows as inequalities; and one that always holds, so that there is one."""
    parts = [Rows(like.new_zeros(1, like.shape[-1]), like.new_ones(1))]
    for block in blocks:
        a, b = block.explicit()
        parts.append(Rows(a.double(), b.double()))
    return Rows.joined(*parts)
