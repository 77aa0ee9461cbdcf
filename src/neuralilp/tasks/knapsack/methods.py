"""The methods that are compared on the knapsack, with their settings, and one run of any of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from neuralilp.annealing import MilestoneTemperature
from neuralilp.balancing import FixedWeights
from neuralilp.baselines import CombOptNetStep
from neuralilp.errors import InputError
from neuralilp.likelihood import LikelihoodStep
from neuralilp.loss import ILPLoss
from neuralilp.model import NeuralILP
from neuralilp.negatives import BatchNegatives, KHop, OneHop, ProjectAndSample, SolverNegatives, Union
from neuralilp.step import LossStep
from neuralilp.storage import save
from neuralilp.tasks.knapsack.data import KnapsackData
from neuralilp.tasks.knapsack.exact import solve_knapsacks
from neuralilp.tasks.knapsack.job import (
    TEST_SOLVE_SECONDS,
    VALIDATION_SOLVE_SECONDS,
    Answer,
    Answers,
    Job,
    judged,
    solved,
)
from neuralilp.tasks.knapsack.networks import (
    NUM_CONSTRAINTS,
    FilledAtFirst,
    ItemNetwork,
    LinearReader,
    SubsetNetwork,
    new_model,
)
from neuralilp.tasks.knapsack.sentences import PRICES, WEIGHTS
from neuralilp.tasks.knapsack.table import TASK
from neuralilp.tasks.runs import Recipe, TargetStep, run_recorded
from neuralilp.training import Outcome, Report, RunFolder, Schedule, one_cycle

METHODS = ("ilploss", "ilploss-plus", "comboptnet", "solver-negatives", "mlp", "two-stage")


@dataclasses.dataclass(frozen=True)
class Learner:
    """A model, how it is trained, and its answers as it is at the time, for validation and for the test."""

    model: nn.Module
    recipe: Recipe
    answer: Callable[[float], Answer]
    """Seconds for one instance -> answers."""
    targets: Tensor | None = None
    """What it learns from in place of the solutions, for each instance of training."""


def run(
    data: KnapsackData,
    method: str,
    *,
    out: Path,
    seed: int = 0,
    time_limit: float | None = None,
    resume: bool = False,
    report: Report | None = None,
) -> dict[str, Any] | None:
    """Train and test: the record of the run, which is also in its folder. None when interrupted.

    ``time_limit`` is for training with its validations, the test comes on top.
    """
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    made: list[Learner] = []

    def learnt(folder: RunFolder) -> tuple[nn.Module, Outcome]:
        job = Job(folder, seed, time_limit, False, resume, report, data)
        learner = LEARNERS[method](job)
        made.append(learner)

        def figures() -> dict[str, float]:
            return judged(learner.answer(VALIDATION_SOLVE_SECONDS), data, data.validation)[0]

        targets = data.train.solution if learner.targets is None else learner.targets
        return learner.model, learner.recipe.follow((data.train.item, targets), figures, job)

    def tested(model: nn.Module) -> dict[str, Any]:
        figures, statuses = judged(made[-1].answer(TEST_SOLVE_SECONDS), data, data.test)
        return {"test": figures, "statuses": statuses}

    config = {
        "task": TASK,
        "method": method,
        "seed": seed,
        "setting": {"items": data.num_items},
        "data_fingerprint": data.fingerprint,
        "sentences": data.source,
        "encoder": data.encoder,
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


def by_solving(model: NeuralILP) -> Callable[[float], Answer]:
    return lambda seconds: lambda x: solved(model, x, seconds)


# -- the paper's loss --------------------------------------------------------------------------------------------------

EPOCHS, BATCH, PEAK, SPREAD, DECAY = 40, 40, 1e-3, 0.3, 1.0
HOTTEST, COLDEST = 0.05, 0.02
POSITIVE, NEGATIVE = 0.3, 1.0
"""Margins, in temperatures."""
NEGATIVE_WEIGHT = 10.0
"""λ₋ : λ₊. With 1 : 1 most rows end too loose: nearly all solutions inside, and two fifths of the answers too heavy."""


def ilploss(job: Job, *more: Any) -> Learner:
    """The paper's network, number of rows, samplers and batches. Not the paper's:

    The rows begin tight, temperature and margins fall together, by the same factor in every epoch, and the learning
    rate has one cycle in all. Weights are fixed, without a covariance term, and bounds do not compete. Weights of the
    network decay a hundred times as fast.
    """
    data = job.data
    network = ItemNetwork(data.table.shape[1], 1 + NUM_CONSTRAINTS, generator=job.generator)
    model = new_model(FilledAtFirst(network, NUM_CONSTRAINTS, chosen(data), spread=SPREAD), data.num_items)
    hops = [KHop((k,), count=data.num_items) for k in (2, 3, 4) if k <= data.num_items]
    sampler = Union(OneHop(), *hops, ProjectAndSample(), BatchNegatives(), *more)
    loss = ILPLoss(
        positive_margin=POSITIVE, negative_margin=NEGATIVE, margins_in_temperatures=True, known_rows_compete=False
    )
    recipe = Recipe(
        step=job.on_sentences(LossStep(model, sampler, loss, FixedWeights(1.0, NEGATIVE_WEIGHT, 0.0))),
        optimiser=lambda module: torch.optim.AdamW(module.parameters(), lr=PEAK, weight_decay=DECAY, fused=True),
        scheduler=lambda optimiser: one_cycle(optimiser, EPOCHS, len(data.train.item), BATCH),
        temperature=falling(HOTTEST, COLDEST, EPOCHS),
        schedule=Schedule(epochs=EPOCHS, batch_size=BATCH, validate_every=EPOCHS // 10, keep_later=True),
        monitor="vector_accuracy",
        facts={
            "peak": PEAK,
            "decay": DECAY,
            "hottest": HOTTEST,
            "coldest": COLDEST,
            "margins": [POSITIVE, NEGATIVE],
            "negative_weight": NEGATIVE_WEIGHT,
            "spread": SPREAD,
        },
    )
    return Learner(model, recipe, by_solving(model))


def chosen(data: KnapsackData) -> float:
    """How many items a solution has, in the mean."""
    return data.train.solution.sum(-1).mean().clamp(min=1).item()


def falling(hottest: float, coldest: float, epochs: int) -> MilestoneTemperature:
    """By the same factor in every epoch."""
    return MilestoneTemperature(hottest, factor=(coldest / hottest) ** (1 / (epochs - 1)), epochs=range(1, epochs))


SOLVED_SHARE = 0.02


def solver_negatives(job: Job) -> Learner:
    """The solver's answers, where they are wrong, as negatives too, in one batch of fifty."""
    return ilploss(job, SolverNegatives(share=SOLVED_SHARE, time_limit=VALIDATION_SOLVE_SECONDS))


def comboptnet(job: Job) -> Learner:
    """The published settings; as the paper grants it, outputs are kept to the ranges of true prices and weights."""
    data = job.data
    capacity = data.truth.capacity if data.truth is not None else 10.0 * data.num_items
    price, weight = PRICES[0] / 10, WEIGHTS[0] / capacity
    most_price, most_weight = PRICES[1] / 10, WEIGHTS[1] / capacity
    ranges = [(-price, -most_price), *[(-weight, -most_weight)] * NUM_CONSTRAINTS]
    network = ItemNetwork(data.table.shape[1], len(ranges), ranges=ranges, generator=job.generator)
    model = new_model(network, data.num_items)
    recipe = Recipe(
        step=job.on_sentences(CombOptNetStep(model, time_limit=VALIDATION_SOLVE_SECONDS)),
        optimiser=lambda module: torch.optim.Adam(module.parameters(), lr=5e-5),
        temperature=MilestoneTemperature(0.5, factor=0.5, epochs=()),
        schedule=Schedule(epochs=100, batch_size=8, goal=1.0),
        monitor="vector_accuracy",
    )
    return Learner(model, recipe, by_solving(model))


# -- ours --------------------------------------------------------------------------------------------------------------

PLUS_EPOCHS, PLUS_PEAK, HOPS = 200, 1e-2, 3
PLUS_HOTTEST, PLUS_COLDEST = 0.2, 0.005


def ilploss_plus(job: Job) -> Learner:
    """One row and the cost, linear in the vectors, by the likelihood of the solutions among all their neighbours."""
    data = job.data
    model = new_model(FilledAtFirst(LinearReader(data.table.shape[1], 2), 1, chosen(data)), data.num_items)
    recipe = Recipe(
        step=job.on_sentences(LikelihoodStep(model, hops=HOPS)),
        optimiser=lambda module: torch.optim.Adam(module.parameters(), lr=PLUS_PEAK, fused=True),
        scheduler=lambda optimiser: one_cycle(optimiser, PLUS_EPOCHS, len(data.train.item), BATCH),
        temperature=falling(PLUS_HOTTEST, PLUS_COLDEST, PLUS_EPOCHS),
        schedule=Schedule(epochs=PLUS_EPOCHS, batch_size=BATCH, validate_every=PLUS_EPOCHS // 10, keep_later=True),
        monitor="vector_accuracy",
        facts={"peak": PLUS_PEAK, "hottest": PLUS_HOTTEST, "coldest": PLUS_COLDEST, "hops": HOPS},
    )
    return Learner(model, recipe, by_solving(model))


# -- without a learnt program ------------------------------------------------------------------------------------------


def mlp(job: Job) -> Learner:
    """The subset from all vectors at once."""
    data = job.data
    model = SubsetNetwork(data.table.shape[1], data.num_items, generator=job.generator)

    def answer(x: Tensor) -> Answers:
        z = model.predict(x)
        return Answers(z, {"predicted": len(z)})

    recipe = Recipe(
        step=job.on_sentences(TargetStep(model, functional.binary_cross_entropy_with_logits)),
        optimiser=lambda module: torch.optim.AdamW(module.parameters(), lr=1e-3),
        temperature=MilestoneTemperature(1.0, factor=0.5, epochs=()),
        schedule=Schedule(epochs=200, batch_size=40, validate_every=2, patience=20, goal=1.0),
        monitor="variable_accuracy",
    )
    return Learner(model, recipe, lambda seconds: answer)


READING_EPOCHS, READING_PEAK = 40, 3e-2


def two_stage(job: Job) -> Learner:
    """The ceiling: prices and weights regressed with full supervision, and the true program of what was read."""
    data, known = job.data, job.data.truth
    if known is None:
        raise InputError("method two-stage needs true prices and weights, which the published layout does not hold")
    network = LinearReader(data.table.shape[1], 2)
    truth = torch.stack([scaled(known.price, PRICES), scaled(known.weight, WEIGHTS)], -1)
    recipe = Recipe(
        step=job.on_sentences(TargetStep(network, functional.mse_loss)),
        optimiser=lambda module: torch.optim.Adam(module.parameters(), lr=READING_PEAK, fused=True),
        scheduler=lambda optimiser: one_cycle(optimiser, READING_EPOCHS, len(data.train.item), BATCH),
        temperature=MilestoneTemperature(1.0, factor=0.5, epochs=()),
        schedule=Schedule(
            epochs=READING_EPOCHS, batch_size=BATCH, validate_every=READING_EPOCHS // 10, keep_later=True
        ),
        monitor="vector_accuracy",
    )
    return Learner(network, recipe, lambda seconds: by_reading(network, int(known.capacity)), truth[data.train.item])


def scaled(value: Tensor, range: tuple[int, int]) -> Tensor:
    low, high = range
    return (value - low) / (high - low)


def by_reading(network: nn.Module, capacity: int) -> Answer:
    """The knapsack of the prices and weights that were read, rounded, solved exactly."""

    @torch.no_grad()
    def answer(x: Tensor) -> Answers:
        read = [
            low + (high - low) * out for out, (low, high) in zip(network(x).unbind(-1), (PRICES, WEIGHTS), strict=True)
        ]
        price, weight = (each.round().clamp(min=0).long() for each in read)
        z = solve_knapsacks(price, weight, capacity).z
        return Answers(z, {"optimal": len(z)})

    return answer


LEARNERS: dict[str, Callable[[Job], Learner]] = {
    "ilploss": ilploss,
    "ilploss-plus": ilploss_plus,
    "comboptnet": comboptnet,
    "solver-negatives": solver_negatives,
    "mlp": mlp,
    "two-stage": two_stage,
}
