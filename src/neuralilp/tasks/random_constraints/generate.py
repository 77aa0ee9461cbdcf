"""New datasets by the published recipe (Paulus et al. 2021)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.errors import InputError
from neuralilp.program import IntegerProgram
from neuralilp.solving import Status, solve
from neuralilp.tasks.random_constraints.data import NUM_TRAIN, Dataset

DISTANCE = 0.2
"""Of every hyperplane from its origin."""

ROUNDS = 10
"""How often costs that were not solved are drawn again."""


def random_rows(bounds: Bounds, num_constraints: int, generator: torch.Generator) -> ConstraintBlock:
    """Rows of norm 1 that leave some integer corner of the box feasible.

    Normals are U(-0.5, 0.5), normalised. Each row lies 0.2 from an origin of its own, uniform over the middle half of
    the box; one corner is drawn for all, and the rows that it violates are turned round. The recipe can also be read as
    one origin for all rows: the hidden rows of the published datasets favour one each (by e⁵ in likelihood, over
    thirty of them with two rows or more).
    """
    n = bounds.lower.shape[-1]
    a = torch.nn.functional.normalize(torch.rand(num_constraints, n, generator=generator) - 0.5)
    quarter = (bounds.upper - bounds.lower) / 4
    origin = bounds.lower + quarter + 2 * quarter * torch.rand(num_constraints, n, generator=generator)
    b = DISTANCE - (a * origin).sum(-1)
    is_upper = torch.randint(2, (n,), generator=generator).bool()
    corner = torch.where(is_upper, bounds.integral_upper, bounds.integral_lower)
    sign = torch.where(a @ corner + b >= 0, 1.0, -1.0)
    return ConstraintBlock(a * sign.unsqueeze(-1), b * sign, is_unit=True)


def random_costs(count: int, num_variables: int, generator: torch.Generator) -> Float[Tensor, "count var"]:
    """U(-1, 1)"""
    return 2 * torch.rand(count, num_variables, generator=generator) - 1


def generate(
    name: str,
    *,
    num_constraints: int,
    lower: float,
    upper: float,
    num_variables: int = 16,
    num_train: int = NUM_TRAIN,
    num_test: int = 1000,
    seed: int = 0,
    time_limit: float | None = None,
    workers: int = 1,
    progress: bool = False,
) -> Dataset:
    """A dataset of ``num_train + num_test`` costs with their optimal solutions over one random program.

    The program has a feasible corner, so every cost has a solution. A cost that is not solved within ``time_limit``
    seconds is drawn again; that makes the data a little easier than without a limit, and dependent on the machine.
    """
    for argument, value in {
        "num_constraints": num_constraints,
        "num_variables": num_variables,
        "num_train": num_train,
        "num_test": num_test,
    }.items():
        if value < 1:
            raise InputError(f"{argument} must be positive, got {value}")
    bounds = Bounds(*(torch.full((num_variables,), float(bound)) for bound in (lower, upper)))
    if not bounds.is_finite:
        raise InputError(f"lower and upper must be finite, got {lower:g} and {upper:g}")
    generator = torch.Generator().manual_seed(seed)
    rows = random_rows(bounds, num_constraints, generator)
    cost = random_costs(num_train + num_test, num_variables, generator)
    solution = torch.full_like(cost, torch.nan)
    left = torch.arange(len(cost))
    for _ in range(ROUNDS):
        program = IntegerProgram(cost[left], bounds, (rows,))
        answer = solve(program, time_limit=time_limit, workers=workers, progress=progress)
        is_solved = torch.tensor([status is Status.OPTIMAL for status in answer.status])
        solution[left[is_solved]] = answer.z[is_solved]
        left = left[~is_solved]
        if not len(left):
            return Dataset(name, cost, solution, bounds.lower, bounds.upper, rows.a, rows.b, num_train)
        cost[left] = random_costs(len(left), num_variables, generator)
    raise InputError(
        f"after drawing costs {ROUNDS} times, {len(left)} of {len(cost)} are still not solved "
        f"({answer.counts()}): allow more time than {time_limit} s each, or fewer variables or constraints"
    )
