"""Boards in, boards out, by a learnt program: what a person does with the rules once they are learnt."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Int8
from torch import Tensor

from neuralilp.errors import InputError
from neuralilp.model import NeuralILP
from neuralilp.solving import Status, solve
from neuralilp.tasks.sudoku.boards import Boxes, agrees, as_boards, digits_of, one_hot
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

    The program finds the board by its rules that keeps most givens. One that does not keep all of them is no answer:
    the quiz is infeasible, or has no solution yet when the time was up.
    """
    if model.num_variables != boxes.num_variables:
        raise InputError(
            f"model must have {boxes.num_variables} variables for boxes of {boxes}, got {model.num_variables}"
        )
    quizzes = as_boards(quizzes, boxes, "quizzes")
    solution = solve(model(one_hot(quizzes, boxes)), time_limit=time_limit)
    boards = digits_of(solution.z.float(), boxes)
    is_answer = agrees(boards, quizzes) & (boards > 0).flatten(1).all(1)
    status = tuple(
        each if keeps or not each.has_solution else WITHOUT_ALL_GIVENS[each]
        for each, keeps in zip(solution.status, is_answer.tolist(), strict=True)
    )
    return SolvedBoards(torch.where(is_answer[:, None, None], boards, 0), status)


WITHOUT_ALL_GIVENS = {Status.OPTIMAL: Status.INFEASIBLE, Status.FEASIBLE: Status.NO_SOLUTION}
