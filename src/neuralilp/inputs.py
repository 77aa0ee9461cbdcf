"""What people hand over, numpy, pandas or torch, as named columns of numbers that are checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from neuralilp.blocks import Bounds
from neuralilp.errors import InputError, ShapeError


def names_of(value: Any) -> list[str] | None:
    """The names of a data frame's columns; None where there are none."""
    columns = getattr(value, "columns", None)
    return None if columns is None else [str(name) for name in columns]


def as_array(value: Any, name: str) -> NDArray[np.float64]:
    """`example column` in float64, finite; an error names the row and the column."""
    names = names_of(value)
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers: {_where_not(value, names)}") from None
    if array.ndim != 2 or not array.size:
        raise ShapeError(f"{name} must be `example column` with at least one of each, got shape {array.shape}")
    if not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0].tolist()
        raise InputError(f"{name} must be finite: row {row}, column {_column(names, column)} is {array[row, column]}")
    return array


def check_whole(array: NDArray[np.float64], name: str, names: list[str] | None = None) -> None:
    """Raise unless all numbers are integers."""
    if not (array == np.round(array)).all():
        row, column = np.argwhere(array != np.round(array))[0].tolist()
        raise InputError(
            f"{name} must be integers: row {row}, column {_column(names, column)} is {array[row, column]:g}"
        )


def matched(value: Any, name: str, names: list[str] | None, n: int) -> NDArray[np.float64]:
    """A column for each of the n variables, by name where both have names."""
    array, own = as_array(value, name), names_of(value)
    if own is not None and names is not None and own != names:
        missing = [name for name in names if name not in own]
        if missing:
            raise InputError(f"{name} must have the columns of the variables: {missing[0]!r} is missing")
        array = array[:, [own.index(name) for name in names]]
    if array.shape[1] != n:
        raise ShapeError(f"{name} must have a column for each of the {n} variables, got {array.shape[1]}")
    return np.ascontiguousarray(array)


def bounds_of(bounds: Any, solutions: NDArray[np.float64], names: list[str]) -> Bounds:
    """The bounds that were given, which must hold on all solutions, or the least and the most that was seen.

    Variables that are 0 or 1 wherever they were seen have these bounds, even if they were always the same.
    """
    n = solutions.shape[1]
    if bounds is None:
        is_binary = ((solutions == 0) | (solutions == 1)).all(0)
        lower = np.where(is_binary, 0.0, solutions.min(0))
        upper = np.where(is_binary, 1.0, solutions.max(0))
    else:
        try:
            lower, upper = (np.broadcast_to(np.asarray(end, dtype=np.float64), (n,)) for end in bounds)
        except (TypeError, ValueError):
            raise InputError(
                f"bounds must be a pair (lower, upper) of numbers or of {n} numbers, got {bounds!r}"
            ) from None
    outside = (solutions < lower) | (solutions > upper)
    if outside.any():
        row, column = np.argwhere(outside)[0].tolist()
        raise InputError(
            f"bounds must hold on all solutions: row {row}, column {names[column]!r} is "
            f"{solutions[row, column]:g}, outside [{lower[column]:g}, {upper[column]:g}]"
        )
    return Bounds(torch.tensor(lower), torch.tensor(upper))


def held_back(count: int, share: float, seed: int) -> Tensor:
    """A random choice of the examples, True for so large a share of them."""
    if not 0 <= share < 1:
        raise InputError(f"held_out must be at least 0 and below 1, got {share}")
    chosen = torch.zeros(count, dtype=torch.bool)
    chosen[torch.randperm(count, generator=torch.Generator().manual_seed(seed))[: int(share * count)]] = True
    return chosen


def _column(names: list[str] | None, column: int) -> str:
    return str(column) if names is None else repr(names[column])


def _where_not(value: Any, names: list[str] | None) -> str:
    """The first entry that is no number."""
    rows = value.to_numpy().tolist() if hasattr(value, "to_numpy") else value
    try:
        for i, row in enumerate(rows):
            for j, entry in enumerate(row):
                try:
                    float(entry)
                except (TypeError, ValueError):
                    return f"row {i}, column {_column(names, j)} is {entry!r}"
    except TypeError:
        pass
    return f"got {type(value).__name__}"
