"""Boards in, boards out, by a learnt program: what a person does with the rules once they are learnt."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Int8
from torch import Tensor

from neuralilp.errors import InputError
from neuralilp.model import NeuralILP
from neuralilp.solving import Status, solve
from neuralilp.tasks.sudoku.boards import Boxes, agrees, as_boards, digits_of, is_solved, one_hot
from neuralilp.tasks.sudoku.job import TEST_SOLVE_SECONDS


class SolvedBoards(NamedTuple):
    boards: Int8[Tensor, "board row column"]
    """Blank all over where there is no answer."""
    status: tuple[Status, ...]


@torch.no_grad()
def solve_boards(
    model: NeuralILP, quizzes: Tensor, boxes: Boxes, *, time_limit: float = TEST_SOLVE_SECONDS
) -> SolvedBoards:
    """Fill the blanks (0) of quizzes `board row column` by a model of symbolic boards.

    The program finds the board by its rules that keeps most givens. If the best one loses some, the quiz is infeasible.
    A board is given back only if it keeps all of them and is a sudoku: where too little was learnt for that, or the
    time was up, there is no solution.
    """
    if model.num_variables != boxes.num_variables:
        raise InputError(
            f"model must have {boxes.num_variables} variables for boxes of {boxes}, got {model.num_variables}"
        )
    quizzes = as_boards(quizzes, boxes, "quizzes")
    solution = solve(model(one_hot(quizzes, boxes)), time_limit=time_limit)
    boards = digits_of(solution.z.float(), boxes)
    keeps = agrees(boards, quizzes)
    is_answer = keeps & is_solved(boards, boxes)
    status = tuple(map(_status, solution.status, keeps.tolist(), is_answer.tolist()))
    return SolvedBoards(torch.where(is_answer[:, None, None], boards, 0), status)


def _status(status: Status, keeps_givens: bool, is_answer: bool) -> Status:
    if is_answer or not status.has_solution:
        return status
    return Status.INFEASIBLE if status is Status.OPTIMAL and not keeps_givens else Status.NO_SOLUTION
