"""Learnt equalities -> few, sparse integer equalities that hold on all solutions."""

from __future__ import annotations

import dataclasses

import numpy as np

from neuralilp.distill.integers import IntArray, products
from neuralilp.distill.partitions import partition_rows
from neuralilp.distill.space import EXACT, FloatArray, LearntSpace, extend, svd, without
from neuralilp.distill.sparsest import echelon_rows, sparse_rows


@dataclasses.dataclass(frozen=True, eq=False)
class Equalities:
    """Integer rows a·z + b = 0, and what of the learnt space they do not span, as orthonormal real rows."""

    a: IntArray
    b: IntArray
    rest: FloatArray


def distill_equalities(space: LearntSpace, solutions: FloatArray, largest: int) -> Equalities:
    """Fixed variables, sets of which exactly one is 1, then sparse rows of any kind, then an echelon basis."""
    n = solutions.shape[1]
    rows = _fixed(space, solutions)
    basis = _span(rows, n)
    if len(basis) < space.rank:
        rows = np.concatenate([rows, partition_rows(space, solutions)])
        basis = _span(rows, n)
    if len(basis) < space.rank:
        rows = np.concatenate([rows, *(row[None] for row in sparse_rows(space, basis, solutions, largest))])
        basis = _span(rows, n)
    if len(basis) < space.rank:
        rows = np.concatenate([rows, *(row[None] for row in echelon_rows(space, basis, solutions))])
    rows, basis = _chosen(np.unique(rows, axis=0))
    b = -products(rows, solutions[:1])[0].astype(np.int64)
    return Equalities(rows, b, without(space.basis, basis))


def _fixed(space: LearntSpace, solutions: FloatArray) -> IntArray:
    """z_j = constant, where that was learnt."""
    eye = np.eye(solutions.shape[1], dtype=np.int64)
    return eye[(np.ptp(solutions, axis=0) == 0) & space.contains(eye.astype(np.float64))]


def _span(rows: IntArray, n: int) -> FloatArray:
    """An orthonormal basis of the space of the rows."""
    if not len(rows):
        return np.zeros((0, n))
    values, directions = svd(rows / np.linalg.norm(rows, axis=1)[:, None])
    return directions[values > EXACT * len(rows)]


def _chosen(rows: IntArray) -> tuple[IntArray, FloatArray]:
    """A basis of the sparsest rows, and of the others the sums of variables that are as sparse as one in it.

    Redundant sums make sentences complete and solvers fast. Other redundant rows do not: of ten equal variables, nine
    equalities say it all, and 45 hold.
    """
    support = (rows != 0).sum(1)
    order = sorted(range(len(rows)), key=lambda i: (support[i], np.abs(rows[i]).sum(), tuple(np.flatnonzero(rows[i]))))
    basis = np.zeros((0, rows.shape[1]))
    is_sum = ((rows == 0) | (rows == 1)).all(1)
    keep, redundant, most = [], [], 0
    for i in order:
        longer = extend(basis, rows[i].astype(np.float64))
        if len(longer) > len(basis):
            basis = longer
            keep.append(i)
            most = support[i] if is_sum[i] else most
        elif is_sum[i]:
            redundant.append(i)
    keep += [i for i in redundant if support[i] <= most]
    return rows[keep], basis
