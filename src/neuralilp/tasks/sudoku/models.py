"""The programs of sudoku: what is learnt of them, and their answers through rules that were read from them."""

from __future__ import annotations

import torch
from torch import Tensor

from neuralilp.constraints import Box, LearnableConstraints
from neuralilp.costs import KnownCost, NetworkCost
from neuralilp.distill import Axes, Distilled, distill, same_row_space, with_rules
from neuralilp.model import NeuralILP
from neuralilp.solving import solve
from neuralilp.tasks.sudoku.boards import Boxes, rules
from neuralilp.tasks.sudoku.job import MONITOR, VALIDATION_SOLVE_SECONDS, Answers, Boards, Input, judged
from neuralilp.tasks.sudoku.networks import LeNet, VisualCost

SLACK = 0.1
"""Of the paper's equalities, before their rows are normalised."""


def new_model(boxes: Boxes, kind: Input, generator: torch.Generator) -> NeuralILP:
    """(n + 1)/2 equalities from a Gaussian, through the origin, and c = -x, or c from images by a network."""
    n = boxes.num_variables
    rows = LearnableConstraints((n + 1) // 2, n, slack=SLACK, start="gaussian", radius=0.0, generator=generator)
    return NeuralILP(new_cost(boxes, kind, generator), [rows], Box(0.0, 1.0, n))


def new_cost(boxes: Boxes, kind: Input, generator: torch.Generator) -> KnownCost | NetworkCost:
    if kind == "symbolic":
        return KnownCost(-1.0)
    return NetworkCost(VisualCost(LeNet(boxes.size, generator=generator)))


@torch.no_grad()
def read_rules(model: NeuralILP, solutions: Tensor) -> Distilled:
    """The learnt rows as rules, by the training solutions."""
    return distill([module() for module in model.constraints], solutions, bounds=model.box())


@torch.no_grad()
def solved(model: NeuralILP, x: Tensor, seconds: float) -> Answers:
    """Answers from solving, without a hint of them."""
    solution = solve(model(x), time_limit=seconds)
    return Answers(solution.z, solution.counts(), tuple(solution.seconds))


def axes(boxes: Boxes) -> Axes:
    return Axes(("row", "column", "digit"), (boxes.size,) * 3)


def has_true_rules(distilled: Distilled, boxes: Boxes) -> bool:
    """Whether the equalities say just what the rules of sudoku say: for reports, never for training."""
    return same_row_space(distilled.equalities.a, distilled.equalities.b, *rules(boxes))


FEW = 10
"""Validation boards that decide between rules and rows."""


def with_distilled(model: NeuralILP, distilled: Distilled, boards: Boards) -> NeuralILP:
    """The model with the rules, where they solve as many of a few validation boards as the learnt rows; else as it is.

    With fewer learnt rows than rules, as at 4x4, learnt rows are mixtures of which no rule can be read. With few
    examples the other way about: rows that no rule explains are accidents of theirs.
    """
    if not distilled.num_rules:
        return model
    few = boards.validation.first(FEW)

    def accuracy(program: NeuralILP) -> float:
        return judged(lambda x: solved(program, x, VALIDATION_SOLVE_SECONDS), few, boards.boxes).figures[MONITOR]

    ruled = with_rules(model, distilled, keep_unexplained=False)
    by_rules = accuracy(ruled)
    is_better = by_rules == 1 or (by_rules > 0 and by_rules >= accuracy(model))
    return ruled if is_better else model
