"""Sparse integer rows of any kind in a space, by linear programs; and an echelon basis as the last resort."""

from __future__ import annotations

import numpy as np
import torch

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.distill.integers import IntArray, hold_everywhere, lowest_terms, nearest_integers
from neuralilp.distill.space import EXACT, FloatArray, LearntSpace, echelon, extend, without
from neuralilp.program import IntegerProgram
from neuralilp.solving import solve

WORK = 1.5e6
"""Linear programs to solve, times the size n·r of each: 15 s or so of one core."""

RANDOM_ROUNDS = 3
"""Times that every variable is tried with random weights."""

LARGEST_DENOMINATOR = 1000
"""Of the coefficients of the last resort."""


class SparsestRow:
    """The linear program of the sparsest row: minimise Σ w_j |v_j| over v in the space with g·v = 1.

    A vertex of it is a row whose support contains that of no other row of the space. With v_j = 1 it is the sparsest
    through z_j, as far as the 1-norm tells; with g orthogonal to the rows known, it is none of their combinations.
    """

    def __init__(self, basis: FloatArray) -> None:
        self.n = basis.shape[1]
        self.columns = np.flatnonzero(np.square(basis).sum(0) > 1e-12)
        rows, pivots = echelon(basis[:, self.columns])
        self.others = np.setdiff1d(np.arange(len(self.columns)), pivots)
        depends = np.zeros((len(self.others), len(self.columns)))
        depends[:, pivots] = rows[:, self.others].T
        depends[np.arange(len(self.others)), self.others] = -1
        self.depends = depends

    def solve(self, g: FloatArray, weights: FloatArray) -> FloatArray | None:
        signed = np.concatenate([self.depends, g[None, self.columns]])
        a = torch.from_numpy(np.concatenate([signed, -signed], 1))
        b = torch.zeros(len(a), dtype=torch.float64)
        b[-1] = -1
        cost = torch.from_numpy(np.tile(weights[self.columns], 2))
        bounds = Bounds(torch.zeros_like(cost), torch.full_like(cost, torch.inf))
        program = IntegerProgram(cost, bounds, (ConstraintBlock(a, b, torch.zeros_like(b)),))
        z = solve(program, relax=True).z.numpy()
        row = np.zeros(self.n)
        row[self.columns] = z[: len(self.columns)] - z[len(self.columns) :]
        return row if np.isfinite(row).all() and np.abs(row).max() > EXACT else None


def sparse_rows(space: LearntSpace, known: FloatArray, solutions: FloatArray, largest: int) -> list[IntArray]:
    """Integer rows, coefficients up to ``largest``, that with the orthonormal ``known`` span the space if possible.

    Over the variables again and again: the sparsest row through each; the sparsest that is new; then random weights,
    which break ties and turn up rows that are as sparse, or have fewer terms for the same 1-norm.
    """
    search = SparsestRow(space.basis)
    generator = np.random.default_rng(0)
    left = max(4, int(WORK / (space.rank * space.basis.shape[1])))
    found: dict[bytes, IntArray] = {}
    n = space.basis.shape[1]
    rest = without(space.basis, known)
    wanted = _share(rest) > 1e-6
    for kind in ("through", "new", *["random"] * RANDOM_ROUNDS):
        untried = wanted.copy()
        while left > 0 and untried.any() and (kind != "new" or len(known) < space.rank):
            left -= 1
            share = _share(rest)
            j = int(np.where(untried, share + 1e-9, 0).argmax())
            untried[j] = False
            weights = generator.uniform(0.5, 1.5, size=(n,)) if kind == "random" else np.ones(n)
            is_new = kind == "new" and share[j] > 1e-6
            row = search.solve(rest.T @ rest[:, j] if is_new else np.eye(n)[j], weights)
            whole = None if row is None else verified(row, space, solutions, largest)
            if whole is not None and whole.tobytes() not in found:
                found[whole.tobytes()] = whole
                known = extend(known, whole.astype(np.float64))
                rest = without(space.basis, known)
                # Rows of one kind meet: where one was new, others through its variables may be as sparse.
                wanted |= whole != 0
    return list(found.values())


def echelon_rows(space: LearntSpace, known: FloatArray, solutions: FloatArray) -> list[IntArray]:
    """Rows of the reduced echelon form with rational coefficients that the orthonormal ``known`` lack."""
    found = []
    for row in echelon(space.basis)[0]:
        whole = verified(row, space, solutions, LARGEST_DENOMINATOR)
        if whole is not None and len(longer := extend(known, whole.astype(np.float64), _least(space))) > len(known):
            known = longer
            found.append(whole)
    return found


def verified(row: FloatArray, space: LearntSpace, solutions: FloatArray, largest: int) -> IntArray | None:
    """The row in small integers, if they lie in the space and hold exactly on every solution."""
    whole = nearest_integers(row, largest, 3 * space.angle)
    if whole is None:
        return None
    whole = lowest_terms(whole)
    good = hold_everywhere(whole[None], solutions) & space.contains(whole[None].astype(np.float64))
    return whole if good[0] else None


def _least(space: LearntSpace) -> float:
    return max(EXACT, 2 * space.angle)


def _share(basis: FloatArray) -> FloatArray:
    """How much of each variable lies in the space: the diagonal of its projector."""
    share: FloatArray = np.square(basis).sum(0)
    return share
