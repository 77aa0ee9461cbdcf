"""The likelihood of solutions under a noisy polyhedron: what ILP-Loss asks for, smooth, over all near neighbours.

Let a point z be inside hyperplane i with probability σ(d(z; [a_i|b_i])/τ), independently, over the m learned rows and
the cost row of Eq. 4. A solution y* should be inside the m rows, and every other integral point outside one of the
m + 1:

    L = -Σ_{i <= m} log σ(d_i(y*)/τ) - 1/n Σ_z log(1 - Π_{i <= m+1} σ(d_i(z)/τ))

with the sum over the neighbours z of y* within k hops. As τ falls, the second term approaches Eq. 7 with all the weight
on the row that separates z best. But the gradient is that of one function, through the choice between rows too, and at
a high temperature it does not choose yet: annealed slowly, it finds cost and constraints at once where both come from a
network and neither is known. No solver is called. Beyond the paper.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from neuralilp.blocks import row_norm
from neuralilp.errors import InputError
from neuralilp.model import NeuralILP
from neuralilp.negatives.neighbours import flip
from neuralilp.program import IntegerProgram

MOST_NEIGHBOURS = 2**16
"""Of one solution: all of them are held at once, for every example of a batch."""


class LikelihoodTerms(NamedTuple):
    """What there is to see of a batch; each is a mean over it."""

    positive: Float[Tensor, ""]
    """The first sum: y* inside the learned rows."""
    negative: Float[Tensor, ""]
    """The second: the neighbours outside."""
    separated: Float[Tensor, ""]
    """Share of the solutions none of whose neighbours is inside all hyperplanes."""
    inside: Float[Tensor, ""]
    """Share of the solutions that satisfy every learned row."""


class LikelihoodStep(nn.Module):
    """x, y* -> L and its terms, for models with binary variables and learned inequalities; nothing is drawn.

    ``hops`` is k: every point that differs from y* in at most so many places is a negative. Distances times √n are
    what the temperature is held against: then one flip moves them by about 1, however many variables there are.
    """

    moves: Float[Tensor, "neg var"]

    def __init__(self, model: NeuralILP, *, hops: int = 3) -> None:
        super().__init__()
        n = model.num_variables
        if hops < 1:
            raise InputError(f"hops must be positive, got {hops}")
        count = sum(math.comb(n, k) for k in range(1, hops + 1))
        if count > MOST_NEIGHBOURS:
            raise InputError(f"hops must leave at most {MOST_NEIGHBOURS} neighbours: {hops} of {n} give {count}")
        self.model = model
        self.register_buffer("moves", all_moves(n, hops), persistent=False)

    def forward(
        self,
        x: Any,
        solution: Float[Tensor, "*batch var"],
        *,
        temperature: float,
        generator: torch.Generator | None = None,
    ) -> tuple[Float[Tensor, ""], LikelihoodTerms]:
        if not temperature > 0:
            raise InputError(f"temperature must be positive, got {temperature}")
        program = self.model(x)
        program.check_solution(solution)
        at_solution, neighbours = distances(program, solution, self.moves)
        rate = math.sqrt(solution.shape[-1]) / temperature
        outside = log_one_minus_exp(functional.logsigmoid(rate * neighbours).sum(-2))
        negative = -outside.sum(-1).mean() / solution.shape[-1]
        positive = -functional.logsigmoid(rate * at_solution).sum(-1).mean()
        with torch.no_grad():
            separated = (neighbours.amin(-2) < 0).all(-1).to(solution.dtype).mean()
            inside = (at_solution >= 0).all(-1).to(solution.dtype).mean()
        return positive + negative, LikelihoodTerms(positive.detach(), negative.detach(), separated, inside)


def all_moves(n: int, hops: int) -> Float[Tensor, "neg var"]:
    """A row for every way to choose 1 to ``hops`` of n places, with ones there."""
    chosen = [each for k in range(1, min(hops, n) + 1) for each in itertools.combinations(range(n), k)]
    moves = torch.zeros(len(chosen), n)
    row = torch.tensor([i for i, places in enumerate(chosen) for _ in places])
    moves[row, torch.tensor(list(itertools.chain.from_iterable(chosen)))] = 1
    return moves


def distances(
    program: IntegerProgram, solution: Float[Tensor, "*batch var"], moves: Float[Tensor, "neg var"]
) -> tuple[Float[Tensor, "*batch constr"], Float[Tensor, "*batch row neg"]]:
    """Signed distances of y* from the learned rows, and of its neighbours from these and the cost row.

    A neighbour flips some places of y*, and its distances are those of y* plus what each flip adds: one matrix product.
    """
    if program.known or any(block.slack is not None for block in program.learned):
        raise InputError("model must have learned inequalities alone, got known rows or equalities")
    if not program.bounds.is_binary:
        raise InputError("model must have binary variables")
    a = torch.cat([block.a.expand(*solution.shape[:-1], *block.a.shape[-2:]) for block in program.learned], -2)
    b = torch.cat([block.b.expand(*solution.shape[:-1], block.b.shape[-1]) for block in program.learned], -1)
    norm, cost = row_norm(a), program.cost.expand_as(solution)
    at_solution = ((a @ solution.unsqueeze(-1)).squeeze(-1) + b) / norm
    rows = torch.cat([a / norm.unsqueeze(-1), -(cost / row_norm(cost.unsqueeze(-2))).unsqueeze(-2)], -2)
    change = (rows * flip(program.bounds, solution).unsqueeze(-2)) @ moves.mT
    return at_solution, functional.pad(at_solution, (0, 1)).unsqueeze(-1) + change


def log_one_minus_exp(x: Tensor) -> Tensor:
    """log(1 - eˣ) for x <= 0, finite at 0, accurate both near 0 and far below it."""
    x = x.clamp(max=-torch.finfo(x.dtype).tiny)
    near = x > -math.log(2)
    # Each side is kept away from where the other is used: its gradient there would be 0 · inf.
    return torch.where(
        near, torch.log(-torch.expm1(x.where(near, -1.0))), torch.log1p(-torch.exp(x.where(~near, -1.0)))
    )
