"""``ilploss-plus``: rows from the optimality conditions, polished on the points that they separate worst. No solver."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from neuralilp.blocks import Bounds
from neuralilp.constraints import LearnableConstraints
from neuralilp.errors import FileFormatError
from neuralilp.evidence import consistent
from neuralilp.model import NeuralILP
from neuralilp.polishing import Polishing, PolishState, best_restart, polish_round, start
from neuralilp.tasks.random_constraints.data import Dataset, Examples
from neuralilp.tasks.random_constraints.job import Job, new_model
from neuralilp.training import Outcome, Report, Schedule, Standing, Stopped
from neuralilp.training.curves import TRAIN, VALIDATION
from neuralilp.training.interrupts import Interrupts
from neuralilp.training.progress import Silence
from neuralilp.warmstart import fit_optimality_conditions

RESTARTS = 4
POLISHING = Polishing(
    rounds=10, learning_rate=(5e-3, 2e-4), margins=(0.01, 0.001), reach=2.0, prune_round=5, hops=4, beam=8
)
MONITOR = "vector_accuracy"


@dataclasses.dataclass
class Progress:
    """Where a run stands between two rounds, all of it in the checkpoint."""

    state: PolishState
    train_seconds: float
    total_seconds: float
    round_seconds: float = 0.0
    """Of the last round, with its validation: about what the next one will take."""
    figure: float | None = None
    """Of the last validation."""
    best: float | None = None
    best_round: int | None = None
    best_seconds: float = 0.0
    figures: dict[str, float] = dataclasses.field(default_factory=dict)
    rows: int = 0
    """Of ``curves.csv``."""

    def content(self) -> dict[str, Any]:
        return {**vars(self), "state": self.state._asdict()}

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Progress:
        fields = {field.name: content[field.name] for field in dataclasses.fields(cls)}
        return cls(**{**fields, "state": PolishState(**content["state"])})


def learn_plus(job: Job) -> tuple[NeuralILP, Outcome]:
    """The model of the best validated round.

    A checkpoint follows the warm start and every round, each of which is a pure function of what came before: a run
    that was killed goes on bit for bit. Validation begins when one restart is left; where the time is up before that,
    the best of them is validated as it is. The warm start itself always runs to its end.
    """
    folder, report = job.folder, job.report or Silence()
    facts = {"restarts": RESTARTS, "examples": len(job.split.train.cost), **dataclasses.asdict(POLISHING)}
    keep = consistent(*job.split.train)
    examples = Examples(*(part[keep] for part in job.split.train))
    schedule = Schedule(epochs=POLISHING.rounds, batch_size=len(examples.cost), time_limit=job.time_limit)
    interrupts, progress = Interrupts(), None

    with folder.opened({"training": facts}, resume=job.resume), interrupts.heeded():
        began = time.perf_counter()
        saved = folder.checkpoints.read()
        if saved is not None:
            progress = restored(saved, job)
            began -= progress.total_seconds
        try:
            with interrupts.raising():
                if progress is None:
                    state = warm_start(job, examples, schedule, report)
                    elapsed = time.perf_counter() - began
                    progress = Progress(state, elapsed, elapsed)
                    folder.checkpoints.write(progress.content(), None)
                stopped = until_stopped(progress, job, examples, schedule, report, began)
                folder.curves.draw()
        except KeyboardInterrupt:
            return new_model(job.dataset, job.num_constraints, torch.Generator()), outcome_of(progress, "interrupted")
        finally:
            report.close()
        weights = folder.checkpoints.read_best()
    model = new_model(job.dataset, len(weights["constraints.0.a"]), torch.Generator())
    model.load_state_dict(weights)
    return model, outcome_of(progress, stopped)


def until_stopped(
    progress: Progress, job: Job, examples: Examples, schedule: Schedule, report: Report, began: float
) -> Stopped:
    """Rounds until there are no more, or no time for another; at least one validation."""
    stopped: Stopped = "epochs"
    while progress.state.round < POLISHING.rounds:
        if job.time_limit is not None and progress.total_seconds + progress.round_seconds >= job.time_limit:
            stopped = "time limit"
            break
        advance(progress, job, examples, began)
        report.validated(standing(progress, schedule))
    if progress.best is None:
        look(progress, job)
        checkpoint(progress, job, began)
        report.validated(standing(progress, schedule))
    return stopped


def restored(saved: Mapping[str, Any], job: Job) -> Progress:
    """Where the run was at its last checkpoint; the curves go back there too."""
    try:
        progress = Progress.of(saved)
    except (KeyError, TypeError) as error:
        raise FileFormatError(f"{job.folder.checkpoints.last} is no checkpoint of ilploss-plus: {error}") from None
    job.folder.curves.go_back(progress.rows, progress.state.round * POLISHING.steps)
    return progress


def warm_start(job: Job, examples: Examples, schedule: Schedule, report: Report) -> PolishState:
    """The rows of every restart, moved out by the last margin."""
    began = time.perf_counter()

    def tell(iteration: int, objective: Tensor) -> None:
        seconds, terms = time.perf_counter() - began, {"optimality": objective.amin().item()}
        report.tick(Standing(0, 0, seconds, schedule, 0.0, terms, MONITOR, figure=None, best=None))

    fit = fit_optimality_conditions(
        *examples,
        Bounds(job.dataset.lower, job.dataset.upper),
        job.num_constraints,
        restarts=RESTARTS,
        generator=job.generator,
        progress=tell,
    )
    return start(fit.a, fit.b + POLISHING.margins[1], examples.cost)


def advance(progress: Progress, job: Job, examples: Examples, began: float) -> None:
    """One round, its validation if one restart is left, and its checkpoint."""
    since = time.perf_counter()
    bounds = Bounds(job.dataset.lower, job.dataset.upper)
    progress.state = polish_round(progress.state, *examples, bounds, POLISHING)
    progress.train_seconds += time.perf_counter() - since
    if len(progress.state.a) == 1:
        look(progress, job)
    progress.round_seconds = time.perf_counter() - since
    checkpoint(progress, job, began)


def look(progress: Progress, job: Job) -> None:
    """Validate the best restart, and note it: a row of the curves, and the weights if none were better."""
    since = time.perf_counter()
    model = model_of(job.dataset, progress.state)
    figures = job.validate(model)
    progress.figure = figures[MONITOR]
    if progress.best is None or progress.figure >= progress.best:
        progress.best, progress.best_round = progress.figure, progress.state.round
        progress.best_seconds, progress.figures = progress.train_seconds, figures
        job.folder.checkpoints.write_best(model.state_dict(), progress.state.round, figures)
    done = progress.state.round
    row = {
        "epoch": done,
        "steps": done * POLISHING.steps,
        "train_seconds": progress.train_seconds,
        "temperature": 0.0,
        "lr": POLISHING.rate(max(done - 1, 0)),
        **{TRAIN + name: value for name, value in terms_of(progress.state).items()},
        **{VALIDATION + name: value for name, value in figures.items()},
        "validation_seconds": time.perf_counter() - since,
    }
    job.folder.curves.append(row)
    progress.rows += 1


def checkpoint(progress: Progress, job: Job, began: float) -> None:
    progress.total_seconds = time.perf_counter() - began
    job.folder.checkpoints.write(progress.content(), progress.best_round)


def terms_of(state: PolishState) -> dict[str, float]:
    """Of the best restart; the loss is NaN before the first round."""
    best = best_restart(state.unseparated, state.violated)
    return {
        "loss": state.loss[best].item(),
        "unseparated": float(state.unseparated[best]),
        "violated": float(state.violated[best]),
        "rows": float(state.a.shape[1]),
        "pool": float(len(state.pool)),
    }


def standing(progress: Progress, schedule: Schedule) -> Standing:
    return Standing(
        epoch=progress.state.round,
        steps=progress.state.round * POLISHING.steps,
        seconds=progress.total_seconds,
        schedule=schedule,
        temperature=0.0,
        terms=terms_of(progress.state),
        monitor=MONITOR,
        figure=progress.figure,
        best=progress.best,
    )


def outcome_of(progress: Progress | None, stopped: Stopped) -> Outcome:
    if progress is None:
        return Outcome(stopped, 0, 0, 0.0, 0.0, MONITOR, best=None, best_epoch=None, best_steps=None, figures={})
    return Outcome(
        stopped=stopped,
        epochs=progress.state.round,
        steps=progress.state.round * POLISHING.steps,
        train_seconds=progress.train_seconds if progress.best is None else progress.best_seconds,
        total_seconds=progress.total_seconds,
        monitor=MONITOR,
        best=progress.best,
        best_epoch=progress.best_round,
        best_steps=None if progress.best_round is None else progress.best_round * POLISHING.steps,
        figures=progress.figures,
    )


def model_of(dataset: Dataset, state: PolishState) -> NeuralILP:
    """The rows of the best restart as a model: unit normals, radii b from the origin."""
    best = best_restart(state.unseparated, state.violated)
    model = new_model(dataset, state.a.shape[1], torch.Generator())
    model.constraints[0] = LearnableConstraints.from_rows(state.a[best], state.b[best])
    return model
