"""What examples with known costs and the same static constraints prove about each other.

Every solution is feasible for every cost, so no other example's solution may be cheaper than one's own; and a point
that is cheaper than some example's solution is feasible for none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from neuralilp.errors import ShapeError

if TYPE_CHECKING:
    from neuralilp.solving import CutPool

TIE = 1e-5
"""Costs that differ by less, relative to Σ_j |c_j| max(1, |y_j|), count as equal: well above float32's rounding."""


def tie(cost: Float[Tensor, "example var"], solution: Float[Tensor, "example var"]) -> Float[Tensor, " example"]:
    """By how much a point must be cheaper than each example's solution to count as cheaper."""
    return TIE * (cost.abs() * solution.abs().clamp(min=1)).sum(-1)


def contradictions(
    cost: Float[Tensor, "example var"], solution: Float[Tensor, "example var"]
) -> Bool[Tensor, "example other"]:
    """Where another example's solution is cheaper for an example's cost than its own: one of the two is wrong."""
    cost, solution = _checked(cost, solution)
    own = torch.linalg.vecdot(cost, solution)
    return cost @ solution.mT < (own - tie(cost, solution)).unsqueeze(-1)


def consistent(cost: Float[Tensor, "example var"], solution: Float[Tensor, "example var"]) -> Bool[Tensor, " example"]:
    """Which examples to keep so that none proves another wrong; those in most contradictions go first.

    A label that a solver got wrong contradicts others: with a solution that breaks the true constraints it is too
    cheap for many costs, with one that is not optimal others are cheaper for its cost. Examples in equally many
    contradictions go together: of a lone pair nothing tells which is the wrong one.
    """
    contradicts = contradictions(cost, solution)
    contradicts = contradicts | contradicts.mT
    count = contradicts.sum(1)
    keep = torch.ones_like(count, dtype=torch.bool)
    while int(count.max()):
        worst = (count == count.max()).nonzero().flatten()
        keep[worst] = False
        count -= contradicts[worst].sum(0)
        count[worst] = 0
        contradicts[worst] = contradicts[:, worst] = False
    return keep


def valid_cuts(
    cost: Float[Tensor, "example var"], solution: Float[Tensor, "example var"], *, max_rows: int | None = 20
) -> CutPool:
    """``c_s·z >= c_s·y_s`` for every example s: rows that hold at every feasible integer point.

    They never cut off a true solution as long as labels are right, so contradicting examples are left out
    (:func:`consistent`).
    """
    from neuralilp.solving import CutPool  # what is known of examples is for learning too, which needs no solver

    keep = consistent(cost, solution)
    cost, solution = _checked(cost, solution)
    cost, solution = cost[keep], solution[keep]
    return CutPool(cost, tie(cost, solution) - torch.linalg.vecdot(cost, solution), max_rows=max_rows)


def _checked(cost: Tensor, solution: Tensor) -> tuple[Tensor, Tensor]:
    if cost.ndim != 2 or cost.shape != solution.shape or not len(cost):
        raise ShapeError(
            f"cost and solution must have one shape `example var`, got {tuple(cost.shape)} and {tuple(solution.shape)}"
        )
    return cost.detach().double(), solution.detach().double()
