"""Static rows from the optimality conditions of examples with known costs; beyond the paper."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from neuralilp.blocks import Bounds
from neuralilp.errors import InputError
from neuralilp.negatives.nearest import check_examples
from neuralilp.separation import keep_freed_memory

COST_SCALE = 1 / math.sqrt(3)
"""Root mean square of the costs while fitting, whatever it is in the data: that of U(-1, 1), for which settings are."""

REPORT_EVERY = 50
"""Iterations between two calls of ``progress``."""


class OptimalityFit(NamedTuple):
    """Rows ``a·z + b >= 0`` with |a| = 1 that explain the examples, from several starts."""

    a: Float[Tensor, "restart constr var"]
    b: Float[Tensor, "restart constr"]
    """-min over the examples of a·y: every row touches an example, and cuts none off."""
    multipliers: Float[Tensor, "restart example constr"]
    """λ, in the units of the costs."""
    objective: Float[Tensor, " restart"]
    """What was minimised, at the end, for costs scaled to a root mean square of 1/√3."""
    best: int
    """The restart with the smallest objective."""


@torch.no_grad()
def fit_optimality_conditions(
    cost: Float[Tensor, "example var"],
    solution: Float[Tensor, "example var"],
    bounds: Bounds,
    num_constraints: int,
    *,
    restarts: int = 4,
    iterations: int = 1500,
    learning_rate: float = 0.03,
    complementarity: tuple[float, float] = (0.01, 0.1),
    violation: tuple[float, float] = (0.03, 30.0),
    generator: torch.Generator | None = None,
    progress: Callable[[int, Tensor], None] | None = None,
) -> OptimalityFit:
    """Rows A, b of norm 1 and multipliers λ >= 0 under which every y_s looks optimal for its c_s.

    At an optimum of the linear relaxation c = Aᵀλ + (duals of the bounds), with λ >= 0 on tight rows only; integral
    optima satisfy it nearly. With d_s = A y_s + b, the fit minimises over A, b and λ, all restarts at once,

        mean over s of  |[c_s - Aᵀλ_s]|²  +  γ λ_s·|d_s|  +  φ |min(d_s, 0)|²

    where [·] keeps only what duals of bounds cannot take up: the negative part of a coordinate at its lower bound,
    the positive part of one at its upper. Adam, with λ put back to λ >= 0 after each step; γ (``complementarity``) and
    φ (``violation``) rise geometrically from the first to the second value given.

    The offsets b are free while fitting, three times as fast as the rest, and violation costs little at first. That is
    what makes it work: offsets kept tight to the data would hang on single extreme examples of rows still far off.
    Only at the end they are made tight. Give more rows than there may be constraints (twice as many, say); what is
    superfluous repeats others or has no multipliers. Scaling all costs changes nothing but the scale of λ.

    ``progress`` receives the iterations done and the objective of each restart, every 50 iterations.
    """
    check_examples(cost, solution, bounds)
    positive = {"num_constraints": num_constraints, "restarts": restarts, "iterations": iterations}
    for name, value in (*positive.items(), ("learning_rate", learning_rate)):
        if not value > 0:
            raise InputError(f"{name} must be positive, got {value}")
    for name, pair in {"complementarity": complementarity, "violation": violation}.items():
        if not min(pair) > 0:
            raise InputError(f"{name} must be two positive weights, got {pair}")
    scale = cost.double().square().mean().sqrt().item() / COST_SCALE
    if scale == 0:
        raise InputError("cost must not be zero in every example: it says nothing about constraints then")

    keep_freed_memory()
    problem = _Conditions(cost / scale, solution, bounds)
    size = (restarts, num_constraints, cost.shape[-1])
    a = torch.nn.functional.normalize(
        torch.randn(size, generator=generator, dtype=cost.dtype, device=cost.device), dim=-1
    )
    b = -torch.stack([values.quantile(0.2, -1) for values in (a @ solution.mT).flatten(0, 1)]).view(size[:2])
    multipliers = a.new_full((*size[:2], len(cost)), 0.1)
    parameters, rates = (a, multipliers, b), (learning_rate, learning_rate, 3 * learning_rate)
    optimizer = torch.optim.Adam(
        [{"params": [parameter], "lr": rate} for parameter, rate in zip(parameters, rates, strict=True)],
        betas=(0.9, 0.99),
        fused=True,
    )
    for iteration in range(iterations):
        done = iteration / iterations
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * (0.5 * (1 + math.cos(math.pi * done)) + 0.003)
        gamma, phi = (start * (end / start) ** done for start, end in (complementarity, violation))
        gradients = problem.gradients(a, b, multipliers, gamma, phi)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()
        multipliers.clamp_(min=0)
        if progress is not None and (iteration + 1) % REPORT_EVERY == 0:
            progress(iteration + 1, problem.objective(a, b, multipliers, gamma, phi))

    objective = problem.objective(a, b, multipliers, complementarity[1], violation[1])
    if not objective.isfinite().any():
        raise InputError(f"learning_rate must let some restart converge, got {learning_rate}: all ended in NaN")
    a = torch.nn.functional.normalize(a, dim=-1)
    best = int(objective.nan_to_num(nan=torch.inf).argmin())
    return OptimalityFit(a, -(a @ solution.mT).amin(-1), multipliers.mT.contiguous() * scale, objective, best)


class _Conditions:
    """The objective of the fit and its gradient, written out: a fraction of autograd's time.

    Everything is laid out ``restart constr example``, which makes every product one (batched) matrix product.
    """

    def __init__(self, cost: Tensor, solution: Tensor, bounds: Bounds) -> None:
        self.cost, self.solution = cost.mT.contiguous(), solution
        self.points = solution.mT.contiguous()
        at_lower, at_upper = solution <= bounds.integral_lower, solution >= bounds.integral_upper
        # What counts of a residual is what is left of it between these two.
        self.least = torch.zeros_like(cost).masked_fill_(~at_upper, -torch.inf).mT.contiguous()
        self.most = torch.zeros_like(cost).masked_fill_(~at_lower, torch.inf).mT.contiguous()

    def residual(self, unit: Tensor, multipliers: Tensor) -> Float[Tensor, "restart var example"]:
        """[c - Aᵀλ]"""
        cost = self.cost.expand(len(unit), -1, -1)
        return torch.baddbmm(cost, unit.mT, multipliers, alpha=-1).clamp_(self.least, self.most)

    def objective(self, a: Tensor, b: Tensor, multipliers: Tensor, gamma: float, phi: float) -> Tensor:
        unit = torch.nn.functional.normalize(a, dim=-1)
        distance = unit @ self.points + b.unsqueeze(-1)
        rows = gamma * multipliers * distance.abs() + phi * distance.clamp(max=0).square()
        return self.residual(unit, multipliers).square().sum(1).mean(-1) + rows.sum(1).mean(-1)

    def gradients(
        self, a: Tensor, b: Tensor, multipliers: Tensor, gamma: float, phi: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Of the objective, for a, λ and b."""
        count = self.points.shape[-1]
        norm = torch.linalg.vector_norm(a, dim=-1, keepdim=True)
        unit = a / norm
        distance = torch.baddbmm(b.unsqueeze(-1), unit, self.points.expand(len(unit), -1, -1))
        residual = self.residual(unit, multipliers)
        to_multipliers = torch.baddbmm(distance.abs(), unit, residual, beta=gamma / count, alpha=-2 / count)
        to_distance = torch.sgn(distance).mul_(multipliers).mul_(gamma / count)
        to_distance.add_(distance.clamp_(max=0), alpha=2 * phi / count)
        to_unit = torch.baddbmm(to_distance @ self.solution, multipliers, residual.mT, alpha=-2 / count)
        to_a = (to_unit - unit * (unit * to_unit).sum(-1, keepdim=True)) / norm
        return to_a, to_multipliers, to_distance.sum(-1)
