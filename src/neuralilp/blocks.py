"""What programs are made of: blocks of rows a·z + b >= 0 (or equalities with a slack), and the bounds of variables."""

from __future__ import annotations

import dataclasses

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from neuralilp.errors import InputError, ShapeError

FAR = 1e6
"""Stands in for the distance to an infinite bound: no weight in any softmin, and no NaN."""

TOLERANCE = 1e-5
"""A row counts as satisfied when its signed distance is at least ``-TOLERANCE`` (float32 resolution)."""


def broadcast(*shapes: torch.Size) -> torch.Size:
    """As ``torch.broadcast_shapes``, at a fraction of its price for the usual case of one shape and scalars."""
    distinct = {shape for shape in shapes if shape}
    if len(distinct) <= 1:
        return distinct.pop() if distinct else torch.Size()
    return torch.broadcast_shapes(*distinct)


def broadcasts(shape: torch.Size, batch_shape: torch.Size) -> bool:
    """Does ``batch_shape`` broadcast to ``shape`` as it is?"""
    try:
        return broadcast(shape, batch_shape) == shape
    except RuntimeError:
        return False


def row_norm(a: Float[Tensor, "*batch constr var"]) -> Float[Tensor, "*batch constr"]:
    """|a| of every row; a zero row counts as norm 1, so that its distance is b: finite, with a gradient."""
    norm = torch.linalg.vector_norm(a, dim=-1)
    return torch.where(norm > 0, norm, 1)


@dataclasses.dataclass(frozen=True, eq=False)
class ConstraintBlock:
    """Rows that share a kind: inequalities ``a·z + b >= 0``, or equalities ``|a·z + b| <= slack`` stored once.

    ``slack`` is None for inequalities. ``is_learned`` says whether ILP-Loss may move the rows.
    """

    a: Float[Tensor, "*#batch constr var"]
    b: Float[Tensor, "*#batch constr"]
    slack: Float[Tensor, "*#batch constr"] | None = None
    is_learned: bool = False
    is_unit: bool = False
    """Whoever made the block says that |a| = 1 (or 0) already."""

    def __post_init__(self) -> None:
        if self.a.ndim < 2:
            raise ShapeError(f"a must be `*batch constr var`, got shape {tuple(self.a.shape)}")
        for name, value in (("b", self.b), ("slack", self.slack)):
            if value is None:
                continue
            if value.ndim < 1 or value.shape[-1] != self.a.shape[-2]:
                raise ShapeError(
                    f"{name} must have one entry for each of the {self.a.shape[-2]} rows of a, "
                    f"got shape {tuple(value.shape)}"
                )
            if value.dtype != self.a.dtype:
                raise ShapeError(f"{name} must have the dtype of a, {self.a.dtype}, got {value.dtype}")

    @property
    def is_equality(self) -> bool:
        return self.slack is not None

    @property
    def num_rows(self) -> int:
        """Rows in the sense of Eq. 2, where an equality is two inequalities."""
        return self.a.shape[-2] * (2 if self.is_equality else 1)

    def batch_shape(self) -> torch.Size:
        shapes = [self.a.shape[:-2], self.b.shape[:-1]]
        if self.slack is not None:
            shapes.append(self.slack.shape[:-1])
        return broadcast(*shapes)

    def unit(self) -> ConstraintBlock:
        """The same rows with |a| = 1: then ``a·z + b`` is a Euclidean distance, and so is ``slack``."""
        if self.is_unit:
            return self
        norm = row_norm(self.a)
        slack = None if self.slack is None else self.slack / norm
        return ConstraintBlock(self.a / norm.unsqueeze(-1), self.b / norm, slack, self.is_learned, is_unit=True)

    def loosened(self, distance: float) -> ConstraintBlock:
        """Unit rows that also hold up to a distance outside of these."""
        unit = self.unit()
        if unit.slack is None:
            return dataclasses.replace(unit, b=unit.b + distance)
        return dataclasses.replace(unit, slack=unit.slack + distance)

    def double(self) -> ConstraintBlock:
        """The same rows in float64."""
        slack = None if self.slack is None else self.slack.double()
        return dataclasses.replace(self, a=self.a.double(), b=self.b.double(), slack=slack)

    def values(self, z: Float[Tensor, "*batch var"]) -> Float[Tensor, "*batch constr"]:
        """a·z + b for each row, before any slack; the batch dimensions broadcast."""
        if self.a.ndim == 2:
            return z @ self.a.mT + self.b
        return (self.a @ z.unsqueeze(-1)).squeeze(-1) + self.b

    def room(self, z: Float[Tensor, "*batch var"]) -> Float[Tensor, "*batch constr"]:
        """The signed distance of z from each row, the smaller of its two for an equality."""
        unit = self.unit()
        value = unit.values(z)
        return value if unit.slack is None else unit.slack - value.abs()

    def explicit(self) -> tuple[Tensor, Tensor]:
        """(A, b) of Eq. 2: an equality becomes ``a·z + b + slack >= 0`` and ``-a·z - b + slack >= 0``."""
        if self.slack is None:
            return self.a, self.b
        return torch.cat([self.a, -self.a], -2), torch.cat([self.b + self.slack, self.slack - self.b], -1)


@dataclasses.dataclass(frozen=True, eq=False)
class Bounds:
    """lower <= z <= upper for each variable; infinite where there is none. Bounds are not rows of A."""

    lower: Float[Tensor, "*batch var"]
    upper: Float[Tensor, "*batch var"]
    is_finite: bool = dataclasses.field(init=False)
    is_binary: bool = dataclasses.field(init=False)
    """Every variable has two integral values, symmetric in its bounds, as in [0, 1] or [-0.5, 1.5].

    Then the distances of an integral point to the bounds are the same multiset whichever point it is,
    which lets the loss treat all the bounds of an example as one constant.
    """

    def __post_init__(self) -> None:
        if self.lower.shape != self.upper.shape or self.lower.ndim < 1:
            raise ShapeError(
                f"lower and upper must have one shape `*batch var`, got {tuple(self.lower.shape)} "
                f"and {tuple(self.upper.shape)}"
            )
        if not self.lower.dtype == self.upper.dtype or not self.lower.is_floating_point():
            raise ShapeError(f"lower and upper must be floats of one dtype, got {self.lower.dtype}, {self.upper.dtype}")
        low, high = self.integral_lower, self.integral_upper
        bad = ~((low <= high) & (low < torch.inf) & (high > -torch.inf))
        if bool(bad.any()):
            where = tuple(bad.nonzero()[0].tolist())
            raise InputError(
                f"lower must not be above upper, with an integer between them: at {list(where)} "
                f"lower = {self.lower[where].item():g}, upper = {self.upper[where].item():g}"
            )
        object.__setattr__(self, "is_finite", bool((self.lower.isfinite() & self.upper.isfinite()).all()))
        two = self.integral_upper - self.integral_lower == 1
        symmetric = self.lower + self.upper == self.integral_lower + self.integral_upper
        object.__setattr__(self, "is_binary", bool((two & symmetric).all()))

    @property
    def integral_lower(self) -> Tensor:
        return self.lower.ceil()

    @property
    def integral_upper(self) -> Tensor:
        return self.upper.floor()

    def contain(self, z: Tensor) -> Bool[Tensor, ...]:
        """Elementwise: is z within its bounds? False for NaN."""
        return (z >= self.lower) & (z <= self.upper)
