"""Rows Σ_{i∈S} z_i = 1 in a space: sets of variables of which exactly one is 1 in every solution."""

from __future__ import annotations

import numpy as np

from neuralilp.distill.integers import IntArray, hold_everywhere
from neuralilp.distill.space import FloatArray, LearntSpace, eigh

MOST_DIRECTIONS = 12
"""Larger local spaces are left alone: 2^11 combinations of their coordinates would be tried."""


def partition_rows(space: LearntSpace, solutions: FloatArray) -> IntArray:
    """All rows of the space that are 0 or 1 and sum to 1 in every solution, found variable by variable.

    Such a row through variable i has its other entries among the variables that are never 1 together with z_i. The
    rows of the space with their support there are few: a null space of a small matrix, of which a handful of
    coordinates determine the rest. Trying 0 and 1 for those finds every such row through i. The solutions only
    say where to look; that a row lies in the space decides.
    """
    n = solutions.shape[1]
    outside = np.eye(n) - space.basis.T @ space.basis
    involved = np.diag(outside) < 1 - 1e-9
    fixed = (np.ptp(solutions, axis=0) == 0) & (np.diag(outside) <= space.angle**2)
    binary = ((solutions == 0) | (solutions == 1)).all(0) & involved & ~fixed
    seen = solutions.astype(np.float32)
    apart = (seen.T @ seen == 0) & binary
    np.fill_diagonal(apart, False)
    found: set[bytes] = set()
    for i in np.flatnonzero(binary):
        near = np.append(i, np.flatnonzero(apart[i]))
        if len(near) - (n - space.rank) > MOST_DIRECTIONS:
            continue
        values, vectors = eigh(outside[np.ix_(near, near)])
        local = vectors.T[values <= max(space.angle**2, 1e-10)]
        if len(local) <= MOST_DIRECTIONS:
            for row in _zero_one(local):
                whole = np.zeros(n, dtype=np.int8)
                whole[near] = row
                found.add(whole.tobytes())
    rows = np.array([np.frombuffer(row, dtype=np.int8) for row in sorted(found)], dtype=np.int64).reshape(-1, n)
    return rows[hold_everywhere(rows, solutions) & space.contains(rows.astype(np.float64))]


def _zero_one(basis: FloatArray) -> FloatArray:
    """The vectors of a space, given by orthonormal rows, that are 1 at their first entry and 0 or 1 at all others."""
    rest, pivots = basis.copy(), [0]
    for _ in range(len(basis)):
        column = rest[:, pivots[-1]]
        length = np.linalg.norm(column)
        if length < 1e-3:
            return np.zeros((0, basis.shape[1]))
        rest = rest - np.outer(column, column @ rest) / length**2
        pivots.append(int(np.square(rest).sum(0).argmax()))
    free = len(basis) - 1
    if free < 0:
        return np.zeros((0, basis.shape[1]))
    choices = (np.arange(2**free)[:, None] >> np.arange(free)) & 1
    choices = np.concatenate([np.ones((2**free, 1)), choices], 1)
    vectors = choices @ np.linalg.solve(basis[:, pivots[:-1]], basis)
    near = vectors.round()
    good = (np.abs(vectors - near).max(1) < 0.1) & (near >= 0).all(1) & (near <= 1).all(1)
    return near[good]
