"""What distilling starts from, checked, in float64, with the variables in an order of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.distill.space import FloatArray
from neuralilp.errors import InputError, ShapeError
from neuralilp.warmstart.affine_hull import check_integral


@dataclasses.dataclass(frozen=True, eq=False)
class Evidence:
    """Unit rows, solutions, bounds and negatives.

    The variables are ordered by their values in the solutions alone, so that renaming variables renames the rules and
    changes nothing else, down to the last digit.
    """

    blocks: tuple[ConstraintBlock, ...]
    solutions: FloatArray
    bounds: Bounds
    negatives: FloatArray | None
    order: NDArray[np.intp]

    @classmethod
    def of(
        cls, blocks: Sequence[ConstraintBlock], solutions: Tensor, bounds: Bounds | None, negatives: Tensor | None
    ) -> Evidence:
        check_integral(solutions)
        y = solutions.detach().cpu().double().numpy()
        n = y.shape[1]
        if bounds is None:
            free = torch.full((n,), torch.inf, dtype=torch.float64)
            bounds = Bounds(-free, free)
        if bounds.lower.numel() != n:
            raise ShapeError(
                f"bounds must be those of all examples, with {n} variables, got shape {tuple(bounds.lower.shape)}"
            )
        for i, block in enumerate(blocks):
            _check_block(f"blocks[{i}]", block, n)
        order = np.argsort(_fingerprint(y), kind="stable")
        box = Bounds(*(bound.detach().cpu().double().reshape(n)[order] for bound in (bounds.lower, bounds.upper)))
        inside = box.contain(torch.from_numpy(y[:, order])).all(-1)
        if not bool(inside.all()):
            raise InputError(f"solutions must lie within the bounds: example {int((~inside).nonzero()[0])} does not")
        units = tuple(_unit(block, order) for block in blocks)
        return cls(units, np.ascontiguousarray(y[:, order]), box, _negatives(negatives, y, order), order)


def joined(blocks: Sequence[ConstraintBlock], n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """a, b and slack (0 for inequalities) of all rows of some blocks."""
    a, b, slack = np.zeros((0, n)), np.zeros(0), np.zeros(0)
    for block in blocks:
        a, b = np.concatenate([a, block.a.numpy()]), np.concatenate([b, block.b.numpy()])
        slack = np.concatenate([slack, np.zeros(len(block.b)) if block.slack is None else block.slack.numpy()])
    return a, b, slack


def renamed(block: ConstraintBlock, order: NDArray[np.intp], dtype: torch.dtype) -> ConstraintBlock:
    """The block over the variables in their own order again; rows by number of terms, then by place."""
    a = torch.empty_like(block.a)
    a[:, order] = block.a
    places = [tuple(row.nonzero().flatten().tolist()) for row in a]
    by_place = sorted(range(len(a)), key=lambda i: (len(places[i]), places[i], a[i].tolist()))
    slack = None if block.slack is None else block.slack[by_place].to(dtype)
    return ConstraintBlock(a[by_place].to(dtype), block.b[by_place].to(dtype), slack)


def _unit(block: ConstraintBlock, order: NDArray[np.intp]) -> ConstraintBlock:
    def flat(tensor: Tensor, *own: int) -> Tensor:
        return tensor.detach().cpu().double().expand(*block.batch_shape(), *own).reshape(own)

    m, n = block.a.shape[-2:]
    slack = None if block.slack is None else flat(block.slack, m)
    return ConstraintBlock(flat(block.a, m, n)[:, order].contiguous(), flat(block.b, m), slack).unit()


def _check_block(name: str, block: ConstraintBlock, n: int) -> None:
    if block.batch_shape().numel() != 1:
        raise ShapeError(
            f"{name} must hold the same rows for all examples, got the batch shape {tuple(block.batch_shape())}: "
            "rows that a network makes from x have no common rules"
        )
    if block.a.shape[-1] != n:
        raise ShapeError(f"{name}.a must have {n} variables as solutions has, got shape {tuple(block.a.shape)}")
    for part, value in (("a", block.a), ("b", block.b), ("slack", block.slack)):
        if value is not None and not bool(value.isfinite().all()):
            raise InputError(f"{name}.{part} must be finite: index {(~value.isfinite()).nonzero()[0].tolist()} is not")


def _negatives(negatives: Tensor | None, solutions: FloatArray, order: NDArray[np.intp]) -> FloatArray | None:
    """Without those that are solutions: no row that holds on the solutions can separate them."""
    if negatives is None:
        return None
    if negatives.ndim != 2 or negatives.shape[1] != solutions.shape[1]:
        raise ShapeError(
            f"negatives must be points `neg {solutions.shape[1]}` as solutions are, got shape {tuple(negatives.shape)}"
        )
    points = negatives.detach().cpu().double().numpy() + 0.0
    if not np.isfinite(points).all():
        raise InputError(f"negatives must be finite: point {int(np.argwhere(~np.isfinite(points))[0, 0])} is not")
    known = {row.tobytes() for row in solutions + 0.0}
    is_new = np.array([row.tobytes() not in known for row in points], dtype=bool)
    return np.ascontiguousarray(points[is_new][:, order])


def _fingerprint(solutions: FloatArray) -> NDArray[np.int64]:
    """A number for each variable that depends on its column alone: in integers, so to the last digit."""
    weights = np.random.default_rng(0).integers(-(2**62), 2**62, len(solutions))
    fingerprint: NDArray[np.int64] = weights @ solutions.astype(np.int64)
    return fingerprint
