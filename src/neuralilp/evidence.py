"""What examples with known costs and the same static constraints prove about each other.

Every solution is feasible for every cost, so no other example's solution may be cheaper than one's own; and a point
that is cheaper than some example's solution is feasible for none.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from neuralilp.errors import ShapeError
from neuralilp.solving.cuts import CutPool

TIE = 1e-5
"""Costs that differ by less, relative to |c|·|y|, count as equal: labels come from solvers, costs in float32."""


def consistent(cost: Float[Tensor, "example var"], solution: Float[Tensor, "example var"]) -> Bool[Tensor, " example"]:
    """Which examples to keep so that none proves another wrong; those in most contradictions go first.

    A label that a solver got wrong contradicts others: with a solution that breaks the true constraints it is too
    cheap for many costs, with one that is not optimal others are cheaper for its cost.
    """
    cost, solution = _checked(cost, solution)
    own = torch.linalg.vecdot(cost, solution)
    contradicts = cost @ solution.mT < (own - _tie(cost, solution)).unsqueeze(-1)
    keep = torch.ones(len(cost), dtype=torch.bool, device=cost.device)
    while True:
        count = contradicts.sum(0) + contradicts.sum(1)
        worst = int(count.argmax())
        if not int(count[worst]):
            return keep
        keep[worst] = False
        contradicts[worst, :] = False
        contradicts[:, worst] = False


def valid_cuts(
    cost: Float[Tensor, "example var"], solution: Float[Tensor, "example var"], *, max_rows: int | None = 20
) -> CutPool:
    """``c_s·z >= c_s·y_s`` for every example s: rows that hold at every feasible integer point.

    They never cut off a true solution as long as labels are right, so contradicting examples are left out
    (:func:`consistent`).
    """
    keep = consistent(cost, solution)
    cost, solution = _checked(cost, solution)
    cost, solution = cost[keep], solution[keep]
    return CutPool(cost, _tie(cost, solution) - torch.linalg.vecdot(cost, solution), max_rows=max_rows)


def _tie(cost: Tensor, solution: Tensor) -> Tensor:
    """By how much another point must be cheaper than each example's solution to count as cheaper."""
    return TIE * cost.norm(dim=-1) * solution.norm(dim=-1).clamp(min=1)


def _checked(cost: Tensor, solution: Tensor) -> tuple[Tensor, Tensor]:
    if cost.ndim != 2 or cost.shape != solution.shape or not len(cost):
        raise ShapeError(
            f"cost and solution must have one shape `example var`, got {tuple(cost.shape)} and {tuple(solution.shape)}"
        )
    return cost.detach().double(), solution.detach().double()
