"""Differences z - y*, one a row, and their products with A: what a k-hop neighbour costs instead of n columns.

A neighbour k hops from y* differs from it in at most k places, so a·z = a·y* + Σ step·a[place]: k columns of A.
``torch.nn.functional.embedding_bag`` is that weighted sum of columns, and its transpose is another one.
"""

from __future__ import annotations

import dataclasses

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor


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
    def num_variables(self) -> int:
        return self.dense.shape[-1]

    def select(self, rows: Bool[Tensor, " row"]) -> tuple[Differences, Int[Tensor, " kept"]]:
        """The rows marked, and their numbers. Asks the device how many there are."""
        index = rows.nonzero().squeeze(-1)
        sparse, dense = rows[: self.num_sparse].nonzero().squeeze(-1), rows[self.num_sparse :]
        return Differences(self.place[sparse], self.step[sparse], self.dense[dense], self.example[index]), index

    def points(self, solution: Float[Tensor, "example var"]) -> Float[Tensor, "row var"]:
        """The points z themselves."""
        z = solution[self.example]
        z[: self.num_sparse].scatter_add_(1, self.place, self.step)
        z[self.num_sparse :] += self.dense
        return z

    def dot(self, values: Float[Tensor, "example var"]) -> Float[Tensor, " row"]:
        """values·(z - y*), with one vector of values an example."""
        k = self.num_sparse
        at = self.example[:k].unsqueeze(-1) * self.num_variables + self.place
        sparse = (values.take(at) * self.step).sum(-1)
        if not self.dense.shape[0]:
            return sparse
        return torch.cat([sparse, (values[self.example[k:]] * self.dense).sum(-1)])

    def product(self, table: Float[Tensor, "place constr"], group: Int[Tensor, " example"] | None) -> Tensor:
        """A·(z - y*) `row constr`, where table is A transposed: one for all, or one a group of examples, stacked."""
        change = SparseRows.of(self, group).product(table)
        if not self.dense.shape[0]:
            return change
        if group is None:
            return torch.cat([change, self.dense @ table])
        tables = table.view(-1, self.num_variables, table.shape[-1])[group[self.example[self.num_sparse :]]]
        return torch.cat([change, (self.dense.unsqueeze(-2) @ tables).squeeze(-2)])

    def transposed_product(
        self, slope: Float[Tensor, "row constr"], group: Int[Tensor, " example"] | None, num_places: int
    ) -> Float[Tensor, "place constr"]:
        """The derivative for the table from that for :meth:`product`."""
        k = self.num_sparse
        table = SparseRows.of(self, group).transposed(num_places).product(slope[:k])
        if not self.dense.shape[0]:
            return table
        if group is None:
            return table.addmm_(self.dense.mT, slope[k:])
        tables = table.view(-1, self.num_variables, table.shape[-1])
        tables.index_add_(0, group[self.example[k:]], self.dense.unsqueeze(-1) * slope[k:].unsqueeze(-2))
        return table


@dataclasses.dataclass(frozen=True, eq=False)
class SparseRows:
    """A sparse matrix by rows: the entries from ``offset[i]`` up to ``offset[i + 1]`` belong to row i."""

    place: Int[Tensor, " entry"]
    step: Float[Tensor, " entry"]
    offset: Int[Tensor, " row"]

    @classmethod
    def of(cls, differences: Differences, group: Int[Tensor, " example"] | None) -> SparseRows:
        """The sparse rows, without padding on a CPU; with groups, the places of group g start at g times n."""
        place, step = differences.place, differences.step
        if group is not None:
            owner = group[differences.example[: differences.num_sparse]]
            place = place + owner.unsqueeze(-1) * differences.num_variables
        if place.device.type != "cpu":  # how many entries there are is on the device: keep the padding
            offset = torch.arange(place.shape[0], device=place.device) * place.shape[-1]
            return cls(place.flatten(), step.flatten(), offset)
        used = step != 0
        count = used.sum(-1)
        return cls(place[used], step[used], count.cumsum(0) - count)

    def product(self, table: Float[Tensor, "place constr"]) -> Float[Tensor, "row constr"]:
        """Σ over the entries of a row of step · table[place]."""
        if not self.offset.numel() or not self.place.numel():
            return table.new_zeros(self.offset.numel(), table.shape[-1])
        return F.embedding_bag(self.place, table, self.offset, per_sample_weights=self.step, mode="sum")

    def transposed(self, num_places: int) -> SparseRows:
        """The transpose: one row a place, whose entries are the rows of ``self`` that step there."""
        entry = torch.arange(self.place.numel(), device=self.place.device)
        row = torch.searchsorted(self.offset, entry, right=True) - 1
        place, by_place = self.place.sort()
        offset = torch.searchsorted(place, torch.arange(num_places, device=place.device))
        return SparseRows(row[by_place], self.step[by_place], offset)
