"""What every method on random constraints is given, and what all of them share."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from neuralilp.constraints import Box, LearnableConstraints
from neuralilp.costs import KnownCost
from neuralilp.metrics import variable_accuracy, vector_accuracy
from neuralilp.model import NeuralILP
from neuralilp.solving import CutPool, Solution, solve
from neuralilp.tasks.random_constraints.data import Dataset, Examples, Split
from neuralilp.tasks.runs import Conditions

RESTART = "restart"
"""The figure of a validation that names the best restart."""

VALIDATION_SOLVE_SECONDS, TEST_SOLVE_SECONDS = 0.25, 1.0
"""For one instance: half-learnt programs can be hard, and an answer that does not come is a wrong one."""


@dataclasses.dataclass(frozen=True, eq=False)
class Job(Conditions):
    """One dataset to learn so many rows from."""

    dataset: Dataset
    split: Split
    num_constraints: int

    def validate(self, model: NeuralILP) -> dict[str, float]:
        """Figures of the model; of its best restart, and which one that is, where it has several."""
        restarts = rows_of(model).restarts
        if restarts is None:
            examples = self.split.validation
            return summary(answers(model, examples, VALIDATION_SOLVE_SECONDS), examples)[0]
        figures = [{**self.validate(model.restart(index)), RESTART: float(index)} for index in range(restarts)]
        return max(figures, key=lambda each: (each["variable_accuracy"], each["vector_accuracy"]))


def new_model(
    dataset: Dataset, num_constraints: int, generator: torch.Generator, restarts: int | None = None
) -> NeuralILP:
    """Rows as the paper starts them: normals from U(-0.5, 0.5), 0.2 from origins in the middle half of the box."""
    quarter = (dataset.upper - dataset.lower) / 4
    origin = (dataset.lower + quarter, dataset.upper - quarter)
    rows = LearnableConstraints(
        num_constraints, dataset.num_variables, origin=origin, restarts=restarts, generator=generator
    )
    return NeuralILP(KnownCost(), [rows], Box(dataset.lower, dataset.upper))


def rows_of(model: NeuralILP) -> LearnableConstraints:
    (rows,) = model.constraints
    assert isinstance(rows, LearnableConstraints)
    return rows


def answers(model: NeuralILP, examples: Examples, seconds: float, cuts: CutPool | None = None) -> Solution:
    """From solving every example, without a hint of its answer."""
    with torch.no_grad():
        return solve(model(examples.cost), time_limit=seconds, cuts=cuts)


def with_cuts(model: NeuralILP, examples: Examples, seconds: float, cuts: CutPool, without: Solution) -> Solution:
    """The answers with cuts, given those without: an answer that violates no cut stays the best with them."""
    again = [i for i, z in enumerate(without.z.double().numpy()) if np.isnan(z).any() or len(cuts(z)[1])]
    if not again:
        return without
    cut = answers(model, Examples(*(part[again] for part in examples)), seconds, cuts)
    z, objective = without.z.clone(), without.objective.clone()
    z[again], objective[again] = cut.z, cut.objective
    rest = {name: list(getattr(without, name)) for name in ("status", "seconds", "messages")}
    for name, values in rest.items():
        for i, value in zip(again, getattr(cut, name), strict=True):
            values[i] = value
    return Solution(z=z, objective=objective, **{name: tuple(values) for name, values in rest.items()})


def summary(solution: Solution, examples: Examples) -> tuple[dict[str, float], dict[str, int]]:
    """Metrics, and how many examples ended in which status."""
    figures = {
        "vector_accuracy": vector_accuracy(solution.z, examples.solution),
        "variable_accuracy": variable_accuracy(solution.z, examples.solution),
    }
    return figures, solution.counts()
