"""The methods that are compared on keypoints, with their settings."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from neuralilp.annealing import MilestoneTemperature
from neuralilp.balancing import FixedWeights
from neuralilp.baselines import CombOptNetStep
from neuralilp.constraints import Box, KnownConstraints, LearnableConstraints
from neuralilp.costs import NetworkCost
from neuralilp.distill import distill, with_rules
from neuralilp.loss import ILPLoss
from neuralilp.model import NeuralILP
from neuralilp.negatives import BatchNegatives, KHop, OneHop, ProjectAndSample, SolverNegatives, Union
from neuralilp.negatives.base import NegativeSampler
from neuralilp.tasks.keypoints.job import Answer, Answers, Job, bijection, solved
from neuralilp.tasks.keypoints.networks import GraphPair, MatchingCost
from neuralilp.tasks.keypoints.relabelling import RelabelledStep, random_orders
from neuralilp.tasks.rules import RuleStep, exactly_one
from neuralilp.tasks.runs import Recipe, TargetStep
from neuralilp.training import Schedule, one_cycle
from neuralilp.warmstart import affine_hull

BOUNDS = (-0.485, 1.485)
"""Of the paper."""
MONITOR = "pointwise_accuracy"
EPOCHS, BATCH, PEAK = 10, 8, 1e-3


@dataclasses.dataclass(frozen=True)
class Learner:
    """A model, how it is trained, and its answers as it is at the time."""

    model: nn.Module
    recipe: Recipe
    answer: Callable[[float], Answer]
    """Seconds for one pair -> answers."""
    finished: Callable[[], nn.Module] | None = None
    """The model that is kept, where it is made of the one that is trained."""
    seconds: float = 0.0
    """What was learnt before training took."""


def by_solving(model: Callable[[], NeuralILP]) -> Callable[[float], Answer]:
    return lambda seconds: lambda pair: solved(model(), pair, seconds)


def touching(job: Job, model: NeuralILP) -> NeuralILP:
    """The model with its learnt rows moved to where the solutions of training are, in many orders of their points."""
    (rows,) = model.constraints
    assert isinstance(rows, LearnableConstraints)
    y = job.data.train.solution.expand(ORDERS, -1, -1)
    place = random_orders(ORDERS, y.shape[1], job.data.k, job.generator)
    return NeuralILP(model.cost, [rows.touching(y.gather(-1, place).flatten(0, 1))], model.box)


def recipe_of(
    job: Job,
    step: nn.Module,
    temperature: MilestoneTemperature | None = None,
    *,
    epochs: int = EPOCHS,
) -> Recipe:
    """One cycle of the learning rate in all."""
    return Recipe(
        step=job.on_graphs(step),
        optimiser=lambda module: torch.optim.AdamW(module.parameters(), lr=PEAK, fused=True),
        scheduler=lambda optimiser: one_cycle(optimiser, epochs, len(job.data.train), BATCH),
        temperature=temperature or MilestoneTemperature(1.0, factor=0.5, epochs=()),
        schedule=Schedule(epochs=epochs, batch_size=BATCH, validate_every=epochs),
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


def groups(model: NeuralILP, network: MatchingCost, rows_rate: float) -> list[dict[str, Any]]:
    """The network, and the rows at a learning rate of their own."""
    rows = {"params": model.constraints.parameters(), "lr": rows_rate, "weight_decay": 0.0}
    return [{"params": network.parameters()}, rows]


MARGIN, TEMPERATURE, NEGATIVE_WEIGHT, ROWS_PEAK, NOISE = 0.1, 0.1, 10.0, 3e-2, 0.4


def with_negatives(
    job: Job,
    network: MatchingCost,
    sampler: NegativeSampler,
    *,
    searched: NegativeSampler | None = None,
    epochs: int,
    orders: int,
    dropout: float = 0.0,
    rate: float = PEAK,
    touch: bool = False,
) -> Learner:
    """The paper's loss. Not the paper's:

    Margins are ten times as wide, and features may drop out. Each pair counts in several orders of its points, with a
    noise on its cost. Rows have a learning rate of their own, a hundred times that of the network or thirty, and the
    temperature stays. Weights are fixed, without a covariance term, and bounds do not compete. In the end rows may be
    moved to where they ``touch`` the solutions of training.
    """
    model = new_model(job, network)
    network.dropout.p = dropout
    loss = ILPLoss(positive_margin=MARGIN, negative_margin=MARGIN, known_rows_compete=False)
    weights = FixedWeights(1.0, NEGATIVE_WEIGHT, 0.0)
    step = RelabelledStep(model, sampler, loss, weights, k=job.data.k, searched=searched, orders=orders, noise=NOISE)

    def optimiser(module: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(groups(model, network, ROWS_PEAK), lr=rate)

    temperature = MilestoneTemperature(TEMPERATURE, factor=0.5, epochs=())
    recipe = recipe_of(job, step, temperature, epochs=epochs)
    facts = {"margin": MARGIN, "noise": NOISE, "orders": orders, "dropout": dropout}
    facts |= {"rate": rate, "rows_rate": ROWS_PEAK}
    recipe = dataclasses.replace(recipe, optimiser=optimiser, facts=facts)

    def finished() -> NeuralILP:
        return touching(job, model) if touch else model

    return Learner(model, recipe, by_solving(finished), finished=finished)


FREE_ORDERS = 4


def ilploss(job: Job, network: MatchingCost) -> Learner:
    """Solver-free negatives."""
    hops = KHop((2, 3, 4), count=job.data.k**2)
    sampler = Union(OneHop(), hops, ProjectAndSample(), BatchNegatives())
    return with_negatives(job, network, sampler, epochs=EPOCHS, orders=FREE_ORDERS)


EFFORT, ORDERS, SEARCH_SECONDS, DROPOUT, RATE = 50, 16, 0.01, 0.5, 3e-4
"""Epochs times k^1.5, about the same time for every k; for one solve in training; of features; of the network."""


def ilploss_solver(job: Job, network: MatchingCost) -> Learner:
    """The solver's answers, of rows that are loosened by the margin, and the other solutions of a batch."""
    answers = SolverNegatives(margin=MARGIN, time_limit=SEARCH_SECONDS)
    epochs = max(1, round(EFFORT / job.data.k**1.5))
    return with_negatives(
        job,
        network,
        BatchNegatives(),
        searched=answers,
        epochs=epochs,
        orders=ORDERS,
        dropout=DROPOUT,
        rate=RATE,
        touch=True,
    )


LAYER_SECONDS, LAYER_RATE, LAYER_ROWS_RATE = 0.005, 5e-4, 2e-2
"""For one solve in training: with rows that are half learnt, proving the optimum takes longer than finding it."""


def comboptnet(job: Job, network: MatchingCost) -> Learner:
    """Its published learning rate for the network, and forty times that for rows: eight minutes are short for them."""
    model = new_model(job, network)
    step = CombOptNetStep(model, time_limit=LAYER_SECONDS)
    recipe = dataclasses.replace(
        recipe_of(job, step, MilestoneTemperature(0.5, factor=0.5, epochs=())),
        optimiser=lambda module: torch.optim.Adam(groups(model, network, LAYER_ROWS_RATE), lr=LAYER_RATE),
        scheduler=None,
        schedule=Schedule(epochs=100, batch_size=BATCH, keep_later=True),
        facts={"rows_rate": LAYER_ROWS_RATE, "solve_seconds": LAYER_SECONDS},
    )
    return Learner(model, recipe, by_solving(lambda: model))


def matching(job: Job, network: MatchingCost) -> Recipe:
    """The cross entropy between -c and y*, entry by entry."""
    step = TargetStep(network, lambda c, y: functional.binary_cross_entropy_with_logits(-c, y))
    return recipe_of(job, step)


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
    return Learner(network, matching(job, network), by_solving(lambda: model))


# -- ours --------------------------------------------------------------------------------------------------------------


RULED_DROPOUT, RULED_PLACE_DROPOUT, RULED_MARGIN = 0.7, 0.5, 3.0
"""Of features; of places; and of costs, which start between -10 and 10."""


def ilploss_plus(job: Job, network: MatchingCost) -> Learner:
    """The rules off the affine hull of the solutions, and the cost by the rules: no solver, nothing told."""
    data, began = job.data, time.perf_counter()
    network.dropout.p, network.place_dropout.p = RULED_DROPOUT, RULED_PLACE_DROPOUT
    hull = affine_hull(data.train.solution)
    rows = LearnableConstraints.from_rows(hull.a, hull.b, slack=1e-3)
    model = NeuralILP(NetworkCost(network), [rows], Box(0.0, 1.0, data.k**2))
    with torch.no_grad():
        rules = distill([rows()], data.train.solution, bounds=model.box())
    ruled = with_rules(model, rules, keep_unexplained=False)
    recipe = recipe_of(job, RuleStep(model.cost, exactly_one(rules), margin=RULED_MARGIN))
    facts = {"dropout": RULED_DROPOUT, "place_dropout": RULED_PLACE_DROPOUT, "margin": RULED_MARGIN}
    recipe = dataclasses.replace(recipe, facts=facts)
    return Learner(model, recipe, by_solving(lambda: ruled), seconds=time.perf_counter() - began)


LEARNERS: dict[str, Callable[[Job, MatchingCost], Learner]] = {
    "neural": neural,
    "neural-ci": neural_ci,
    "comboptnet": comboptnet,
    "ilploss": ilploss,
    "ilploss-solver": ilploss_solver,
    "ilploss-plus": ilploss_plus,
}
