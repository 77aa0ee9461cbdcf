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


def sizes_are_free(tensor: Tensor) -> bool:
    """May shapes depend on values here? Not on a device, which would have to be asked, nor while compiling."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """Rows a·z + b for a batch of examples: the columns of A, and a·y* + b at each solution, stacked for lookup.

    ``stacked`` holds A transposed, for one group of examples after the other where A differs between them (``group``
    says which an example uses; None: one for all), and after that one row an example. ``is_even`` says that examples
    lie group after group, as many in each.
    """

    stacked: Float[Tensor, "entry constr"]
    num_variables: int
    num_examples: int
    group: Int[Tensor, " example"] | None
    is_even: bool = False

    @property
    def columns(self) -> Float[Tensor, "place constr"]:
        return self.stacked[: -self.num_examples]

    @property
    def at_solution(self) -> Float[Tensor, "example constr"]:
        return self.stacked[-self.num_examples :]

    def columns_by_group(self) -> Float[Tensor, "group var constr"]:
        return self.columns.view(-1, self.num_variables, self.stacked.shape[-1])

    def replace(self, stacked: Tensor) -> Table:
        return dataclasses.replace(self, stacked=stacked)


@dataclasses.dataclass(frozen=True, eq=False)
class Differences:
    """Differences of many points from the solutions of their examples: the sparse ones first, then the dense ones.

    Row i belongs to the solution ``example[i]``. A sparse row moves by ``step`` at ``place``; a zero step is padding.
    ``is_even`` says that the dense ones lie example after example, as many for each.
    """

    place: Int[Tensor, "sparse hop"]
    step: Float[Tensor, "sparse hop"]
    dense: Float[Tensor, "dense var"]
    example: Int[Tensor, " row"]
    is_even: bool = False

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

    def slabs(self, table: Table, size: int) -> Iterator[tuple[slice, SparseRows | DenseRows]]:
        """Runs of at most ``size`` rows, ready for products with the table."""
        k, total = self.num_sparse, self.num_rows
        for low in range(0, k, size):
            rows = slice(low, min(low + size, k))
            yield rows, SparseRows.of(self.place[rows], self.step[rows], self.example[rows], table)
        for low in range(k, total, size):
            rows = slice(low, min(low + size, total))
            is_even = table.is_even and self.is_even and rows == slice(k, total)
            yield rows, DenseRows(self.dense[low - k : rows.stop - k], self.example[rows], is_even)

    def points(self, solution: Float[Tensor, "example var"]) -> Float[Tensor, "row var"]:
        """The points z themselves."""
        z = solution.index_select(0, self.example)
        k = self.num_sparse
        if k:
            z[:k].scatter_add_(1, self.place, self.step)
        z[k:] += self.dense
        return z


@dataclasses.dataclass(frozen=True, eq=False)
class DenseRows:
    """Dense differences, for plain matrix products: one for all, or for each group where they come evenly."""

    dense: Float[Tensor, "row var"]
    example: Int[Tensor, " row"]
    is_even: bool

    def values(self, table: Table) -> Float[Tensor, "row constr"]:
        """a·z + b for every row and constraint."""
        base = table.at_solution.index_select(0, self.example)
        if table.group is None:
            return base.addmm_(self.dense, table.columns)
        columns = table.columns_by_group()
        if self.is_even:
            groups = len(columns)
            base.view(groups, -1, base.shape[-1]).baddbmm_(self.dense.unflatten(0, (groups, -1)), columns)
            return base
        return base.add_((self.dense.unsqueeze(-2) @ columns[table.group[self.example]]).squeeze(-2))

    def add_slopes(self, slope: Float[Tensor, "row constr"], to: Table) -> None:
        """Add the derivative for a table, from that for its :meth:`values`."""
        to.at_solution.index_add_(0, self.example, slope)
        if to.group is None:
            to.columns.addmm_(self.dense.mT, slope)
            return
        columns = to.columns_by_group()
        if self.is_even:
            groups = len(columns)
            columns.baddbmm_(self.dense.unflatten(0, (groups, -1)).mT, slope.unflatten(0, (groups, -1)))
            return
        columns.index_add_(0, to.group[self.example], self.dense.unsqueeze(-1) * slope.unsqueeze(-2))


@dataclasses.dataclass(frozen=True, eq=False)
class SparseRows:
    """Sparse differences over the rows of a table: its solution once, then its places, with ``count`` entries a row."""

    entry: Int[Tensor, " entry"]
    step: Float[Tensor, " entry"]
    count: Int[Tensor, " row"]

    @classmethod
    def of(cls, place: Tensor, step: Tensor, example: Tensor, table: Table) -> SparseRows:
        if table.group is not None:
            place = place + (table.group[example] * table.num_variables).unsqueeze(-1)
        solution = (example + (table.stacked.shape[0] - table.num_examples)).unsqueeze(-1)
        entry = torch.cat([solution, place], -1)
        step = F.pad(step, (1, 0), value=1.0)
        if not sizes_are_free(entry):  # keep the padding
            count = torch.full_like(example, entry.shape[-1])
            return cls(entry.flatten(), step.flatten(), count)
        used = step != 0
        at = used.flatten().nonzero().squeeze(-1)
        return cls(entry.flatten().index_select(0, at), step.flatten().index_select(0, at), used.sum(-1))

    def values(self, table: Table) -> Float[Tensor, "row constr"]:
        """a·z + b for every row and constraint: Σ step · table[entry]."""
        return _bags(self.entry, table.stacked, self.count, self.step)

    def add_slopes(self, slope: Float[Tensor, "row constr"], to: Table) -> None:
        """Add the derivative for a table, from that for its :meth:`values`: the transposed product."""
        row = torch.arange(slope.shape[0], device=slope.device)
        row = row.repeat_interleave(self.count, output_size=self.entry.numel())
        entry, order = self.entry.sort()
        count = entry.new_zeros(to.stacked.shape[0]).index_add_(0, entry, torch.ones_like(entry))
        to.stacked.add_(_bags(row[order], slope, count, self.step[order]))


def _bags(entry: Tensor, table: Tensor, count: Tensor, weight: Tensor) -> Tensor:
    """Weighted sums of rows of a table: ``count`` entries for each row of the result."""
    if not table.shape[-1]:
        return table.new_zeros(count.shape[0], 0)
    return F.embedding_bag(entry, table, count.cumsum(0) - count, per_sample_weights=weight, mode="sum")
