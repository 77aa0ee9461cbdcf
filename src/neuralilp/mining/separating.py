"""The sparsest row between one point and all solutions, by a linear program."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.distill.integers import nearest_integers, products
from neuralilp.program import IntegerProgram
from neuralilp.solving import CutPool, solve

LARGEST = 20
"""Coefficients in integers, at most; other rows stay real."""

MOST = 1e4
"""The largest coefficient of all, at which a point counts as one that no row separates."""


def sparsest_separating(
    z: Float[Tensor, " var"], solutions: Float[Tensor, "example var"]
) -> tuple[Float[Tensor, " var"], float] | None:
    """min |a|₁ subject to a·y + b >= 0 for every solution y and a·z + b <= -1: a and b, in integers where they are.

    Float64. Solutions become rows of the linear program only when they are violated. None where z lies among the
    solutions, in their convex hull.
    """
    n, one = len(z), torch.ones_like(solutions[:, :1])
    cuts = CutPool(torch.cat([solutions, -solutions, one, -one], 1), torch.zeros(len(solutions)))
    outside = -torch.cat([z, -z, z.new_tensor([1.0, -1.0])]).unsqueeze(0)
    cost = torch.cat([z.new_ones(2 * n), z.new_zeros(2)])
    bounds = Bounds(torch.zeros_like(cost), torch.full_like(cost, MOST))
    program = IntegerProgram(cost, bounds, (ConstraintBlock(outside, -z.new_ones(1)),))
    answer = solve(program, relax=True, cuts=cuts).z
    if not bool(answer.isfinite().all()):
        return None
    row, points = (answer[:n] - answer[n : 2 * n]).numpy(), solutions.numpy()
    whole = nearest_integers(row, LARGEST, 1e-5)
    if whole is not None:
        whole //= max(int(np.gcd.reduce(whole)), 1)
        least = float(products(whole[None], points).min())
        if float(whole @ z.numpy()) < least - 0.5:
            return torch.from_numpy(whole.astype(np.float64)), -least
    return torch.from_numpy(row), -float((points @ row).min())
