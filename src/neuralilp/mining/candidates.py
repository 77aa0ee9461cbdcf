"""Rows to try, each as tight as the solutions allow: of pairs of variables, and sums along named axes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from neuralilp.distill.sentences import Axes

CLEARLY = 1e-3
"""A point is separated by a real row at this distance: nearer, the error of the row may decide."""


class Rows(NamedTuple):
    """a·z + b >= 0, in float64."""

    a: Float[Tensor, "row var"]
    b: Float[Tensor, " row"]

    @classmethod
    def none(cls, like: Float[Tensor, "example var"]) -> Rows:
        return cls(like.new_empty(0, like.shape[-1]), like.new_empty(0))

    @property
    def is_whole(self) -> Bool[Tensor, " row"]:
        """Which rows are in integers."""
        return (self.a == self.a.round()).all(-1)

    def separates(self, points: Float[Tensor, "point var"]) -> Bool[Tensor, "point row"]:
        """Which points violate which rows: by 1 or more in integers, and clearly where rows are real."""
        least = torch.where(self.is_whole, 0.5, CLEARLY * torch.linalg.vector_norm(self.a, dim=-1))
        return points @ self.a.mT + self.b < -least

    def take(self, which: Tensor) -> Rows:
        return Rows(self.a[which], self.b[which])

    @staticmethod
    def joined(*parts: Rows) -> Rows:
        return Rows(torch.cat([part.a for part in parts]), torch.cat([part.b for part in parts]))


def tight(a: Float[Tensor, "row var"], solutions: Float[Tensor, "example var"]) -> Rows:
    """With the offsets at which every row holds on all solutions, and on one of them just so."""
    return Rows(a, -(solutions @ a.mT).amin(0))


def pair_rows(solutions: Float[Tensor, "example var"]) -> Rows:
    """Of two variables between 0 and 1: not both, not neither, and not the one without the other; those that hold."""
    is_binary = ((solutions == 0) | (solutions == 1)).all(0) & (solutions != solutions[0]).any(0)
    place = is_binary.nonzero().flatten()
    y = solutions[:, place]
    both, neither = y.mT @ y == 0, (1 - y).mT @ (1 - y) == 0
    without = y.mT @ (1 - y) == 0  # [i, j]: i is never there without j
    upper = torch.ones_like(both).triu(1)
    off = ~torch.eye(len(place), dtype=torch.bool)
    parts = []
    for holds, signs in ((both & upper, (-1.0, -1.0)), (neither & upper, (1.0, 1.0)), (without & off, (-1.0, 1.0))):
        pairs = place[holds.nonzero()]
        a = solutions.new_zeros(len(pairs), solutions.shape[-1])
        a.scatter_(1, pairs, a.new_tensor(signs).expand(len(pairs), 2))
        parts.append(a)
    return tight(torch.cat(parts), solutions)


def slice_rows(solutions: Float[Tensor, "example var"], axes: Axes) -> Rows:
    """Sums over whole axes, the others at one place each: at most the most, at least the least that was seen."""
    sums = torch.stack(list(slices(axes, solutions)))
    return Rows.joined(tight(-sums, solutions), tight(sums, solutions))


def slices(axes: Axes, like: Tensor) -> Iterator[Tensor]:
    """Rows of ones over whole axes, the other axes at one place each."""
    number = torch.arange(like.shape[-1]).view(axes.sizes)
    for count in range(1, len(axes.sizes) + 1):
        for summed in itertools.combinations(range(len(axes.sizes)), count):
            kept = [axis for axis in range(len(axes.sizes)) if axis not in summed]
            for part in number.permute(*kept, *summed).reshape(-1, _product(axes.sizes, summed)):
                row = torch.zeros_like(like[0])
                row[part] = 1
                yield row


def _product(sizes: tuple[int, ...], axes: tuple[int, ...]) -> int:
    product = 1
    for axis in axes:
        product *= sizes[axis]
    return product
