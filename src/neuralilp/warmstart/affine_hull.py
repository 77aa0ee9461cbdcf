"""The equalities that hold on all given solutions: the smallest affine space around them; beyond the paper."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from neuralilp.errors import InputError, ShapeError

EXACT_IN_FLOAT32 = 2.0**24
"""Sums of integers up to here are exact in float32, whatever their order."""

PROBES = 8
"""Random combinations of the equalities on which they are checked: an error in any shows in each."""


class AffineHull(NamedTuple):
    """All a·z + b = 0 that hold on the solutions, the rows a orthonormal; float64."""

    a: Float[Tensor, "constr var"]
    b: Float[Tensor, " constr"]
    dimension: int
    """Of the hull itself: the number of variables less the number of independent equalities."""
    is_settled: bool
    """Half of the examples have the same hull. Where not, more examples would likely leave fewer equalities."""

    @property
    def rank(self) -> int:
        """How many independent equalities there are."""
        return len(self.a)


@torch.no_grad()
def affine_hull(solutions: Float[Tensor, "example var"], *, tolerance: float = 1e-9) -> AffineHull:
    """All equalities that hold on integral solutions: the null space of [Y 1].

    With D = Y - y_0 that is a ∈ null(D), b = -a·y_0. The Gram matrix DᵀD is exact, as D is integral, and its
    eigenvalues below ``tolerance`` times the largest count as zero: rounding leaves zeros at about 1e-14, and other
    eigenvalues of integral data, columns scaled to one size, are seldom below 1e-6. Where one lies in between,
    or the equalities found do not hold on the data, the singular values of D decide, which have twice the digits.

    Every other example gives a hull first; if the rest lies in it, that is the answer and ``is_settled``.
    At least ``dimension`` + 1 examples are needed, in practice little more.
    """
    check_integral(solutions)
    if not 0 < tolerance < 1:
        raise InputError(f"tolerance must lie between 0 and 1, got {tolerance}")
    origin = solutions[0].double()
    exact = solutions if solutions.abs().amax() < EXACT_IN_FLOAT32 / 2 else solutions.double()
    difference = exact - exact[0]
    size = difference.abs().amax(0).double()
    # Powers of two: scaling by them is exact.
    scale = torch.where(size > 0, torch.exp2(-size.clamp(min=1).log2().ceil()), 1.0)
    half = difference[::2]
    a = _null_space(half, scale, tolerance)
    is_settled = a.shape[1] - len(a) < len(half) - 1 and _hold(a, difference[1::2], scale)
    if not is_settled:
        a = _null_space(difference, scale, tolerance)
    return AffineHull(a, -(a @ origin), a.shape[1] - len(a), is_settled)


def _null_space(difference: Tensor, scale: Tensor, tolerance: float) -> Tensor:
    """Orthonormal a with D a = 0."""
    largest = float(difference.abs().max())
    is_small = largest * largest * len(difference) < EXACT_IN_FLOAT32
    exact = difference.to(torch.float32 if is_small else torch.float64)
    values, vectors = torch.linalg.eigh((exact.mT @ exact).double() * scale * scale.unsqueeze(-1))
    share = values / values[-1].clamp(min=torch.finfo(values.dtype).tiny)
    doubtful = (share.abs() > tolerance * 1e-3) & (share < tolerance * 1e3)
    a = _orthonormal(vectors.mT[share <= tolerance], scale)
    if not doubtful.any() and _hold(a, difference, scale):
        return a
    _, values, rows = torch.linalg.svd(difference.double() * scale, full_matrices=True)
    rank = int((values > values[0] * tolerance * 1e-3).sum())
    return _orthonormal(rows[rank:], scale)


def _orthonormal(scaled: Tensor, scale: Tensor) -> Tensor:
    """Rows a of norm 1 from null vectors of the data with scaled columns."""
    if bool((scale == scale[0]).all()):
        return scaled
    return torch.linalg.qr((scaled * scale).mT).Q.mT.contiguous()


def _hold(a: Tensor, difference: Tensor, scale: Tensor) -> bool:
    """Do all examples satisfy the equalities, as far as rounding lets them?"""
    if not len(a) or not len(difference):
        return True
    generator = torch.Generator().manual_seed(0)
    mix = torch.randn(PROBES, len(a), generator=generator, dtype=a.dtype).to(a.device)
    probe = torch.nn.functional.normalize((mix @ a) / scale, dim=-1)
    return bool(((difference.double() * scale) @ probe.mT).abs().amax() < 1e-9)


def check_integral(solutions: Tensor) -> None:
    """Raise unless ``solutions`` are integral points `example var`, at least one."""
    if solutions.ndim != 2 or not solutions.is_floating_point():
        raise ShapeError(
            f"solutions must be floats `example var`, got {solutions.dtype} of shape {tuple(solutions.shape)}"
        )
    if 0 in solutions.shape:
        raise InputError(
            f"solutions must have at least one example and one variable, got shape {tuple(solutions.shape)}"
        )
    bad = ~(solutions - solutions.round() == 0)
    if bool(bad.any()):
        example, variable = bad.nonzero()[0].tolist()
        value = solutions[example, variable].item()
        raise InputError(f"solutions must be integral: example {example} has z[{variable}] = {value:g}")
