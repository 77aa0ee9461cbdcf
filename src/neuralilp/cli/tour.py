"""What ``neuralilp demo`` does: a hidden program, examples of its solutions, the learning, and the comparison."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from rich.table import Table
from torch import Tensor

from neuralilp.annealing import PlateauTemperature
from neuralilp.balancing import CoefficientOfVariation
from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.constraints import Box, LearnableConstraints
from neuralilp.costs import KnownCost
from neuralilp.loss import ILPLoss
from neuralilp.metrics import vector_accuracy
from neuralilp.model import NeuralILP
from neuralilp.negatives import KHop, Negatives, OneHop, ProjectAndSample, Union
from neuralilp.program import IntegerProgram
from neuralilp.solving import solve

LOWER, UPPER = -5, 5
TRAIN, VALIDATION, TEST = 1000, 500, 500
TRUE_ROWS, LEARNT_ROWS = 4, 12
STARTS, EPOCHS, BATCH, PATIENCE = 3, 100, 50, 5

SAMPLER = Union(OneHop(), KHop((2, 3, 4, 5, 6, 8), count=8), ProjectAndSample())

Examples = tuple[Tensor, Tensor]
"""Costs, and a solution for each."""

Report = Callable[[int, int, float, float], None]
"""Called with the number of the start and of the epoch, the validation figure and the temperature."""


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


def observe(truth: IntegerProgram, count: int, generator: torch.Generator) -> Examples:
    """Random costs, and the solutions that are optimal for them: all that the learner gets to see."""
    costs = torch.randn(count, 2, generator=generator)
    return costs, solve(dataclasses.replace(truth, cost=costs)).z


def learn(train: Examples, validation: Examples, *, generator: torch.Generator, report: Report) -> NeuralILP:
    """Learn the constraints by ILP-Loss, from a few starts if need be. No solver is called here."""
    best, best_figure = None, -1.0
    for start in range(1, STARTS + 1):
        model, figure = learn_once(train, validation, generator, functools.partial(report, start))
        if figure > best_figure:
            best, best_figure = model, figure
        if figure == 1:
            break
    assert best is not None
    return best


def learn_once(
    train: Examples, validation: Examples, generator: torch.Generator, report: Callable[[int, float, float], None]
) -> tuple[NeuralILP, float]:
    """The training loop; the model, and its share of validation examples with everything on the right side."""
    rows = LearnableConstraints(LEARNT_ROWS, 2, origin=(LOWER / 2, UPPER / 2), generator=generator)
    model = NeuralILP(KnownCost(), [rows], Box(LOWER, UPPER, 2))
    loss, balancer = ILPLoss(), CoefficientOfVariation()
    temperature = PlateauTemperature(1.0, factor=0.5, patience=4, floor=0.01)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.03, weight_decay=0.0)
    rate = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, total_iters=EPOCHS)
    costs, solutions = train
    figure, perfect = 0.0, 0
    for epoch in range(1, EPOCHS + 1):
        # Wide margins at first, to settle in the middle of the gap between feasible and infeasible points.
        loss.positive_margin = loss.negative_margin = max(0.1 * temperature.value, 0.01)
        for batch in torch.randperm(len(costs), generator=generator).split(BATCH):
            x, y = costs[batch], solutions[batch]
            program = model(x)
            negatives = SAMPLER(program, y, generator=generator)
            terms = loss(program, y, negatives, temperature=temperature.value)
            optimiser.zero_grad()
            balancer(terms).backward()
            optimiser.step()
        rate.step()
        figure = validate(model, validation, generator)
        temperature.step(figure)
        report(epoch, figure, temperature.value)
        perfect = perfect + 1 if figure == 1 else 0
        if perfect == PATIENCE:
            break
    return model, figure


@torch.no_grad()
def validate(model: NeuralILP, examples: Examples, generator: torch.Generator) -> float:
    """How well solutions and negatives are kept apart, without a margin and without a solver."""
    costs, solutions = examples
    program = model(costs)
    negatives = SAMPLER(program, solutions, generator=generator)
    terms = ILPLoss(positive_margin=0, negative_margin=0)(program, solutions, negatives, temperature=0)
    return (terms.inside * terms.separated).item()


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


@torch.no_grad()
def instructive(
    model: NeuralILP, examples: Examples, generator: torch.Generator
) -> tuple[IntegerProgram, Float[Tensor, " var"], Negatives]:
    """An example to draw: y* away from the bounds, the cost line away from the others; with its negatives."""
    costs, solutions = examples
    program = model(costs)
    inside = ((solutions > LOWER) & (solutions < UPPER)).all(-1)
    parallel = (costs @ program.blocks[0].a.mT).abs().amax(-1) / costs.norm(dim=-1)
    i = int(torch.where(inside, parallel, 1.0).argmin())
    program = program.instance(i)
    return program, solutions[i], SAMPLER(program, solutions[i], generator=generator)


def integer_points() -> Float[Tensor, "point 2"]:
    side = torch.arange(float(LOWER), UPPER + 1)
    return torch.cartesian_prod(side, side)
