"""What ``neuralilp demo`` does: a hidden program, examples of its solutions, the learning, and the comparison."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from rich.table import Table
from torch import Tensor

from neuralilp.annealing import PlateauTemperature
from neuralilp.balancing import CoefficientOfVariation
from neuralilp.constraints import Box, LearnableConstraints
from neuralilp.costs import KnownCost
from neuralilp.loss import ILPLoss
from neuralilp.metrics import vector_accuracy
from neuralilp.model import NeuralILP
from neuralilp.negatives import KHop, OneHop, ProjectAndSample, Union
from neuralilp.program import Bounds, ConstraintBlock, IntegerProgram
from neuralilp.solving import solve

LOWER, UPPER = -5, 5
TRAIN, TEST = 1000, 500
TRUE_ROWS, LEARNT_ROWS = 4, 12
EPOCHS, BATCH = 100, 50

SAMPLER = Union(OneHop(), KHop((2, 3, 4, 6), count=12), ProjectAndSample())

Report = Callable[[int, float, float], None]
"""Called after each epoch with its number, its figure between 0 and 1, and the temperature."""


def hidden_program(generator: torch.Generator) -> IntegerProgram:
    """Slanted constraints on all sides of the origin, which cut off the corners of the box."""

    def uniform(low: float, high: float, count: int) -> Tensor:
        return low + (high - low) * torch.rand(count, generator=generator)

    turn = math.tau / TRUE_ROWS
    angle = turn * torch.arange(TRUE_ROWS) + uniform(0, turn, 1) + uniform(-0.2 * turn, 0.2 * turn, TRUE_ROWS)
    outward, distance = torch.stack([angle.cos(), angle.sin()], -1), uniform(2.5, 4.5, TRUE_ROWS)
    return IntegerProgram(
        cost=torch.zeros(2),
        bounds=Bounds(torch.full((2,), float(LOWER)), torch.full((2,), float(UPPER))),
        blocks=(ConstraintBlock(-outward, distance),),
    )


def observe(truth: IntegerProgram, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random costs, and the solutions that are optimal for them: all that the learner gets to see."""
    costs = torch.randn(count, 2, generator=generator)
    return costs, solve(dataclasses.replace(truth, cost=costs)).z


def learn(
    costs: Float[Tensor, "example var"],
    solutions: Float[Tensor, "example var"],
    *,
    generator: torch.Generator,
    report: Report,
) -> NeuralILP:
    """Learn the constraints by ILP-Loss. No solver is called here."""
    rows = LearnableConstraints(LEARNT_ROWS, 2, origin=(LOWER / 2, UPPER / 2), generator=generator)
    model = NeuralILP(KnownCost(), [rows], Box(LOWER, UPPER, 2))
    loss, balancer = ILPLoss(), CoefficientOfVariation()
    temperature = PlateauTemperature(1.0, factor=0.5, patience=4, floor=0.01)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.03, weight_decay=0.0)
    rate = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, total_iters=EPOCHS)
    perfect = 0
    for epoch in range(1, EPOCHS + 1):
        # Wide margins at first, to settle in the middle of the gap between feasible and infeasible points.
        loss.positive_margin = loss.negative_margin = max(0.1 * temperature.value, 0.01)
        right = []
        for batch in torch.randperm(len(costs), generator=generator).split(BATCH):
            x, y = costs[batch], solutions[batch]
            program = model(x)
            negatives = SAMPLER(program, y, generator=generator)
            terms = loss(program, y, negatives, temperature=temperature.value)
            optimiser.zero_grad()
            balancer(terms).backward()
            optimiser.step()
            right.append(terms.inside * terms.separated)
        rate.step()
        figure = torch.stack(right).mean().item()
        temperature.step(figure)
        report(epoch, figure, temperature.value)
        perfect = perfect + 1 if figure == 1 else 0
        if perfect == 3:
            break
    return model


@dataclasses.dataclass(frozen=True)
class Comparison:
    accuracy: float
    """Share of new costs for which the learnt program has the true solution."""
    agreed: int
    """Integer points of the box that are feasible in both programs, or in neither."""
    points: int


def compare(model: NeuralILP, truth: IntegerProgram, costs: Tensor, solutions: Tensor) -> Comparison:
    with torch.no_grad():
        learnt = model(costs)
    z = solve(learnt).z
    same = learnt.instance(0).is_feasible(integer_points()) == truth.is_feasible(integer_points())
    return Comparison(vector_accuracy(z, solutions), int(same.sum()), len(same))


def side_by_side(model: NeuralILP, truth: IntegerProgram) -> Table:
    """The learnt rows that matter beside the true row that is closest in direction."""
    with torch.no_grad():
        learnt = model(truth.cost).blocks[0]
    true = truth.blocks[0].unit()
    needed = needed_rows(learnt)
    closest = (learnt.a @ true.a.mT).argmax(-1)
    spare = len(needed) - int(needed.sum())
    table = Table("true constraint", "learnt", "angle", caption=f"{spare} more learnt rows cut off nothing further")
    for i in range(len(true.a)):
        matches = (needed & (closest == i)).nonzero().flatten().tolist()
        for k, j in enumerate(matches):
            angle = math.degrees(math.acos(min(float(true.a[i] @ learnt.a[j]), 1.0)))
            table.add_row("" if k else readable(true, i), readable(learnt, j), f"{angle:.0f}°")
        if not matches:
            table.add_row(readable(true, i), "(none)", "")
    return table


def needed_rows(block: ConstraintBlock) -> Bool[Tensor, " constr"]:
    """A few rows that cut off every integer point of the box that all of them together do."""
    cuts = block.a @ integer_points().mT + block.b.unsqueeze(-1) < 0
    needed = cuts.any(-1)
    for row in cuts.sum(-1).argsort().tolist():
        others = needed.clone()
        others[row] = False
        if torch.equal(cuts[others].any(0), cuts[needed].any(0)):
            needed = others
    return needed


def readable(block: ConstraintBlock, row: int) -> str:
    first, second, offset = *block.a[row].tolist(), float(block.b[row])
    return f"{first:+.2f} z0 {_signed(second)} z1 {_signed(offset)} >= 0"


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'} {abs(value):.2f}"


def integer_points() -> Float[Tensor, "point 2"]:
    side = torch.arange(float(LOWER), UPPER + 1)
    return torch.cartesian_prod(side, side)
