"""The methods that are compared on keypoints, with their settings, and one run of any of them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from neuralilp.annealing import MilestoneTemperature, PlateauTemperature
from neuralilp.balancing import CoefficientOfVariation
from neuralilp.baselines import CombOptNetStep
from neuralilp.constraints import Box, KnownConstraints, LearnableConstraints
from neuralilp.costs import NetworkCost
from neuralilp.distill import Axes, distill, explain, same_row_space, with_rules
from neuralilp.errors import InputError
from neuralilp.loss import ILPLoss
from neuralilp.model import NeuralILP
from neuralilp.negatives import BatchNegatives, KHop, OneHop, ProjectAndSample, SolverNegatives, Union
from neuralilp.negatives.base import NegativeSampler
from neuralilp.step import LossStep
from neuralilp.storage import save
from neuralilp.tasks.keypoints.job import (
    TEST_SOLVE_SECONDS,
    VALIDATION_SOLVE_SECONDS,
    Answer,
    Answers,
    Job,
    KeypointData,
    bijection,
    judged,
    solved,
)
from neuralilp.tasks.keypoints.networks import GraphPair, MatchingCost
from neuralilp.tasks.keypoints.table import TASK
from neuralilp.tasks.rules import RuleStep, exactly_one
from neuralilp.tasks.runs import Recipe, TargetStep, run_recorded
from neuralilp.training import Outcome, Report, RunFolder, Schedule
from neuralilp.training.record import fingerprint
from neuralilp.warmstart import affine_hull

METHODS = ("neural", "neural-ci", "comboptnet", "ilploss", "ilploss-solver", "ilploss-plus")
BOUNDS = (-0.485, 1.485)
"""Of the paper."""
MONITOR = "pointwise_accuracy"
EPOCHS, BATCH, PEAK = 60, 8, 1e-3


@dataclasses.dataclass(frozen=True)
class Learner:
    """A model, how it is trained, and its answers as it is at the time."""

    model: nn.Module
    recipe: Recipe
    answer: Callable[[float], Answer]
    """Seconds for one pair -> answers."""
    seconds: float = 0.0
    """What was learnt before training took."""


def run(
    data: KeypointData,
    method: str,
    *,
    out: Path,
    seed: int = 0,
    time_limit: float | None = None,
    start: MatchingCost | None = None,
    resume: bool = False,
    report: Report | None = None,
) -> dict[str, Any] | None:
    """Train and test: the record of the run, which is also in its folder. None when interrupted.

    ``time_limit`` is for training with its validations, the test comes on top. ``start`` is a cost network to begin
    with, such as one that was trained on fewer points.
    """
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    made: list[Learner] = []
    began_with = "scratch" if start is None else fingerprint(start.state_dict().values())[:12]

    def learnt(folder: RunFolder) -> tuple[nn.Module, Outcome]:
        job = Job(folder, seed, time_limit, False, resume, report, data)
        network = MatchingCost(data.table.shape[1], generator=job.generator)
        if start is not None:
            network.load_state_dict(start.state_dict())
        learner = LEARNERS[method](job, network)
        made.append(learner)

        def figures() -> dict[str, float]:
            return judged(learner.answer(VALIDATION_SOLVE_SECONDS), data, data.validation)[0]

        outcome = learner.recipe.follow((*data.train.x, data.train.solution), figures, job)
        return learner.model, dataclasses.replace(outcome, train_seconds=outcome.train_seconds + learner.seconds)

    def tested(model: nn.Module) -> dict[str, Any]:
        figures, statuses, _ = judged(made[-1].answer(TEST_SOLVE_SECONDS), data, data.test)
        return {"test": figures, "statuses": statuses, **rules_of(model, data)}

    config = {
        "task": TASK,
        "method": method,
        "seed": seed,
        "setting": {"points": data.k, "start": began_with},
        "data_fingerprint": data.fingerprint,
        "images": data.collection.source,
    }
    return run_recorded(
        out,
        config,
        resume=resume,
        facts={"time_limit": time_limit},
        learn=learnt,
        test=tested,
        save=lambda model, path: save(model, path, overwrite=True) if isinstance(model, NeuralILP) else None,
    )


def rules_of(model: nn.Module, data: KeypointData) -> dict[str, Any]:
    """What the learnt constraints say, in words, and whether it is the bijection."""
    if not isinstance(model, NeuralILP):
        return {}
    with torch.no_grad():
        found = distill([module() for module in model.constraints], data.train.solution, bounds=model.box())
    axes = Axes(("left keypoint", "right keypoint"), (data.k, data.k))
    return {
        "rules": explain(found, axes),
        "has_true_rules": same_row_space(found.equalities.a, found.equalities.b, *bijection(data.k)),
    }


def by_solving(model: NeuralILP) -> Callable[[float], Answer]:
    return lambda seconds: lambda pair: solved(model, pair, seconds)


Temperature = PlateauTemperature | MilestoneTemperature


def recipe_of(step: nn.Module, temperature: Temperature | None = None) -> Recipe:
    return Recipe(
        step=step,
        optimiser=lambda module: torch.optim.AdamW(module.parameters(), lr=PEAK, fused=True),
        temperature=temperature or MilestoneTemperature(1.0, factor=0.5, epochs=()),
        schedule=Schedule(epochs=EPOCHS, batch_size=BATCH, patience=10, goal=1.0),
        monitor=MONITOR,
    )


# -- the paper's methods -----------------------------------------------------------------------------------------------


def new_model(job: Job, network: MatchingCost) -> NeuralILP:
    """2k inequalities to learn, that start as those of random constraints: origins in the middle half of the box."""
    k = job.data.k
    quarter = (BOUNDS[1] - BOUNDS[0]) / 4
    origin = (BOUNDS[0] + quarter, BOUNDS[1] - quarter)
    rows = LearnableConstraints(2 * k, k * k, origin=origin, generator=job.generator)
    return NeuralILP(NetworkCost(network), [rows], Box(*BOUNDS, k * k))


def with_samplers(job: Job, network: MatchingCost, temperature: Temperature, *samplers: NegativeSampler) -> Learner:
    model = new_model(job, network)
    step = LossStep(model, Union(*samplers), ILPLoss(), CoefficientOfVariation())
    return Learner(model, recipe_of(job.on_graphs(step), temperature), by_solving(model))


def ilploss(job: Job, network: MatchingCost) -> Learner:
    """Solver-free negatives."""
    temperature = MilestoneTemperature(0.5, factor=0.2, epochs=(10, 30))
    hops = KHop((2, 3, 4), count=job.data.k**2)
    return with_samplers(job, network, temperature, OneHop(), hops, ProjectAndSample(), BatchNegatives())


def ilploss_solver(job: Job, network: MatchingCost) -> Learner:
    """The solver's answers and the other solutions of a batch."""
    temperature = PlateauTemperature(0.1, factor=0.5, patience=4, floor=0.02)
    return with_samplers(
        job, network, temperature, SolverNegatives(time_limit=VALIDATION_SOLVE_SECONDS), BatchNegatives()
    )


def comboptnet(job: Job, network: MatchingCost) -> Learner:
    model = new_model(job, network)
    step = CombOptNetStep(model, time_limit=VALIDATION_SOLVE_SECONDS)
    recipe = dataclasses.replace(
        recipe_of(job.on_graphs(step), MilestoneTemperature(0.5, factor=0.5, epochs=())),
        optimiser=lambda module: torch.optim.Adam(module.parameters(), lr=5e-4),
    )
    return Learner(model, recipe, by_solving(model))


def matching(job: Job, network: MatchingCost) -> Recipe:
    """The cross entropy between -c and y*, entry by entry."""
    step = TargetStep(network, lambda c, y: functional.binary_cross_entropy_with_logits(-c, y))
    return recipe_of(job.on_graphs(step))


def neural(job: Job, network: MatchingCost) -> Learner:
    """Each left point goes to the right one of the least cost."""
    k = job.data.k

    def answer(pair: GraphPair) -> Answers:
        best = network(pair).unflatten(-1, (k, k)).argmin(-1)
        return Answers(functional.one_hot(best, k).flatten(-2).float(), {"predicted": len(best)})

    return Learner(network, matching(job, network), lambda seconds: answer)


def neural_ci(job: Job, network: MatchingCost) -> Learner:
    """Its cost, solved under the true constraints."""
    k = job.data.k
    rows, b = bijection(k)
    model = NeuralILP(NetworkCost(network), [KnownConstraints(rows, b, slack=0.0)], Box(0.0, 1.0, k * k))
    return Learner(network, matching(job, network), by_solving(model))


# -- ours --------------------------------------------------------------------------------------------------------------


def ilploss_plus(job: Job, network: MatchingCost) -> Learner:
    """The rules off the affine hull of the solutions, and the cost by the rules: no solver, nothing told."""
    data, began = job.data, time.perf_counter()
    hull = affine_hull(data.train.solution)
    rows = LearnableConstraints.from_rows(hull.a, hull.b, slack=1e-3)
    model = NeuralILP(NetworkCost(network), [rows], Box(0.0, 1.0, data.k**2))
    with torch.no_grad():
        rules = distill([rows()], data.train.solution, bounds=model.box())
    ruled = with_rules(model, rules, keep_unexplained=False)
    recipe = recipe_of(job.on_graphs(RuleStep(model.cost, exactly_one(rules))))
    return Learner(model, recipe, by_solving(ruled), time.perf_counter() - began)


LEARNERS: dict[str, Callable[[Job, MatchingCost], Learner]] = {
    "neural": neural,
    "neural-ci": neural_ci,
    "comboptnet": comboptnet,
    "ilploss": ilploss,
    "ilploss-solver": ilploss_solver,
    "ilploss-plus": ilploss_plus,
}
