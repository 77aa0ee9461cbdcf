"""One run of any method on keypoints: from scratch, or also from the cost network of another run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from neuralilp.distill import Axes, distill, explain, same_row_space
from neuralilp.errors import InputError
from neuralilp.model import NeuralILP
from neuralilp.storage import save
from neuralilp.tasks.keypoints.job import (
    TEST_SOLVE_SECONDS,
    VALIDATION_SOLVE_SECONDS,
    Job,
    KeypointData,
    accuracy_by_category,
    bijection,
    judged,
)
from neuralilp.tasks.keypoints.learners import LEARNERS, MONITOR, Learner
from neuralilp.tasks.keypoints.networks import MatchingCost, load_cost, save_cost
from neuralilp.tasks.keypoints.pictures import draw_matches
from neuralilp.tasks.keypoints.table import TASK
from neuralilp.tasks.runs import run_recorded
from neuralilp.tasks.table import RECORD_FILE
from neuralilp.training import Outcome, Report, RunFolder, read_record
from neuralilp.training.record import fingerprint

METHODS = tuple(LEARNERS)
SCRATCH, OTHER_RUN = "scratch", "other-run"
"""What a cost network begins as."""

COST_FILE, PICTURE_FILE = "cost.safetensors", "matches.png"
DRAWN = 6
"""Pairs of the test in the picture: the first, among which categories take turns."""


class Trial(NamedTuple):
    """One training of a run."""

    folder: RunFolder
    network: MatchingCost
    learner: Learner
    outcome: Outcome


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

    ``time_limit`` is for training with its validations, the test comes on top. ``start`` is a cost network, such as one
    that was trained on fewer points (:func:`cost_of_run`): the run trains from scratch and from it, half of the time
    each, and goes on with what validates better, as in the paper, where both are alike with the second. The record
    says which, and how well both did.
    """
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    trials: dict[str, Trial] = {}

    def learnt(folder: RunFolder) -> tuple[nn.Module, Outcome]:
        job = Job(folder, seed, time_limit, False, resume, report, data)
        trials.update({SCRATCH: trained(job, method)} if start is None else trained_twice(job, method, start))
        best = trials[picked(trials)]
        folder.config |= {"training": best.folder.config["training"]}
        total = sum(trial.outcome.total_seconds for trial in trials.values())
        kept = best.learner.model if best.learner.finished is None else best.learner.finished()
        return kept, dataclasses.replace(best.outcome, total_seconds=total)

    def tested(model: nn.Module) -> dict[str, Any]:
        name = picked(trials)
        figures, statuses, z = judged(trials[name].learner.answer(TEST_SOLVE_SECONDS), data, data.test)
        save_cost(trials[name].network, out / COST_FILE)
        shown = list(range(min(DRAWN, len(data.test))))
        draw_matches(out / PICTURE_FILE, data.collection.images, data.test.matches.take(shown), z[shown])
        starts = {
            name: {MONITOR: trial.outcome.best, "train_seconds": round(trial.outcome.train_seconds, 3)}
            for name, trial in trials.items()
        }
        return {
            "test": figures,
            "statuses": statuses,
            "by_category": {MONITOR: accuracy_by_category(z, data, data.test)},
            "start": name,
            "starts": starts,
            **rules_of(model, data),
        }

    config = {
        "task": TASK,
        "method": method,
        "seed": seed,
        "setting": {"points": data.k},
        "data_fingerprint": data.fingerprint,
        "images": data.collection.source,
        "encoder": data.encoder,
        "also_from": None if start is None else fingerprint(start.state_dict().values())[:12],
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


def trained(job: Job, method: str, start: MatchingCost | None = None) -> Trial:
    """In the folder of the job, with the weights of ``start`` or new ones."""
    data = job.data
    network = MatchingCost(data.table.shape[1], generator=job.generator)
    if start is not None:
        network.load_state_dict(start.state_dict())
    learner = LEARNERS[method](job, network)

    def figures() -> dict[str, float]:
        return judged(learner.answer(VALIDATION_SOLVE_SECONDS), data, data.validation)[0]

    outcome = learner.recipe.follow((*data.train.x, data.train.solution), figures, job)
    outcome = dataclasses.replace(outcome, train_seconds=outcome.train_seconds + learner.seconds)
    return Trial(job.folder, network, learner, outcome)


def trained_twice(job: Job, method: str, start: MatchingCost) -> dict[str, Trial]:
    """From scratch and from ``start``, in folders of these names inside the job's; an interrupted one is the last."""
    half = None if job.time_limit is None else job.time_limit / 2
    trials: dict[str, Trial] = {}
    with job.folder.opened({}, resume=job.resume):
        for name, network in ((SCRATCH, None), (OTHER_RUN, start)):
            folder = RunFolder(job.folder.path / name, {**job.folder.config, "start": name})
            trials[name] = trained(dataclasses.replace(job, folder=folder, time_limit=half), method, network)
            if trials[name].outcome.stopped == "interrupted":
                break
    return trials


def picked(trials: Mapping[str, Trial]) -> str:
    """The name of the trial that validates best, of equal ones the last, or of the one that was interrupted."""

    def score(name: str) -> tuple[bool, float]:
        outcome = trials[name].outcome
        return outcome.stopped == "interrupted", -1.0 if outcome.best is None else outcome.best

    return max(reversed(list(trials)), key=score)


def cost_of_run(run: Path, data: KeypointData) -> MatchingCost:
    """The cost network of an earlier run, on the same images: others might be those of the test here."""
    record = read_record(run / RECORD_FILE)
    if record["task"] != TASK or record.get("images") != data.collection.source:
        raise InputError(
            f"{run} must be a run of {TASK} on {data.collection.source}, got {record['task']} on {record.get('images')}"
        )
    return load_cost(run / COST_FILE, data.table.shape[1])


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
