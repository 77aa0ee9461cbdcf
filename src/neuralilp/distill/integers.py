"""Rows of small integers, and exact arithmetic with them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from neuralilp.distill.space import BoolArray, FloatArray

IntArray = NDArray[np.int64]


def products(rows: IntArray, points: FloatArray) -> FloatArray:
    """rows · points, `point row`: exact for integral points, in float32 where that is enough."""
    largest = float(np.abs(rows).sum(1).max(initial=0)) * float(np.abs(points).max(initial=0))
    kind = np.float32 if largest < 2**24 else np.float64
    return (points.astype(kind) @ rows.T.astype(kind)).astype(np.float64)


def lowest_terms(row: IntArray) -> IntArray:
    """Divided by the greatest common divisor, and with a positive sum or, where that is 0, first entry."""
    row = row // max(int(np.gcd.reduce(row)), 1)
    sign = row.sum() or row[np.flatnonzero(row)[:1]].sum()
    return -row if sign < 0 else row


def nearest_integers(row: FloatArray, largest: int, tolerance: float) -> IntArray | None:
    """The smallest integers proportional to ``row``, none above ``largest``, if there are any.

    ``tolerance`` is the error of a row whose largest entry is 1; it grows with the scale.
    """
    scale = np.arange(1, largest + 1)
    scaled = np.outer(scale, row / np.abs(row).max())
    fits = np.abs(scaled - scaled.round()).max(1) <= np.minimum(tolerance * scale, 0.2)
    return scaled[int(fits.argmax())].round().astype(np.int64) if fits.any() else None


def hold_everywhere(rows: IntArray, solutions: FloatArray) -> BoolArray:
    """Which rows have the same product with every solution."""
    value = products(rows, solutions)
    constant: BoolArray = (value == value[:1]).all(0)
    return constant
