"""Float64 instances of a batch of programs, in the form that solvers take: lower <= A z <= upper, rows sparse."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from neuralilp.errors import InputError
from neuralilp.program import IntegerProgram

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]

FEASIBILITY_TOLERANCE = 1e-6
"""What solvers call feasible and integral; the check of an answer scales it by the row's size."""
LARGEST_TOLERANCE = 1e-3
"""Rows with huge coefficients must still tell neighbouring integer points apart."""


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """Sparse rows ``lower <= a·z <= upper``: row i has the entries ``starts[i]:starts[i + 1]``."""

    starts: IntArray
    columns: IntArray
    values: FloatArray
    lower: FloatArray
    upper: FloatArray
    scale: FloatArray
    """The power of two by which the row of the program was multiplied; see :func:`from_dense`."""
    tolerance: FloatArray
    """The violation up to which a rounded answer passes: 1e-6 · max(1, sum |a_j|), at most 1e-3."""
    row_of_entry: IntArray

    @staticmethod
    def from_dense(a: FloatArray, lower: FloatArray | None = None, upper: FloatArray | None = None) -> Rows:
        """Rows of a dense matrix; each is scaled so that its largest coefficient lies in [0.5, 2^24].

        Solvers take a row as satisfied within an absolute 1e-6. A learned row may be far smaller than
        that and still say something, so it is scaled up. Powers of two make the scaling exact.
        """
        mask = a != 0
        row_of_entry, columns = (index.astype(np.int32) for index in mask.nonzero())
        values = a[mask]
        m = len(a)
        starts = np.zeros(m + 1, dtype=np.int32)
        np.cumsum(mask.sum(1), out=starts[1:])
        size = np.abs(a).max(1, initial=0.0)
        scale = power_of_two(size, 0.5, 2.0**24)
        values = values * scale[row_of_entry]
        total = np.abs(a).sum(1) * scale
        tolerance = np.minimum(FEASIBILITY_TOLERANCE * np.maximum(1.0, total), LARGEST_TOLERANCE)
        none = np.full(m, np.inf)
        rows = Rows(starts, columns, values, -none, none, scale, tolerance, row_of_entry)
        return rows.bounded(-none if lower is None else lower, none if upper is None else upper)

    @staticmethod
    def concatenate(parts: Sequence[Rows]) -> Rows:
        if len(parts) == 1:
            return parts[0]
        entries = np.cumsum([0, *(len(part.columns) for part in parts)])
        counts = np.cumsum([0, *(part.num_rows for part in parts)])
        starts = [part.starts[:-1] + entries[i] for i, part in enumerate(parts)]
        return Rows(
            starts=np.concatenate([*starts, entries[-1:]]).astype(np.int32),
            columns=np.concatenate([part.columns for part in parts]),
            values=np.concatenate([part.values for part in parts]),
            lower=np.concatenate([part.lower for part in parts]),
            upper=np.concatenate([part.upper for part in parts]),
            scale=np.concatenate([part.scale for part in parts]),
            tolerance=np.concatenate([part.tolerance for part in parts]),
            row_of_entry=np.concatenate([part.row_of_entry + counts[i] for i, part in enumerate(parts)]).astype(
                np.int32
            ),
        )

    @property
    def num_rows(self) -> int:
        return len(self.starts) - 1

    def __iter__(self) -> Iterator[tuple[IntArray, FloatArray, float, float]]:
        """(columns, values, lower, upper) of each row."""
        for i in range(self.num_rows):
            entries = slice(self.starts[i], self.starts[i + 1])
            yield self.columns[entries], self.values[entries], float(self.lower[i]), float(self.upper[i])

    def bounded(self, lower: FloatArray, upper: FloatArray) -> Rows:
        """The same rows between other bounds, given in the units of the program."""
        return dataclasses.replace(self, lower=lower * self.scale, upper=upper * self.scale)

    def excess(self, z: FloatArray) -> FloatArray:
        """By how much each row is violated beyond its tolerance and float64 resolution; satisfied where <= 0."""
        terms = self.values * z[self.columns]
        activity, size = self._sum(terms), self._sum(np.abs(terms))
        return np.maximum(self.lower - activity, activity - self.upper) - self.tolerance - 1e-12 * size

    def _sum(self, terms: FloatArray) -> FloatArray:
        return np.bincount(self.row_of_entry, terms, minlength=self.num_rows).astype(np.float64)

    def without_empty(self) -> tuple[Rows, bool]:
        """Rows that have an entry, and whether those that have none hold (0 within the row's bounds)."""
        counts = np.diff(self.starts)
        keep = counts > 0
        if bool(keep.all()):
            return self, True
        holds = bool(((self.lower <= self.tolerance) & (self.upper >= -self.tolerance))[~keep].all())
        new_index = (np.cumsum(keep) - 1).astype(np.int32)
        return (
            Rows(
                starts=np.concatenate([[0], np.cumsum(counts[keep])]).astype(np.int32),
                columns=self.columns,
                values=self.values,
                lower=self.lower[keep],
                upper=self.upper[keep],
                scale=self.scale[keep],
                tolerance=self.tolerance[keep],
                row_of_entry=new_index[self.row_of_entry],
            ),
            holds,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Instance:
    """One program: minimise cost·z, rows, lower <= z <= upper, z[is_integer] integer; no empty rows.

    The bounds of integer variables are integral. ``cost`` is the program's times a power of two, for
    the same reason as rows are scaled: solvers ignore improvements below an absolute 1e-6.
    """

    cost: FloatArray
    lower: FloatArray
    upper: FloatArray
    is_integer: BoolArray
    rows: Rows
    empty_rows_hold: bool = True

    @property
    def num_variables(self) -> int:
        return len(self.cost)

    @property
    def is_mixed(self) -> bool:
        return bool(self.is_integer.any()) and not bool(self.is_integer.all())

    def fixed(self, z: FloatArray) -> Instance:
        """The linear program that is left when the integer variables take their values in z."""
        lower, upper = (np.where(self.is_integer, z, bound) for bound in (self.lower, self.upper))
        return dataclasses.replace(self, lower=lower, upper=upper, is_integer=np.zeros_like(self.is_integer))


class InstanceBatch:
    """The instances of a batch program; what is static in the batch is converted once and shared."""

    def __init__(self, program: IntegerProgram, *, relax: bool = False) -> None:
        n = program.num_variables
        self.shape = tuple(program.batch_shape)
        self.size = int(np.prod(self.shape))
        if relax:
            self.is_integer = np.zeros(n, dtype=bool)
        elif program.is_integer is None:
            self.is_integer = np.ones(n, dtype=bool)
        else:
            self.is_integer = program.is_integer.detach().cpu().numpy().astype(bool)
        self.cost = self._array("cost", program.cost, 1)
        self.lower = self._array("bounds.lower", program.bounds.lower, 1, infinite=-np.inf)
        self.upper = self._array("bounds.upper", program.bounds.upper, 1, infinite=np.inf)
        self._blocks: list[tuple[FloatArray, FloatArray, FloatArray | None, Rows | None]] = []
        for i, block in enumerate(program.blocks):
            a = self._array(f"blocks[{i}].a", block.a, 2)
            b = self._array(f"blocks[{i}].b", block.b, 1)
            slack = None if block.slack is None else self._array(f"blocks[{i}].slack", block.slack, 1)
            if slack is not None and bool((slack < 0).any()):
                raise InputError(f"blocks[{i}].slack must not be negative, got {slack.min():g}")
            is_static = block.a.shape[:-2].numel() == 1
            shared = Rows.from_dense(a[(0,) * len(self.shape)]) if is_static and self.size else None
            self._blocks.append((a, b, slack, shared))
        patterns = [shared for *_, shared in self._blocks if shared is not None]
        all_static = bool(patterns) and len(patterns) == len(self._blocks)
        self._shared = Rows.concatenate(patterns) if all_static else None

    def _array(self, name: str, tensor: Tensor, own: int, infinite: float | None = None) -> FloatArray:
        """A float64 view of the whole batch; broadcast dimensions take no memory."""
        array: FloatArray = tensor.detach().to("cpu", torch.float64).numpy()
        bad = ~np.isfinite(array) if infinite is None else ~(np.isfinite(array) | (array == infinite))
        if bool(bad.any()):
            *example, index = where = np.argwhere(bad)[0].tolist()
            if own == 2:
                index = [example.pop(), index]
            place = f"example {example[0] if len(example) == 1 else example}, " if example else ""
            raise InputError(f"{name} must be finite: {place}index {index} is {array[tuple(where)]}")
        return np.broadcast_to(array, (*self.shape, *array.shape[array.ndim - own :]))

    def __getitem__(self, index: int) -> Instance:
        """The instance at a position of the flattened batch."""
        at: tuple[Any, ...] = np.unravel_index(index, self.shape) if self.shape else ()
        lower, upper = self.lower[at], self.upper[at]
        lower = np.where(self.is_integer, np.ceil(lower), lower)
        upper = np.where(self.is_integer, np.floor(upper), upper)
        cost = self.cost[at]
        cost = cost * power_of_two(np.abs(cost).max(initial=0.0), 2.0**8, 2.0**24)
        rows, empty_rows_hold = self._rows(at).without_empty()
        return Instance(cost, lower, upper, self.is_integer, rows, empty_rows_hold)

    def _rows(self, at: tuple[Any, ...]) -> Rows:
        if not self._blocks:
            return Rows.from_dense(np.zeros((0, len(self.is_integer))))
        lower = [-b[at] if slack is None else -b[at] - slack[at] for _, b, slack, _ in self._blocks]
        upper = [
            np.full(b.shape[-1], np.inf) if slack is None else slack[at] - b[at] for _, b, slack, _ in self._blocks
        ]
        pattern = self._shared
        if pattern is None:
            parts = [shared if shared is not None else Rows.from_dense(a[at]) for a, _, _, shared in self._blocks]
            pattern = Rows.concatenate(parts)
        return pattern.bounded(np.concatenate(lower), np.concatenate(upper))


def power_of_two(size: Any, low: float, high: float) -> Any:
    """Elementwise: the power of two nearest to 1 that brings ``size`` into [low, high]; 1 where size is 0."""
    size = np.where(np.asarray(size) > 0, size, low)
    up = np.ceil(np.log2(np.maximum(low / size, 1.0)))
    down = np.floor(np.log2(np.minimum(high / size, 1.0)))
    return np.exp2(np.minimum(up, 40.0) + down)
