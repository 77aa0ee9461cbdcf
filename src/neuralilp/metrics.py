"""How good answers are, as fractions between 0 and 1. An unsolved example (NaN) counts as wrong everywhere."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from neuralilp.blocks import TOLERANCE
from neuralilp.errors import InputError, ShapeError
from neuralilp.program import IntegerProgram


def vector_accuracy(z: Float[Tensor, "*batch var"], target: Float[Tensor, "*batch var"]) -> float:
    """The share of examples whose every variable is right."""
    return _share(_is_right(z, target).all(-1))


def variable_accuracy(z: Float[Tensor, "*batch var"], target: Float[Tensor, "*batch var"]) -> float:
    """The share of variables, over all examples, that are right."""
    return _share(_is_right(z, target))


def feasibility(program: IntegerProgram, z: Float[Tensor, "*batch var"]) -> float:
    """The share of answers that satisfy ``program`` (the true one, say), each within a distance of 1e-5."""
    if not z.numel():
        raise InputError(f"z must hold at least one example, got shape {tuple(z.shape)}")
    return _share(program.detach().to(torch.float64).is_feasible(z.detach().to(program.cost.device, torch.float64)))


def cost_gap(
    cost: Float[Tensor, "*#batch var"], z: Float[Tensor, "*batch var"], target: Float[Tensor, "*batch var"]
) -> float:
    """The mean of (c·z - c·y*) / |c·y*|, each clipped to [0, 1].

    An answer that costs less than the target, as only one that breaks a true constraint can, has gap 0:
    read this beside :func:`feasibility`. Where c·y* is 0, the gap is 0 or 1.
    """
    _check(z, target)
    c, z, target = (tensor.detach().to(target.device, torch.float64) for tensor in (cost, z, target))
    if c.ndim < 1 or c.shape[-1] != z.shape[-1] or not _expands(c, z):
        raise ShapeError(f"cost must broadcast to the shape {tuple(z.shape)} of z, got {tuple(c.shape)}")
    best = (c * target).sum(-1)
    excess = (c * z).sum(-1) - best
    # Sums of float32 costs are equal only within their resolution.
    excess = torch.where(excess.abs() <= 1e-7 * (c * target).abs().sum(-1), 0.0, excess)
    gap = torch.where(excess > 0, excess / best.abs(), torch.zeros_like(excess))
    gap = torch.where(excess.isnan(), 1.0, gap)
    return gap.clamp(0.0, 1.0).mean().item()


def _is_right(z: Tensor, target: Tensor) -> Tensor:
    _check(z, target)
    return (z.detach().to(target.device, torch.float64) - target.detach().double()).abs() <= TOLERANCE


def _check(z: Tensor, target: Tensor) -> None:
    if z.shape != target.shape or z.ndim < 1:
        raise ShapeError(
            f"z and target must have one shape `*batch var`, got {tuple(z.shape)} and {tuple(target.shape)}"
        )
    if not target.numel():
        raise InputError(f"target must hold at least one example, got shape {tuple(target.shape)}")
    if not bool(target.isfinite().all()):
        raise InputError("target must be finite, got NaN or infinity")


def _expands(cost: Tensor, z: Tensor) -> bool:
    try:
        return cost.expand_as(z).shape == z.shape
    except RuntimeError:
        return False


def _share(right: Tensor) -> float:
    return right.double().mean().item()
