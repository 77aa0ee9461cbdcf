"""What every method on sudoku is given, and how its answers are judged."""

from __future__ import annotations

import collections
import dataclasses
import math
import statistics
import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from neuralilp.metrics import variable_accuracy, vector_accuracy
from neuralilp.tasks.runs import Conditions, LookedUp
from neuralilp.tasks.sudoku.boards import Boxes, digits_of, one_hot
from neuralilp.tasks.sudoku.data import Puzzles, SudokuData
from neuralilp.tasks.sudoku.digits import Digits
from neuralilp.tasks.sudoku.jitter import Jittered
from neuralilp.tasks.sudoku.visual import draw_boards, images_of

Input = Literal["symbolic", "visual"]

VALIDATION_SOLVE_SECONDS, TEST_SOLVE_SECONDS = 1.0, 10.0
"""For one board: an answer that does not come is a wrong one."""

MONITOR = "board_accuracy"

AT_ONCE = 100
"""Boards whose images are held at once."""


class Answers(NamedTuple):
    """A method's answers to boards."""

    z: Float[Tensor, "board n"]
    statuses: dict[str, int]
    seconds: tuple[float, ...] = ()
    """For each board, where it was solved one by one."""


Answer = Callable[[Tensor], Answers]
"""x as the model takes it, `board ...`, -> answers."""


@dataclasses.dataclass(frozen=True, eq=False)
class Examples:
    """Boards to learn from or to be judged by."""

    x: Tensor
    """One-hot quizzes `board n`; for visual boards the numbers of the images, `board cell`."""
    solution: Float[Tensor, "board n"]
    table: Tensor | None = None
    """The images `image 28 28`; None for symbolic boards."""

    def __len__(self) -> int:
        return len(self.x)

    def first(self, count: int) -> Examples:
        return dataclasses.replace(self, x=self.x[:count], solution=self.solution[:count])

    def inputs(self, rows: slice = slice(None)) -> Tensor:
        """x as the model takes it: images are looked up."""
        return self.x[rows] if self.table is None else images_of(self.table, self.x[rows])


@dataclasses.dataclass(frozen=True, eq=False)
class Boards:
    """All boards of a run, as its model sees them."""

    boxes: Boxes
    input: Input
    train: Examples
    validation: Examples
    test: Examples
    facts: dict[str, Any]
    """For the record: where boards come from, and how many boards of the test have a solution, or all, in training."""

    @classmethod
    def of(cls, data: SudokuData, digits: Digits | None, seed: int, grids: int | None = None) -> Boards:
        """Symbolic boards; visual ones where there are ``digits``. Images of the test are never those of training.

        ``grids`` are the boards to learn from, where they are not to be as many as there are.
        """
        split, generator = data.split(train=grids), torch.Generator().manual_seed(seed)

        def examples(puzzles: Puzzles, is_test: bool) -> Examples:
            solution = one_hot(puzzles.solutions, data.boxes)
            if digits is None:
                return Examples(one_hot(puzzles.quizzes, data.boxes), solution)
            images, labels = (
                (digits.test_images, digits.test_labels) if is_test else (digits.train_images, digits.train_labels)
            )
            drawn = draw_boards(puzzles.quizzes, images, labels, generator)
            return Examples(drawn.image, solution, drawn.table)

        facts = {
            "boards": data.source,
            "train": len(split.train.quizzes),
            "test_solutions_seen": split.solutions_seen,
            "test_quizzes_seen": split.quizzes_seen,
        }
        return cls(
            boxes=data.boxes,
            input="symbolic" if digits is None else "visual",
            train=examples(split.train, False),
            validation=examples(split.validation, False),
            test=examples(split.test, True),
            facts=facts,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Job(Conditions):
    """Boards to learn the rules from, and for visual ones the reading of digits."""

    boards: Boards


def on_boards(step: nn.Module, examples: Examples) -> nn.Module:
    """The step as training calls it, with x of ``examples``."""
    return step if examples.table is None else LookedUp(Jittered(step), examples.table, images_of)


class Judgement(NamedTuple):
    figures: dict[str, float]
    statuses: dict[str, int]
    seconds: float | None
    """The median for one board."""


@torch.no_grad()
def judged(
    answer: Answer, examples: Examples, boxes: Boxes, budget: float = math.inf, *, is_sample: bool = True
) -> Judgement:
    """What a method's answers are worth; after ``budget`` seconds no further boards are looked at.

    Those are not judged if boards are a sample; else they count as not solved.
    """
    answers: list[Answers] = []
    began, tried = time.perf_counter(), 0
    while tried < len(examples) and time.perf_counter() - began < budget:
        size = AT_ONCE if math.isinf(budget) else 1 if is_sample else AT_ONCE // 10
        answers.append(answer(examples.inputs(slice(tried, tried + size))))
        tried += len(answers[-1].z)
    left = 0 if is_sample else len(examples) - tried
    if left:
        answers.append(
            Answers(examples.solution[tried:].new_full((left, boxes.num_variables), torch.nan), {"not_tried": left})
        )
    z = torch.cat([part.z for part in answers])
    solution = examples.solution[: len(z)]
    is_right = (digits_of(z.float(), boxes) == digits_of(solution, boxes)).flatten(1).all(1)
    figures = {
        MONITOR: is_right.double().mean().item(),
        "vector_accuracy": vector_accuracy(z, solution),
        "variable_accuracy": variable_accuracy(z, solution),
    }
    statuses = sum((collections.Counter(part.statuses) for part in answers), collections.Counter())
    seconds = [each for part in answers for each in part.seconds]
    return Judgement(figures, dict(statuses), statistics.median(seconds) if seconds else None)
