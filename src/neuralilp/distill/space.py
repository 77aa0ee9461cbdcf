"""The space that learnt equalities span, cleaned by the solutions that they must hold on."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from numpy.typing import NDArray

from neuralilp.warmstart.affine_hull import affine_hull

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

EXACT = 1e-6
"""The sine of an angle below which a row lies in a space that is known but for rounding."""

LEAST = 2e-3
"""Singular values of unit rows below this say nothing, however small the noise."""


@dataclasses.dataclass(frozen=True, eq=False)
class LearntSpace:
    """Normals a of all equalities that were learnt and hold on the solutions; b = -a·origin."""

    basis: FloatArray
    """Orthonormal rows."""
    angle: float
    """The sine of the angle up to which a row counts as a member; it grows with the noise in the learnt rows."""
    origin: FloatArray
    """A solution."""
    dropped: int
    """Learnt rows that the solutions contradict."""
    slack: float
    """Half of the learnt slacks, as distances, are below this."""

    @property
    def rank(self) -> int:
        return len(self.basis)

    def contains(self, rows: FloatArray) -> BoolArray:
        """Which rows lie in the space."""
        return sines(rows, self.basis) <= self.angle


def learnt_space(
    a: FloatArray, b: FloatArray, slack: FloatArray, solutions: FloatArray, tolerance: float
) -> LearntSpace:
    """Project learnt unit rows on the affine hull of the solutions, and keep the directions above the noise.

    A row at a larger angle to the hull than ``tolerance`` (its sine), or further from the solutions than that and
    its slack, is dropped. What the others have outside of the hull is noise; noise of that size inside of it has
    singular values up to σ(√m + √k) for m rows in k dimensions, so smaller ones do not count as learnt.
    """
    origin = solutions[0]
    nothing = np.zeros((0, a.shape[1]))
    hull = affine_hull(torch.from_numpy(solutions)).a.numpy() if len(a) else nothing
    inside = a @ hull.T
    outside = np.linalg.norm(a - inside @ hull, axis=1)
    norm = np.linalg.norm(a, axis=1)
    off = np.abs(a @ solutions.mean(0) + b)
    keep = (norm > 0) & (outside <= tolerance) & (off <= slack + tolerance)
    m, (k, n) = int(keep.sum()), hull.shape
    if not m:
        return LearntSpace(nothing, EXACT, origin, len(a), 0.0)
    sigma = float(np.sqrt(np.square(outside[keep]).sum() / (m * max(n - k, 1))))
    noise = 1.2 * sigma * (np.sqrt(m) + np.sqrt(k))
    values, directions = svd(inside[keep])
    learnt = values > max(noise, LEAST)
    rank = int(learnt.sum())
    angle = EXACT if rank in (0, k) else float(np.clip(2 * noise / values[rank - 1], EXACT, tolerance))
    return LearntSpace(directions[learnt] @ hull, angle, origin, len(a) - m, float(np.median(slack[keep])))


def svd(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Singular values, falling, and right singular vectors as rows. By torch, whose threads the program controls."""
    _, values, directions = torch.linalg.svd(torch.from_numpy(matrix), full_matrices=False)
    return values.numpy(), directions.numpy()


def eigh(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues, rising, and eigenvectors as columns of a symmetric matrix."""
    values, vectors = torch.linalg.eigh(torch.from_numpy(matrix))
    return values.numpy(), vectors.numpy()


def sines(rows: FloatArray, basis: FloatArray) -> FloatArray:
    """Of the angle between each row and the space that orthonormal rows span; 0 for zero rows."""
    norm = np.linalg.norm(rows, axis=1)
    unit = rows / np.where(norm > 0, norm, 1)[:, None]
    sine: FloatArray = np.linalg.norm(unit - (unit @ basis.T) @ basis, axis=1)
    return sine


def extend(basis: FloatArray, row: FloatArray, least: float = EXACT) -> FloatArray:
    """The orthonormal basis with the direction of ``row`` added, unless its sine to it is below ``least``."""
    rest = row / np.linalg.norm(row)
    for _ in range(2):  # the second time for the digits lost in the first
        rest = rest - (rest @ basis.T) @ basis
    length = np.linalg.norm(rest)
    return basis if length <= least else np.concatenate([basis, (rest / length)[None]])


def without(basis: FloatArray, other: FloatArray) -> FloatArray:
    """Orthonormal rows for what of one space is orthogonal to another that lies in it, nearly at least."""
    values, directions = svd(basis - (basis @ other.T) @ other)
    return directions[values > 0.5]


def echelon(basis: FloatArray) -> tuple[FloatArray, NDArray[np.intp]]:
    """Reduced echelon form with the largest pivots, and its pivot columns: row i is 1 at pivot i, 0 at the others."""
    rows = basis.copy()
    pivots = np.zeros(len(rows), dtype=np.intp)
    for i in range(len(rows)):
        below = np.abs(rows[i:])
        at, pivots[i] = divmod(int(below.argmax()), below.shape[1])
        rows[[i, i + at]] = rows[[i + at, i]]
        rows[i] /= rows[i, pivots[i]]
        column = rows[:, pivots[i]].copy()
        column[i] = 0
        rows -= column[:, None] * rows[i]
    rows[np.abs(rows) < 1e-9] = 0
    return rows, pivots
