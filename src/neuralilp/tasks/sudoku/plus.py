"""``ilploss-plus``: the rules off the affine hull of the solutions; then reading, for visual boards, by the rules."""

from __future__ import annotations

import dataclasses
import time

import torch

from neuralilp.constraints import Box, LearnableConstraints
from neuralilp.distill import with_rules
from neuralilp.model import NeuralILP
from neuralilp.tasks.rules import RuleStep, exactly_one
from neuralilp.tasks.sudoku.job import MONITOR, VALIDATION_SOLVE_SECONDS, Boards, Job, judged
from neuralilp.tasks.sudoku.models import new_cost, read_rules, solved, with_distilled
from neuralilp.tasks.sudoku.reading import reading_recipe
from neuralilp.training import Outcome
from neuralilp.warmstart import affine_hull


def learn_plus(job: Job) -> tuple[NeuralILP, Outcome]:
    """The hull's equalities as constraints; the cost is -x, or a network trained by the rules that they distil to."""
    began = time.perf_counter()
    boards = job.boards
    hull = affine_hull(boards.train.solution)
    rows = LearnableConstraints.from_rows(hull.a, hull.b, slack=SLACK)
    n = boards.boxes.num_variables
    model = NeuralILP(new_cost(boards.boxes, boards.input, job.generator), [rows], Box(0.0, 1.0, n))
    rules = read_rules(model, boards.train.solution)
    seconds = time.perf_counter() - began
    if boards.input == "symbolic":
        return model, validated(with_distilled(model, rules, boards), job, seconds)
    ruled, step = with_rules(model, rules, keep_unexplained=False), RuleStep(model.cost, exactly_one(rules))
    recipe = reading_recipe(step, boards.train, monitor="likelihood")
    outcome = recipe.follow((boards.train.x, boards.train.solution), lambda: reading_figures(step, ruled, boards), job)
    return model, dataclasses.replace(
        outcome, train_seconds=outcome.train_seconds + seconds, total_seconds=outcome.total_seconds + seconds
    )


SLACK = 1e-3
"""Rounding to float32 moves the hull's rows by far less, and any other integral point violates some by far more."""


@torch.no_grad()
def reading_figures(step: RuleStep, ruled: NeuralILP, boards: Boards) -> dict[str, float]:
    examples = boards.validation
    figures = judged(lambda x: solved(ruled, x, VALIDATION_SOLVE_SECONDS), examples, boards.boxes).figures
    _, terms = step(examples.inputs(), examples.solution)
    return {**figures, "likelihood": terms.likelihood.item()}


def validated(ruled: NeuralILP, job: Job, seconds: float) -> Outcome:
    """The outcome of a run that had nothing to train: there are no curves, and no checkpoints."""
    began = time.perf_counter()
    folder, boards = job.folder, job.boards
    with folder.opened({"training": {"steps": 0}}, resume=job.resume):
        figures = judged(lambda x: solved(ruled, x, VALIDATION_SOLVE_SECONDS), boards.validation, boards.boxes).figures
    total = seconds + time.perf_counter() - began
    return Outcome(
        stopped="goal" if figures[MONITOR] == 1 else "epochs",
        epochs=0,
        steps=0,
        train_seconds=seconds,
        total_seconds=total,
        monitor=MONITOR,
        best=figures[MONITOR],
        best_epoch=0,
        best_steps=0,
        figures=figures,
    )
