"""The methods that are compared on random constraints, with their settings, and one run of any of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from neuralilp.annealing import MilestoneTemperature
from neuralilp.balancing import SteeredWeights
from neuralilp.baselines import CombOptNetStep
from neuralilp.blocks import Bounds
from neuralilp.errors import InputError
from neuralilp.evidence import valid_cuts
from neuralilp.loss import ILPLoss
from neuralilp.model import NeuralILP
from neuralilp.negatives import KHop, OneHop, ProjectAndSample, SolverNegatives, Union
from neuralilp.separation import compiler_is_present
from neuralilp.solving import Solution
from neuralilp.step import LossStep
from neuralilp.storage import save
from neuralilp.tasks.random_constraints.data import Dataset, Examples, Split
from neuralilp.tasks.random_constraints.job import (
    RESTART,
    TEST_SOLVE_SECONDS,
    VALIDATION_SOLVE_SECONDS,
    Job,
    answers,
    new_model,
    rows_of,
    summary,
    with_cuts,
)
from neuralilp.tasks.random_constraints.plus import learn_plus
from neuralilp.tasks.random_constraints.table import TASK
from neuralilp.tasks.runs import Recipe, run_recorded
from neuralilp.training import Outcome, Report, RunFolder, Schedule, triangular

PLUS = "ilploss-plus"
METHODS = ("ilploss", PLUS, "comboptnet", "solver-negatives")
COMPILED = ("ilploss",)
"""Those whose steps can be compiled as a whole; the others call a solver in them, or have none."""

SAMPLERS = (OneHop(), KHop((2, 3, 4), count=16), ProjectAndSample())
"""Of the paper, for this task."""


def run(
    dataset: Dataset,
    method: str,
    *,
    setting: Mapping[str, Any],
    num_constraints: int,
    out: Path,
    seed: int = 0,
    time_limit: float | None = None,
    compile: bool | None = None,
    resume: bool = False,
    report: Report | None = None,
) -> dict[str, Any] | None:
    """Train on one dataset and test: the record of the run, which is also in its folder. None when interrupted.

    ``num_constraints`` are the rows to learn; ``time_limit`` is for training with its validations, the test comes on
    top. ``setting`` names the dataset in tables. The folder also gets the learnt model. What ``resume`` does is in
    :func:`~neuralilp.tasks.runs.run_recorded`.
    """
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if num_constraints < 1:
        raise InputError(f"num_constraints must be positive, got {num_constraints}")
    is_compiled = method in COMPILED and (compiler_is_present() if compile is None else compile)
    split = dataset.split()

    def learnt(folder: RunFolder) -> tuple[NeuralILP, Outcome]:
        job = Job(folder, seed, time_limit, is_compiled, resume, report, dataset, split, num_constraints)
        if method == PLUS:
            return learn_plus(job)
        return learn(job, RECIPES[method], restarts_of(method, dataset, num_constraints))

    config = {
        "task": TASK,
        "method": method,
        "seed": seed,
        "setting": dict(setting),
        "rows": num_constraints,
        "data_fingerprint": dataset.fingerprint,
    }
    return run_recorded(
        out,
        config,
        resume=resume,
        facts={"time_limit": time_limit, "compile": is_compiled},
        learn=learnt,
        test=lambda model: final_figures(model, split, is_cut=method == PLUS),
        save=lambda model, path: save(model, path, overwrite=True),
    )


def learn(
    job: Job, make_recipe: Callable[[NeuralILP, bool], Recipe], restarts: int | None = None
) -> tuple[NeuralILP, Outcome]:
    """A model trained step by step; the restart that validates best, where there are several."""
    model = new_model(job.dataset, job.num_constraints, job.generator, restarts)
    outcome = make_recipe(model, job.compile).follow(job.split.train, lambda: job.validate(model), job)
    return model if restarts is None else model.restart(int(outcome.figures.get(RESTART, 0))), outcome


def final_figures(model: NeuralILP, split: Split, *, is_cut: bool) -> dict[str, Any]:
    """Entries of the record, all from solving; with cuts, those without them too."""
    solution = answers(model, split.test, TEST_SOLVE_SECONDS)
    entries = judged(solution, split.test)
    if not is_cut:
        return entries
    without = {f"{name}_without_cuts": entry for name, entry in entries.items()}
    known = Examples(*(torch.cat(parts) for parts in zip(split.train, split.validation, strict=True)))
    solution = with_cuts(model, split.test, TEST_SOLVE_SECONDS, valid_cuts(*known), solution)
    return {**judged(solution, split.test), **without}


def judged(solution: Solution, examples: Examples) -> dict[str, Any]:
    return {"test": summary(solution.z, examples), "statuses": solution.counts()}


# -- the paper's settings ----------------------------------------------------------------------------------------------


PEAK, HALF_CYCLE, DECAY = 1e-3, 1500, 0.7
STEERING = {"rate": 4e-4, "start": 0.14, "covariance": 0.1}
TEMPERATURE = {"initial": 1.0, "factor": 0.3}
MILESTONES: tuple[int, ...] = (140, 260)
BINARY_MILESTONES = (40, 60, 100, 120)
DECAY_AFTER, BINARY_DECAY_AFTER, MANY_ROWS_DECAY_AFTER = 8, 12, 16
"""Cycles with the full peak: in a wide box, in the unit box, and there with many rows."""
MANY_ROWS = 8
BINARY_FADE = {"fade": 12000}


def ilploss(model: NeuralILP, compile: bool, *more: Any) -> Recipe:
    """The paper's settings, but for what is listed here; ``docs/results.md`` has what these things and others gave.

    - Restarts are learnt at once, and the one that validates best is kept.
    - Bounds do not compete in Eq. 9: negatives lie on them, and they would take most of the weight.
    - λ₊ : λ₋ is steered by the errors that are left, not set by the coefficient of variation, which gives L₊ the more
      weight the rarer it is above zero: rows then stay where they leave negatives inside. With more
      rows samples reach a smaller share of the negatives that matter, so the exchange grows with their number; but for
      many in a wide box, which it would keep tight for too long. λ_cov fades in the unit box, where the other terms
      become so small that L_o would decide.
    - The temperature, which is a distance, falls to a third at given epochs, not to a tenth on a plateau, and not below
      a hundredth of the box's width. In a wide box rows have further to go, and it falls later.
    - The learning rate's peaks fall with each cycle, once rows have found their places: else they swing so far that
      their average is looser than what is steered.
    - Validation comes every 80 epochs, not 20: solving all restarts takes time. The learning rate's cycle is 20 epochs
      long, so that validations fall where it is near zero. The run ends with its last epoch; early stopping would come
      before the peaks have fallen.
    - The weights that are validated and kept are averages over half a cycle; of equal validations the last.
    """
    sampler, loss, box = Union(*SAMPLERS, *more), ILPLoss(known_rows_compete=False), model.box()
    rows = rows_of(model)
    count = rows.a.shape[-2]
    is_large = count > MANY_ROWS
    exchange = 1.0 if is_large and not box.is_binary else max(count / 4, 1.0)
    steering = {"exchange": exchange, **STEERING}
    after, milestones = DECAY_AFTER, MILESTONES
    if box.is_binary:
        after, milestones = MANY_ROWS_DECAY_AFTER if is_large else BINARY_DECAY_AFTER, BINARY_MILESTONES
        steering |= BINARY_FADE
    cycles: dict[str, Any] = {"peak": PEAK, "half_cycle": HALF_CYCLE, "decay": DECAY, "after": after}
    temperature = {**TEMPERATURE, "floor": (box.upper - box.lower).max().item() / 100}
    return Recipe(
        step=LossStep(model, sampler, loss, SteeredWeights(**steering), compile=compile),
        optimiser=lambda module: torch.optim.AdamW(module.parameters(), lr=PEAK, fused=True),
        scheduler=lambda optimiser: triangular(optimiser, **cycles),
        temperature=MilestoneTemperature(**temperature, epochs=milestones),
        schedule=Schedule(
            epochs=640,
            batch_size=10,
            validate_every=80,
            goal=1.0,
            average_over=HALF_CYCLE,
            keep_later=True,
        ),
        facts={
            "restarts": rows.restarts,
            "steering": steering,
            "learning_rate": cycles,
            "temperature": {**temperature, "milestones": milestones},
            "validation_solve_seconds": VALIDATION_SOLVE_SECONDS,
        },
    )


SOLVED_SHARE = 0.02


def solver_negatives(model: NeuralILP, compile: bool) -> Recipe:
    """The solver's answers under the present constraints, where they are wrong, as negatives too.

    In one batch of fifty: in each, a run would be over before the temperature falls for the first time.
    """
    return ilploss(model, False, SolverNegatives(share=SOLVED_SHARE, time_limit=VALIDATION_SOLVE_SECONDS))


def comboptnet(model: NeuralILP, compile: bool) -> Recipe:
    """The published settings: Adam 5e-4, batches of 8, 100 epochs, τ = 0.5.

    What the test would give up on, training does too: without a limit one solve could outlast the whole run's.
    """
    return Recipe(
        step=CombOptNetStep(model, time_limit=TEST_SOLVE_SECONDS),
        optimiser=lambda module: torch.optim.Adam(module.parameters(), lr=5e-4),
        temperature=MilestoneTemperature(0.5, factor=0.5, epochs=()),
        schedule=Schedule(epochs=100, batch_size=8, validate_every=1, goal=1.0),
        monitor="vector_accuracy",
        facts={"lr": 5e-4, "temperature": 0.5},
    )


RECIPES: dict[str, Callable[[NeuralILP, bool], Recipe]] = {
    "ilploss": ilploss,
    "solver-negatives": solver_negatives,
    "comboptnet": comboptnet,
}


def restarts_of(method: str, dataset: Dataset, rows: int) -> int | None:
    """Learnt at once; the methods that call a solver in their steps have one. For many rows in a wide box more hangs
    on the start."""
    if method != "ilploss":
        return None
    return 4 if Bounds(dataset.lower, dataset.upper).is_binary else min(max(rows, 4), 8)
