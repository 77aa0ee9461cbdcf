"""Rules in the place of the constraints that they were read from, and the comparison with true rules."""

from __future__ import annotations

import dataclasses
from typing import overload

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from neuralilp.blocks import ConstraintBlock
from neuralilp.constraints import KnownConstraints
from neuralilp.distill.rules import Distilled
from neuralilp.errors import InputError, ShapeError
from neuralilp.model import NeuralILP
from neuralilp.program import IntegerProgram
from neuralilp.solving import Status, solve


@overload
def with_rules(learnt: IntegerProgram, distilled: Distilled, *, keep_unexplained: bool = True) -> IntegerProgram: ...
@overload
def with_rules(learnt: NeuralILP, distilled: Distilled, *, keep_unexplained: bool = True) -> NeuralILP: ...
def with_rules(
    learnt: IntegerProgram | NeuralILP, distilled: Distilled, *, keep_unexplained: bool = True
) -> IntegerProgram | NeuralILP:
    """The program, or the model, with distilled rules instead of its learned constraints.

    Cost, box, encoder and known constraints stay, shared with ``learnt``. Without ``keep_unexplained`` only integer
    rules remain: what has no short form may be an accident of few examples.
    """
    n = distilled.equalities.a.shape[-1]
    if learnt.num_variables != n:
        raise ShapeError(f"learnt must have the {n} variables of distilled, got {learnt.num_variables}")
    blocks = distilled.blocks(keep_unexplained=keep_unexplained)
    if isinstance(learnt, IntegerProgram):
        like = learnt.cost
        replaced = dataclasses.replace(learnt, blocks=blocks).to(like.device, like.dtype)
        return dataclasses.replace(replaced, cost=like, bounds=learnt.bounds, blocks=(*learnt.known, *replaced.blocks))
    known = [module for module in learnt.constraints if isinstance(module, KnownConstraints)]
    rules = [
        KnownConstraints(block.a, block.b, slack=None if block.slack is None else block.slack.max().item())
        for block in blocks
    ]
    model = NeuralILP(learnt.cost, [*known, *rules], learnt.box, encoder=learnt.encoder)
    return model.to(learnt.box.lower.device).train(learnt.training)


@torch.no_grad()
def implied_rows(
    program: IntegerProgram, rows: ConstraintBlock, *, time_limit: float = 10.0
) -> Bool[Tensor, " constr"]:
    """Which of the inequalities hold at every integer point of a program, for comparison with true rules.

    Each is minimised over the program; one that is not settled within ``time_limit`` seconds counts as not implied.
    """
    if rows.is_equality:
        raise InputError("rows must be inequalities: give an equality as two of them")
    own = dataclasses.replace(program.to(torch.float64), cost=rows.a.double())
    answer = solve(own, time_limit=time_limit)
    is_settled = torch.tensor([status is Status.OPTIMAL for status in answer.status])
    return is_settled & (answer.objective + rows.b.double() > -1e-6)


@torch.no_grad()
def same_row_space(
    a1: Float[Tensor, "constr var"],
    b1: Float[Tensor, " constr"],
    a2: Float[Tensor, "other var"],
    b2: Float[Tensor, " other"],
    *,
    tolerance: float = 1e-6,
) -> bool:
    """Do two sets of equalities a·z + b = 0 say the same: have [a|b] the same row space?

    In float64; ``tolerance`` is the sine of the largest angle between the spaces that counts as none.
    """
    bases = []
    for name, a, b in (("a1 and b1", a1, b1), ("a2 and b2", a2, b2)):
        if a.ndim != 2 or b.shape != a.shape[:1] or a.shape[1] != a1.shape[-1]:
            raise ShapeError(
                f"{name} must be `constr var` and `constr` over the same variables, "
                f"got shapes {tuple(a.shape)} and {tuple(b.shape)}"
            )
        rows = torch.nn.functional.normalize(torch.cat([a, b.unsqueeze(-1)], -1).double(), dim=-1)
        _, values, directions = torch.linalg.svd(rows, full_matrices=False)
        bases.append(directions[values > tolerance * max(rows.shape)])
    one, other = bases
    if len(one) != len(other):
        return False
    outside = one - (one @ other.mT) @ other
    return not len(one) or bool(torch.linalg.matrix_norm(outside, 2) <= tolerance)
