"""ILP-Loss as the paper writes it (Eqs. 4-9): every negative a dense point, every constraint a row of A z + b >= 0.

The plain formulation, differentiated by autograd: tests hold the pass of :class:`neuralilp.ILPLoss` to it, and
benchmarks compare with it.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from neuralilp.blocks import FAR, TOLERANCE
from neuralilp.program import IntegerProgram
from neuralilp.terms import LossTerms


def dense_terms(
    program: IntegerProgram,
    solution: Float[Tensor, "*batch var"],
    points: Float[Tensor, "*batch neg var"],
    temperature: float,
    positive_margin: float = 0.01,
    negative_margin: float = 0.01,
    with_diagnostics: bool = True,
    known_rows_compete: bool = True,
) -> LossTerms:
    """L₊, L₋ and L_o (Eqs. 6-8), means over the examples; the diagnostics are NaN where they are not wanted.

    ``known_rows_compete`` is that of :class:`neuralilp.ILPLoss`.
    """
    a, b, learned = dense_rows(program, solution)
    positive = covariance = a.new_zeros(())
    at_solution = ((a @ solution.unsqueeze(-1)).squeeze(-1) + b)[..., learned]
    if learned:
        positive = (positive_margin - at_solution).relu().mean()
        covariance = a[..., learned, :].mean(-2).square().mean()
    mask = dense_mask(program, solution, points)
    rows = slice(None) if known_rows_compete else [*learned, -1]
    d = points @ a[..., rows, :].mT + b[..., rows].unsqueeze(-2)
    w = assignment(d.detach(), temperature)
    each = (w * (negative_margin + d).relu()).sum(-1) * mask
    negative = (each.sum(-1) / mask.sum(-1).clamp(min=1)).mean()
    masked = separated = inside = a.new_full((), torch.nan)
    if with_diagnostics:
        used = mask.to(d.dtype)
        masked = 1 - used.mean()
        separated = 1 - (mask & ~(d.detach().amin(-1) < -TOLERANCE)).any(-1).to(d.dtype).mean()
        inside = (at_solution >= 0).all(-1).to(d.dtype).mean()
    return LossTerms(positive, negative, covariance, masked, separated, inside)


def dense_rows(
    program: IntegerProgram, solution: Float[Tensor, "*batch var"]
) -> tuple[Float[Tensor, "*batch constr var"], Float[Tensor, "*batch constr"], list[int]]:
    """Unit rows [a|b]: those of Eq. 2, then the cost row -c·z + c·y* >= 0 of Eq. 4; and which of them are learned."""
    a, b = program.explicit()
    batch, c = solution.shape[:-1], program.cost.expand(solution.shape).unsqueeze(-2)
    a = torch.cat([a.expand(*batch, -1, -1), -c], -2)
    b = torch.cat([b.clamp(max=FAR).expand(*batch, -1), (c * solution.unsqueeze(-2)).sum(-1)], -1)
    norm = a.norm(dim=-1)
    norm = torch.where(norm > 0, norm, 1)
    owner = [block.is_learned for block in program.blocks for _ in range(block.num_rows)]
    return a / norm.unsqueeze(-1), b / norm, [i for i, is_learned in enumerate(owner) if is_learned]


def dense_mask(
    program: IntegerProgram, solution: Float[Tensor, "*batch var"], points: Float[Tensor, "*batch neg var"]
) -> Bool[Tensor, "*batch neg"]:
    """Which negatives count: not y*, within the bounds and the known rows, and not worse in a known cost."""
    y = solution.unsqueeze(-2)
    lower, upper = program.bounds.lower.unsqueeze(-2), program.bounds.upper.unsqueeze(-2)
    mask = (points != y).any(-1) & ((points >= lower) & (points <= upper)).all(-1)
    for block in program.known:
        a, b = block.unit().explicit()
        mask = mask & (points @ a.mT + b.unsqueeze(-2) >= -TOLERANCE).all(-1)
    if not program.cost_is_learned:
        mask = mask & (((points - y) * program.cost.unsqueeze(-2)).sum(-1) <= 0)
    return mask


def assignment(d: Float[Tensor, "*batch neg constr"], temperature: float) -> Tensor:
    """w of Eq. 9, the softmin of the distances; at τ = 0 its limit, where the nearest rows share the weight."""
    if temperature > 0:
        return torch.softmax(-d / temperature, -1)
    nearest = (d == d.amin(-1, keepdim=True)).to(d.dtype)
    return nearest / nearest.sum(-1, keepdim=True)
