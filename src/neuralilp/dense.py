"""ILP-Loss as the paper writes it (Eqs. 5-9): every negative a dense point, every constraint a row of A z + b >= 0.

The plain formulation, differentiated by autograd: the oracle for :mod:`neuralilp.loss` and the other side of its
benchmarks. Use :class:`neuralilp.ILPLoss` to learn.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from neuralilp.program import IntegerProgram


def dense_mask(
    program: IntegerProgram, solution: Float[Tensor, "*batch var"], points: Float[Tensor, "*batch neg var"]
) -> Bool[Tensor, "*batch neg"]:
    """Which negatives count: not y*, within bounds and known rows, and not worse in a known cost."""
    y = solution.unsqueeze(-2)
    mask = (points != y).any(-1) & program.bounds.contain(points).all(-1)
    for block in program.known:
        a, b = block.unit().explicit()
        mask = mask & (points @ a.mT + b.unsqueeze(-2) >= -1e-5).all(-1)
    if not program.cost_is_learned:
        mask = mask & (((points - y) * program.cost.unsqueeze(-2)).sum(-1) <= 0)
    return mask


def dense_terms(
    program: IntegerProgram,
    solution: Float[Tensor, "*batch var"],
    points: Float[Tensor, "*batch neg var"],
    temperature: float,
    positive_margin: float = 0.01,
    negative_margin: float = 0.01,
) -> tuple[Tensor, Tensor, Tensor]:
    """The positive, negative and covariance terms, means over the batch."""
    learned = [block.explicit() for block in program.learned]
    num_learned = sum(a.shape[-2] for a, _ in learned)
    a, b = program.explicit()
    order = [i for i, block in enumerate(program.blocks) for _ in range(block.num_rows)]
    is_learned = torch.tensor([program.blocks[i].is_learned for i in order] + [False] * (a.shape[-2] - len(order)))
    # The cost as the (m+1)-th hyperplane: -c·z + c·y* >= 0 (Eq. 4).
    c = program.cost.expand(solution.shape).unsqueeze(-2)
    shape = solution.shape[:-1]
    a = torch.cat([a.expand(*shape, -1, -1), -c], -2)
    b = torch.cat([b.expand(*shape, -1), (c * solution.unsqueeze(-2)).sum(-1)], -1)
    norm = a.norm(dim=-1)
    norm = torch.where(norm == 0, 1, norm)
    a, b = a / norm.unsqueeze(-1), b / norm

    zero = a.new_zeros(())
    positive = covariance = zero
    if num_learned:
        d = (a @ solution.unsqueeze(-1)).squeeze(-1) + b
        positive = (positive_margin - d[..., :-1][..., is_learned]).relu().mean(-1).mean()
        covariance = a[..., :-1, :][..., is_learned, :].mean(-2).square().mean(-1).mean()

    mask = dense_mask(program, solution, points)
    d = points @ a.mT + b.unsqueeze(-2)
    if temperature > 0:
        w = torch.softmax(-d.detach() / temperature, -1)
    else:
        ties = (d == d.amin(-1, keepdim=True)).to(d.dtype)
        w = ties / ties.sum(-1, keepdim=True)
    each = (w * (negative_margin + d).relu()).sum(-1) * mask
    negative = (each.sum(-1) / mask.sum(-1).clamp(min=1)).mean()
    return positive, negative, covariance
