"""The methods that are compared on sudoku, with their settings, and one run of any of them."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from neuralilp.annealing import MilestoneTemperature, PlateauTemperature
from neuralilp.balancing import CoefficientOfVariation
from neuralilp.baselines import RRN, CombOptNetStep, RRNStep, SATNet, SATNetStep, board_neighbours
from neuralilp.distill import Distilled, explain
from neuralilp.errors import InputError
from neuralilp.loss import ILPLoss
from neuralilp.model import NeuralILP
from neuralilp.negatives import BatchNegatives, KHop, OneHop, ProjectAndSample, Union
from neuralilp.step import LossStep
from neuralilp.storage import save
from neuralilp.tasks.rules import RuleStep
from neuralilp.tasks.runs import Recipe, run_recorded
from neuralilp.tasks.sudoku.data import SudokuData
from neuralilp.tasks.sudoku.digits import Digits
from neuralilp.tasks.sudoku.job import (
    TEST_SOLVE_SECONDS,
    VALIDATION_SOLVE_SECONDS,
    Answer,
    Answers,
    Boards,
    Job,
    judged,
    on_boards,
)
from neuralilp.tasks.sudoku.models import (
    axes,
    has_true_rules,
    new_model,
    read_rules,
    solved,
    with_distilled,
)
from neuralilp.tasks.sudoku.networks import LeNet, Reader, VisualCost
from neuralilp.tasks.sudoku.plus import learn_plus
from neuralilp.tasks.sudoku.reading import reading_recipe
from neuralilp.tasks.sudoku.table import GRIDS, TASK
from neuralilp.training import Outcome, Report, RunFolder, Schedule, triangular

PLUS = "ilploss-plus"
METHODS = ("ilploss", PLUS, "rrn", "satnet", "comboptnet", "neural")

TEST_BUDGET = 300.0
"""Seconds for all boards of the test: those that are not reached are not solved."""

RAW_SECONDS, RAW_BUDGET = 60.0, 120.0
"""For one board solved with the learnt rows as they are, and for as many as there is time for."""


@dataclasses.dataclass(frozen=True)
class Learner:
    """A model, how it is trained, and its answers as it is at the time."""

    model: nn.Module
    recipe: Recipe
    answer: Answer


def run(
    data: SudokuData,
    digits: Digits | None,
    method: str,
    *,
    out: Path,
    seed: int = 0,
    time_limit: float | None = None,
    grids: int | None = None,
    resume: bool = False,
    report: Report | None = None,
) -> dict[str, Any] | None:
    """Train on boards and test: the record of the run, which is also in its folder. None when interrupted.

    With ``digits`` the boards are visual. ``time_limit`` is for training with its validations, the test comes on top.
    ``grids`` are the boards to learn from, for a learning curve; None for 10,000, or as many as there are.
    """
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if method == "neural" and digits is None:
        raise InputError("method neural reads images: it needs visual boards, got symbolic ones")
    boards = Boards.of(data, digits, seed, grids)
    setting = {"size": data.boxes.size, "boxes": str(data.boxes), "input": boards.input}

    def learnt(folder: RunFolder) -> tuple[nn.Module, Outcome]:
        job = Job(folder, seed, time_limit, compile=False, resume=resume, report=report, boards=boards)
        if method == PLUS:
            return learn_plus(job)
        learner = LEARNERS[method](job)
        figures = lambda: judged(learner.answer, boards.validation, boards.boxes).figures  # noqa: E731
        examples = boards.train
        return learner.model, learner.recipe.follow((examples.x, examples.solution), figures, job)

    @functools.cache
    def read(model: NeuralILP) -> tuple[Distilled, NeuralILP]:
        distilled = read_rules(model, boards.train.solution)
        return distilled, with_distilled(model, distilled, boards)

    config = {
        "task": TASK,
        "method": method,
        "seed": seed,
        "setting": setting if grids is None else {**setting, GRIDS: grids},
        "data_fingerprint": data.fingerprint,
        **({} if digits is None else {"digits": digits.source}),
    }
    return run_recorded(
        out,
        config,
        resume=resume,
        facts={"time_limit": time_limit, **boards.facts},
        learn=learnt,
        test=lambda model: final_figures(model, boards, read),
        save=lambda model, folder: save_model(model, folder, read),
    )


Read = Callable[[NeuralILP], tuple[Distilled, NeuralILP]]
"""A model -> the rules that it has learnt, and the model to solve boards with."""


def final_figures(model: nn.Module, boards: Boards, read: Read) -> dict[str, Any]:
    """Entries of the record. A program is tested through its rules, if it has any, and on some boards as it is."""
    if isinstance(model, Predictor):
        judgement = judged(predicted(model), boards.test, boards.boxes)
        return {"test": judgement.figures, "statuses": judgement.statuses}
    assert isinstance(model, NeuralILP)
    distilled, ruled = read(model)
    judgement = judged(
        lambda x: solved(ruled, x, TEST_SOLVE_SECONDS), boards.test, boards.boxes, budget=TEST_BUDGET, is_sample=False
    )
    raw = judged(lambda x: solved(model, x, RAW_SECONDS), boards.test, boards.boxes, budget=RAW_BUDGET)
    return {
        "solved_by": "rows" if ruled is model else "rules",
        "test": judgement.figures,
        "statuses": judgement.statuses,
        "solve_seconds": judgement.seconds,
        "test_raw": raw.figures,
        "statuses_raw": raw.statuses,
        "solve_seconds_raw": raw.seconds,
        "rules": explain(distilled, axes(boards.boxes)),
        "has_true_rules": has_true_rules(distilled, boards.boxes),
    }


def save_model(model: nn.Module, folder: Path, read: Read) -> None:
    """The program that boards are solved with; beside it, where rules replace them, the learnt rows."""
    if isinstance(model, NeuralILP):
        _, ruled = read(model)
        save(ruled, folder, overwrite=True)
        if ruled is not model:
            save(model, folder.with_name(RAW_MODEL), overwrite=True)


RAW_MODEL = "model-raw"


Predictor = RRN | SATNet | Reader


def predicted(model: Predictor) -> Answer:
    """Answers of a network, which are always there, right or wrong."""

    def answer(x: torch.Tensor) -> Answers:
        z = model.predict(x)
        return Answers(z, {"predicted": len(z)})

    return answer


# -- the paper's settings, and those of the rivals ---------------------------------------------------------------------


def by_rules(model: NeuralILP, job: Job) -> Answer:
    """Answers by the rules that the model has now, which are read anew for every hundred boards."""

    def answer(x: torch.Tensor) -> Answers:
        rules = read_rules(model, job.boards.train.solution)
        return solved(with_distilled(model, rules, job.boards), x, VALIDATION_SOLVE_SECONDS)

    return answer


BATCH, CYCLE = 10, 2
RULE_CYCLES, READING_CYCLES = 3, 4
ROWS_PEAK, NETWORK_PEAK, DECAY = 5e-3, 3e-3, 0.5


def ilploss(job: Job) -> Learner:
    """The paper's loss, samplers, start and batches; docs/results.md lists what differs. The learning rate's peak is
    five times as high for the rows, which start with entries around 1 and have far to go, and three times for the
    network. Validations fall on the end of its cycles, where it is near zero, and after the third cycle each peak is
    half the one before.

    Symbolic boards: until all validation boards are right. That says too little of how digits are read, since these are
    a hundred boards: visual boards have three cycles in which the rules are learnt, and then four with a temperature of
    0.1 in which reading is. And their negative margin is not 0.01 but in proportion to what one of n variables moves: a
    cost that is right by a hair misreads new digits.
    """
    boards = job.boards
    is_symbolic = boards.input == "symbolic"
    half_cycle = CYCLE * -(-len(boards.train) // BATCH) // 2
    model = new_model(boards.boxes, boards.input, job.generator)
    n = boards.boxes.num_variables
    sampler = Union(OneHop(), KHop((2, 3, 4), count=n), ProjectAndSample(), BatchNegatives())
    margin = 0.01 if is_symbolic else 0.4 / math.sqrt(n)
    step = LossStep(model, sampler, ILPLoss(negative_margin=margin), CoefficientOfVariation())
    parts = [model.constraints] if is_symbolic else [model.constraints, model.cost]
    peaks = [ROWS_PEAK, NETWORK_PEAK][: len(parts)]
    plateau = PlateauTemperature(1.0, factor=0.1, patience=4, floor=0.001)
    recipe = Recipe(
        step=on_boards(step, boards.train),
        optimiser=lambda _: torch.optim.AdamW([{"params": list(part.parameters())} for part in parts], fused=True),
        scheduler=lambda optimiser: triangular(optimiser, peaks, half_cycle=half_cycle, decay=DECAY, after=RULE_CYCLES),
        temperature=plateau if is_symbolic else MilestoneTemperature(1.0, factor=0.1, epochs=(RULE_CYCLES * CYCLE,)),
        schedule=Schedule(
            epochs=1000 if is_symbolic else (RULE_CYCLES + READING_CYCLES) * CYCLE,
            batch_size=BATCH,
            validate_every=CYCLE,
            patience=10,
            goal=1.0 if is_symbolic else None,
            keep_later=True,
        ),
        facts={
            "peaks": peaks,
            "half_cycle": half_cycle,
            "decay": DECAY,
            "after": RULE_CYCLES,
            "negative_margin": margin,
        },
    )
    return Learner(model, recipe, by_rules(model, job))


def comboptnet(job: Job) -> Learner:
    """The published settings."""
    boards = job.boards
    model = new_model(boards.boxes, boards.input, job.generator)
    recipe = Recipe(
        step=on_boards(CombOptNetStep(model, time_limit=VALIDATION_SOLVE_SECONDS), boards.train),
        optimiser=lambda module: torch.optim.Adam(module.parameters(), lr=5e-4),
        temperature=MilestoneTemperature(0.5, factor=0.5, epochs=()),
        schedule=Schedule(epochs=100, batch_size=8, goal=1.0),
        monitor="vector_accuracy",
    )
    return Learner(model, recipe, by_rules(model, job))


def perception(job: Job) -> LeNet | None:
    """The network that reads images for a rival; None for symbolic boards."""
    if job.boards.input == "symbolic":
        return None
    return LeNet(job.boards.boxes.size, generator=job.generator)


def rrn(job: Job) -> Learner:
    """The published settings, but for smaller batches and larger steps: there is time for few. The graph is given.

    On images weight decay is that of AdamW: with it in Adam's gradient a run never left the loss of a uniform guess.
    One with AdamW learnt and fell back to it; gradients are cut there, in the belief that a long one was the cause.
    """
    boxes = job.boards.boxes
    graph = board_neighbours(boxes.rows, boxes.columns)
    model = RRN(graph, boxes.size, perception=perception(job), generator=job.generator)
    optimiser = torch.optim.Adam if model.perception is None else torch.optim.AdamW
    recipe = Recipe(
        step=on_boards(RRNStep(model), job.boards.train),
        optimiser=lambda module: optimiser(module.parameters(), lr=1e-3, weight_decay=1e-4),
        temperature=MilestoneTemperature(1.0, factor=0.5, epochs=()),
        schedule=Schedule(epochs=1000, batch_size=8, goal=1.0, clip_norm=None if model.perception is None else 1.0),
        monitor="board_accuracy",
    )
    return Learner(model, recipe, predicted(model))


def satnet(job: Job) -> Learner:
    """The published settings for 9×9: 600 clauses and 300 auxiliary variables, in proportion at other sizes.

    The network that reads digits learns as fast as the layer: there is no time for the published 1e-5.
    """
    boxes = job.boards.boxes
    n = boxes.num_variables
    model = SATNet(
        n,
        clauses=max(600 * n // 729, 40),
        auxiliary=max(300 * n // 729, 20),
        digits=boxes.size,
        perception=perception(job),
        generator=job.generator,
    )
    recipe = Recipe(
        step=on_boards(SATNetStep(model), job.boards.train),
        optimiser=lambda module: torch.optim.Adam(module.parameters(), lr=2e-3),
        temperature=MilestoneTemperature(1.0, factor=0.5, epochs=()),
        schedule=Schedule(epochs=100, batch_size=40, goal=1.0),
        monitor="board_accuracy",
    )
    return Learner(model, recipe, predicted(model))


def neural(job: Job) -> Learner:
    """The network of ilploss and ilploss-plus, told all digits of the solution."""
    boards, k = job.boards, job.boards.boxes.size
    model = Reader(LeNet(k, generator=job.generator))
    step = RuleStep(VisualCost(model), torch.arange(k**3).view(-1, k))
    return Learner(model, reading_recipe(step, boards.train, monitor="variable_accuracy"), predicted(model))


LEARNERS: dict[str, Callable[[Job], Learner]] = {
    "ilploss": ilploss,
    "comboptnet": comboptnet,
    "rrn": rrn,
    "satnet": satnet,
    "neural": neural,
}
