"""Valid rows that are added to a live model only when an answer violates them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from neuralilp.errors import InputError, ShapeError
from neuralilp.solving.instance import FloatArray, Rows


class CutPool:
    """Rows ``a·z + b >= 0``, known to hold at every solution, of which a solve adds only those it violates.

    At most ``max_rows`` are added between two solves, the most violated first (by Euclidean distance).
    """

    def __init__(self, a: Tensor | FloatArray, b: Tensor | FloatArray, *, max_rows: int | None = 20) -> None:
        self.a, self.b = as_rows("cuts", a, b)
        if max_rows is not None and max_rows < 1:
            raise InputError(f"max_rows must be at least 1, got {max_rows}")
        self.max_rows = max_rows
        norm = np.linalg.norm(self.a, axis=1)
        self._norm = np.where(norm > 0, norm, 1.0)
        rows = Rows.from_dense(self.a)
        self._tolerance = rows.tolerance / rows.scale

    def __len__(self) -> int:
        return len(self.b)

    def __call__(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The most violated rows at z, at most ``max_rows`` of them."""
        value = self.a @ z + self.b
        violated = np.flatnonzero(value < -self._tolerance)
        distance = value[violated] / self._norm[violated]
        chosen = violated[np.argsort(distance, kind="stable")[: self.max_rows]]
        return self.a[chosen], self.b[chosen]


Cuts: TypeAlias = Callable[[FloatArray], tuple[Any, Any]]
"""``z -> (a_rows, b_rows)``: rows ``a·z + b >= 0`` that z violates, none when there are none. A CutPool is one."""


def violated_rows(cuts: Cuts, z: FloatArray) -> Rows:
    """The rows that ``cuts`` returns for z and that z violates beyond their tolerance."""
    a, b = as_rows("the rows that cuts returns", *cuts(z.copy()), num_variables=len(z))
    rows = Rows.from_dense(a, lower=-b)
    keep = rows.excess(z) > 0
    return rows if bool(keep.all()) else Rows.from_dense(a[keep], lower=-b[keep])


def as_rows(name: str, a: Any, b: Any, num_variables: int | None = None) -> tuple[FloatArray, FloatArray]:
    """Float64 copies of rows, checked."""
    a, b = (np.array(x.detach().cpu().numpy() if isinstance(x, Tensor) else x, dtype=np.float64) for x in (a, b))
    if a.size == 0 and b.size == 0 and num_variables is not None:
        return np.zeros((0, num_variables)), np.zeros(0)
    if a.ndim != 2 or b.shape != a.shape[:1] or (num_variables is not None and a.shape[1] != num_variables):
        expected = "var" if num_variables is None else str(num_variables)
        raise ShapeError(f"{name} must be a `rows {expected}` and b `rows`, got shapes {a.shape} and {b.shape}")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise InputError(f"{name} must be finite, got NaN or infinity")
    return a, b
