"""Differences z - y*, one a row, and their products with A: what a k-hop neighbour costs instead of n columns.

A neighbour k hops from y* differs from it in at most k places, so a·z + b = (a·y* + b) + Σ step·a[place]: k columns of
A more than y*. ``torch.nn.functional.embedding_bag`` is that weighted sum, and its transpose is another one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """Rows a·z + b for a batch of examples: the columns of A, and a·y* + b at each solution, stacked for lookup.

    ``stacked`` holds A transposed, for one group of examples after the other where A differs between them (``group``
    says which an example uses; None: one for all), and after that one row an example.
    """

    stacked: Float[Tensor, "entry constr"]
    num_variables: int
    num_examples: int
    group: Int[Tensor, " example"] | None

    @property
    def columns(self) -> Float[Tensor, "place constr"]:
        return self.stacked[: -self.num_examples]

    @property
    def at_solution(self) -> Float[Tensor, "example constr"]:
        return self.stacked[-self.num_examples :]

    def replace(self, stacked: Tensor) -> Table:
        return dataclasses.replace(self, stacked=stacked)


@dataclasses.dataclass(frozen=True, eq=False)
class Differences:
    """Differences of many points from the solutions of their examples: the sparse ones first, then the dense ones.

    Row i belongs to the solution ``example[i]``. A sparse row moves by ``step`` at ``place``; a zero step is padding.
    """

    place: Int[Tensor, "sparse hop"]
    step: Float[Tensor, "sparse hop"]
    dense: Float[Tensor, "dense var"]
    example: Int[Tensor, " row"]

    @property
    def num_sparse(self) -> int:
        return self.place.shape[0]

    @property
    def num_rows(self) -> int:
        return self.example.shape[0]

    def select(self, rows: Bool[Tensor, " row"]) -> tuple[Differences, Int[Tensor, " kept"]]:
        """The rows marked, and their numbers. Asks the device how many there are."""
        index = rows.nonzero().squeeze(-1)
        example, k = self.example.index_select(0, index), self.num_sparse
        if not k:
            return Differences(self.place, self.step, self.dense.index_select(0, index), example), index
        sparse, dense = (part.nonzero().squeeze(-1) for part in (rows[:k], rows[k:]))
        place, step = self.place.index_select(0, sparse), self.step.index_select(0, sparse)
        return Differences(place, step, self.dense.index_select(0, dense), example), index

    def slabs(self, size: int) -> Iterator[tuple[slice, Differences]]:
        """Runs of at most ``size`` rows, all sparse or all dense."""
        k, total = self.num_sparse, self.num_rows
        for start, stop in ((0, k), (k, total)):
            for low in range(start, stop, size):
                high = min(low + size, stop)
                sparse = slice(low, high) if start == 0 and k else slice(0, 0)
                dense = slice(low - k, high - k) if start == k else slice(0, 0)
                rows = slice(low, high)
                yield rows, Differences(self.place[sparse], self.step[sparse], self.dense[dense], self.example[rows])

    def points(self, solution: Float[Tensor, "example var"]) -> Float[Tensor, "row var"]:
        """The points z themselves."""
        z = solution.index_select(0, self.example)
        k = self.num_sparse
        if k:
            z[:k].scatter_add_(1, self.place, self.step)
        z[k:] += self.dense
        return z

    def values(self, table: Table) -> Float[Tensor, "row constr"]:
        """a·z + b for every row and constraint; the rows must be all sparse or all dense."""
        if self.num_sparse:
            return SparseRows.of(self, table).product(table.stacked)
        base = table.at_solution.index_select(0, self.example)
        if table.group is None:
            return base.addmm_(self.dense, table.columns)
        columns = table.columns.view(-1, table.num_variables, base.shape[-1])[table.group[self.example]]
        return base.add_((self.dense.unsqueeze(-2) @ columns).squeeze(-2))

    def add_slopes(self, slope: Float[Tensor, "row constr"], to: Table) -> None:
        """Add the derivative for ``table.stacked`` to that of another table, from that for :meth:`values`."""
        if self.num_sparse:
            to.stacked.add_(SparseRows.of(self, to).transposed(to.stacked.shape[0]).product(slope))
            return
        to.at_solution.index_add_(0, self.example, slope)
        if to.group is None:
            to.columns.addmm_(self.dense.mT, slope)
            return
        columns = to.columns.view(-1, to.num_variables, slope.shape[-1])
        columns.index_add_(0, to.group[self.example], self.dense.unsqueeze(-1) * slope.unsqueeze(-2))


@dataclasses.dataclass(frozen=True, eq=False)
class SparseRows:
    """A sparse matrix by rows: the entries from ``offset[i]`` up to ``offset[i + 1]`` belong to row i."""

    place: Int[Tensor, " entry"]
    step: Float[Tensor, " entry"]
    offset: Int[Tensor, " row"]

    @classmethod
    def of(cls, rows: Differences, table: Table) -> SparseRows:
        """Each difference over the rows of the table: its solution once, then its places."""
        place, step, example = rows.place, rows.step, rows.example
        if table.group is not None:
            place = place + (table.group[example] * table.num_variables).unsqueeze(-1)
        solution = (example + (table.stacked.shape[0] - table.num_examples)).unsqueeze(-1)
        place = torch.cat([solution, place], -1)
        step = F.pad(step, (1, 0), value=1.0)
        if place.device.type != "cpu":  # how many entries there are is on the device: keep the padding
            offset = torch.arange(place.shape[0], device=place.device) * place.shape[-1]
            return cls(place.flatten(), step.flatten(), offset)
        used = step != 0
        count = used.sum(-1)
        return cls(place[used], step[used], count.cumsum(0) - count)

    def product(self, table: Float[Tensor, "place constr"]) -> Float[Tensor, "row constr"]:
        """Σ over the entries of a row of step · table[place]."""
        return F.embedding_bag(self.place, table, self.offset, per_sample_weights=self.step, mode="sum")

    def transposed(self, num_places: int) -> SparseRows:
        """The transpose: one row a place, whose entries are the rows of ``self`` that step there."""
        entry = torch.arange(self.place.numel(), device=self.place.device)
        row = torch.searchsorted(self.offset, entry, right=True) - 1
        place, by_place = self.place.sort()
        offset = torch.searchsorted(place, torch.arange(num_places, device=place.device))
        return SparseRows(row[by_place], self.step[by_place], offset)
