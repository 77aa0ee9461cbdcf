"""What every method on random constraints is given, and what all of them share."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from torch import Tensor

from neuralilp.constraints import Box, LearnableConstraints
from neuralilp.costs import KnownCost
from neuralilp.metrics import variable_accuracy, vector_accuracy
from neuralilp.model import NeuralILP
from neuralilp.solving import CutPool, Solution, solve
from neuralilp.tasks.random_constraints.data import Dataset, Examples, Split
from neuralilp.tasks.runs import Conditions

RESTART = "restart"
"""The figure of a validation that names the best restart."""

QUARTERS = 4

VALIDATION_SOLVE_SECONDS, TEST_SOLVE_SECONDS = 0.25, 1.0
"""For one instance: half-learnt programs can be hard, and an answer that does not come is a wrong one."""


@dataclasses.dataclass(frozen=True, eq=False)
class Job(Conditions):
    """One dataset to learn so many rows from."""

    dataset: Dataset
    split: Split
    num_constraints: int

    def validate(self, model: NeuralILP) -> dict[str, float]:
        """Figures of the model; of its best restart, and which one that is, where it has several.

        After each quarter of the examples the worse half of the restarts is given up: all that is solved of one that is
        kept counts, and less than half of the solving remains.
        """
        examples, restarts = self.split.validation, rows_of(model).restarts
        if restarts is None:
            return summary(answers(model, examples, VALIDATION_SOLVE_SECONDS).z, examples)
        found = dict.fromkeys(range(restarts), examples.solution[:0])
        quarter = -(-len(examples.solution) // QUARTERS)
        for low in range(0, len(examples.solution), quarter):
            part = Examples(*(each[low : low + quarter] for each in examples))
            for index, z in found.items():
                found[index] = torch.cat([z, answers(model.restart(index), part, VALIDATION_SOLVE_SECONDS).z])
            seen = Examples(*(each[: low + quarter] for each in examples))
            figures = {index: summary(z, seen) for index, z in found.items()}
            ranked = sorted(found, key=lambda index: -figures[index]["variable_accuracy"])
            found = {index: found[index] for index in ranked[: -(-len(ranked) // 2)]}
        return {**figures[ranked[0]], RESTART: float(ranked[0])}


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


def summary(z: Tensor, examples: Examples) -> dict[str, float]:
    return {
        "vector_accuracy": vector_accuracy(z, examples.solution),
        "variable_accuracy": variable_accuracy(z, examples.solution),
    }
