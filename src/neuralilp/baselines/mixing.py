"""The mixing method (Wang et al. 2018): a low-rank semidefinite relaxation of MAXSAT by coordinate descent.

With a unit vector v_i a variable and a row of S a clause, minimise |S V|² = Σ_ij (SᵀS)_ij v_i·v_j over the free ones.
Both passes are Gauss-Seidel sweeps over the variables. They loop over variables and do the whole batch at once: vectors
are kept as `var batch rank`, so that those of a block of variables meet all others in one matrix product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK = 64
"""Variables that share a matrix product; the result does not depend on it. 32 to 128 are about equally fast."""


def mix(
    s: Float[Tensor, "clause var"],
    vectors: Float[Tensor, "var batch rank"],
    is_free: Bool[Tensor, "var batch"],
    *,
    sweeps: int = 40,
    tolerance: float = 1e-3,
    damping: float = 0.0,
) -> Float[Tensor, "var batch rank"]:
    """Unit vectors V that minimise |S V|²; those that are not free stay, the others start from ``vectors``.

    Free vectors are set in turn to the best for the present others: v_i = -g_i/|g_i| with g_i = Σ_{j≠i} (SᵀS)_ij v_j.
    That ends after ``sweeps`` over all, or when none moves any vector of the batch by more than ``tolerance`` in any
    coordinate. With a rank above √(2 var) local minima are global, but for exceptional S.

    Gradients, for S and for the vectors that are not free, are those of the minimiser, by the implicit function
    theorem; they are exact as far as V has converged. The linear system behind them is solved by the same kind of
    sweeps, with the same end; ``damping`` is added to its diagonal |g_i| in units of their mean, for V that has not.
    """
    return _Mixing.apply(s, vectors, is_free, sweeps, tolerance, damping)  # type: ignore[no-untyped-call]


class _Mixing(torch.autograd.Function):
    """S, V at the start -> V at the end."""

    @staticmethod
    def forward(
        ctx: Any, s: Tensor, start: Tensor, is_free: Tensor, sweeps: int, tolerance: float, damping: float
    ) -> Tensor:
        gram = _gram(s)
        is_free = (is_free & gram.any(-1, keepdim=True)).unsqueeze(-1)  # a variable in no clause stays
        v = start.clone(memory_format=torch.contiguous_format)
        free = is_free.unbind()

        def best(i: int, old: Tensor, pull: Tensor) -> Tensor:
            new = pull / torch.linalg.vector_norm(pull, dim=-1, keepdim=True).neg_()
            return torch.where(free[i], new, old)

        for _ in range(sweeps):
            if _sweep(v, gram, None, best) <= tolerance:
                break
        ctx.save_for_backward(s, v, is_free)
        ctx.sweeps, ctx.tolerance, ctx.damping = sweeps, tolerance, damping
        return v

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """From |g_i| v_i + g_i = 0: with P_i = 1 - v_i v_iᵀ, C = SᵀS but for its diagonal, and q the gradient,

        (|g_i| + P_i Σ_j C_ij) u_j = -P_i q_i on the free, then dL = Σ_ij u_i·(dC_ij v_j + C_ij dv_j).
        """
        s, v, is_free = ctx.saved_tensors
        gram = _gram(s)
        norm = torch.linalg.vector_norm(_times(gram, v), dim=-1, keepdim=True)
        norm += ctx.damping * norm[is_free].mean()
        scales, vectors = torch.where(is_free, -1 / norm, 0).unbind(), v.unbind()
        u = torch.zeros_like(v)

        def solved(i: int, old: Tensor, pull: Tensor) -> Tensor:
            along = (pull * vectors[i]).sum(-1, keepdim=True)
            return torch.addcmul(pull, vectors[i], along, value=-1).mul_(scales[i])

        for _ in range(ctx.sweeps):
            if _sweep(u, gram, gradient, solved) <= ctx.tolerance * u.abs().max():
                break
        products = u.flatten(1) @ v.flatten(1).T
        fixed = torch.where(is_free, 0, gradient + _times(gram, u))
        return s @ (products + products.T), fixed, None, None, None, None


def _sweep(
    x: Tensor, gram: Tensor, offset: Tensor | None, update: Callable[[int, Tensor, Tensor], Tensor]
) -> Float[Tensor, ""]:
    """x_i <- update(i, x_i, offset_i + Σ_j C_ij x_j) for each i in turn, in place; the largest change.

    What a block's variables are pulled by comes from one product with all the vectors before the block, and each
    change is passed on to the rest of the block at once: the same numbers as one variable after the other.
    """
    largest = x.new_zeros(())
    for start in range(0, len(x), BLOCK):
        block = slice(start, start + BLOCK)
        before = x[block].clone()
        pulls = _times(gram[block], x)
        if offset is not None:
            pulls += offset[block]
        flat, weights = pulls.flatten(1), gram[block, block]
        for i, (old, pull) in enumerate(zip(x[block].unbind(), pulls.unbind(), strict=True)):
            change = update(start + i, old, pull).sub_(old)
            old += change
            flat[i + 1 :].addr_(weights[i, i + 1 :], change.flatten())
        largest = torch.maximum(largest, (x[block] - before).abs().max())
    return largest


def _gram(s: Float[Tensor, "clause var"]) -> Float[Tensor, "var var"]:
    return (s.T @ s).fill_diagonal_(0)


def _times(gram: Tensor, x: Float[Tensor, "var batch rank"]) -> Float[Tensor, "rows batch rank"]:
    return (gram @ x.flatten(1)).unflatten(1, x.shape[1:])
