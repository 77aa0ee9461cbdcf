"""What every method on the knapsack is given, and how its answers are judged."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from neuralilp.blocks import TOLERANCE
from neuralilp.metrics import cost_gap, variable_accuracy, vector_accuracy
from neuralilp.model import NeuralILP
from neuralilp.solving import solve
from neuralilp.tasks.knapsack.data import Examples, KnapsackData, Truth
from neuralilp.tasks.runs import Conditions, LookedUp

VALIDATION_SOLVE_SECONDS, TEST_SOLVE_SECONDS = 0.5, 5.0
"""For one instance; after that the best answer so far is taken."""


class Answers(NamedTuple):
    z: Float[Tensor, "instance item"]
    statuses: dict[str, int]


Answer = Callable[[Tensor], Answers]
"""Vectors `instance item width` -> answers."""


@dataclasses.dataclass(frozen=True, eq=False)
class Job(Conditions):
    data: KnapsackData

    def on_sentences(self, step: nn.Module) -> nn.Module:
        """The step as training calls it, with the numbers of sentences."""
        return LookedUp(step, self.data.table, look_up)


def look_up(table: Tensor, item: Tensor) -> Tensor:
    return table[item]


@torch.no_grad()
def solved(model: NeuralILP, x: Tensor, seconds: float) -> Answers:
    """Answers from solving, without a hint of them."""
    solution = solve(model(x), time_limit=seconds)
    return Answers(solution.z, solution.counts())


def judged(answer: Answer, data: KnapsackData, examples: Examples) -> tuple[dict[str, float], dict[str, int]]:
    """Figures and statuses; whether choices fit and what they are short of, where true weights and prices are known."""
    z, statuses = answer(data.table[examples.item])
    figures = {
        "vector_accuracy": vector_accuracy(z, examples.solution),
        "variable_accuracy": variable_accuracy(z, examples.solution),
    }
    if data.truth is not None:
        figures |= practical(z, examples, data.truth)
    return figures, statuses


def practical(z: Tensor, examples: Examples, truth: Truth) -> dict[str, float]:
    """The share of choices that fit into the knapsack, and by how much of the best value they fall short.

    A choice that does not fit, or is missing, is worth nothing: it falls short of all.
    """
    weight, price = truth.weight[examples.item], truth.price[examples.item]
    fits = (weight * z).sum(-1) <= truth.capacity + TOLERANCE
    valid = torch.where(fits.unsqueeze(-1), z, 0.0)
    return {"feasibility": fits.double().mean().item(), "cost_gap": cost_gap(-price, valid, examples.solution)}
