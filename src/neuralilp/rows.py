"""Constraint blocks as one table of unit rows over flattened examples: the form that products with differences take."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from neuralilp.blocks import ConstraintBlock, broadcast
from neuralilp.differences import Differences, Table


@dataclasses.dataclass(frozen=True, eq=False)
class UnitRows:
    """The rows of some blocks, normalised, inequalities before equalities, so that a·z + b is a distance.

    An equality is one row with the two distances ``slack + value`` and ``slack - value``.
    """

    table: Table
    slack: Float[Tensor, "group equality"]

    @classmethod
    def of(cls, blocks: Sequence[ConstraintBlock], solution: Float[Tensor, "*batch var"]) -> UnitRows:
        n, batch = solution.shape[-1], solution.shape[:-1]
        y = solution.reshape(-1, n)
        units = [block.unit() for block in blocks if block.num_rows]
        units.sort(key=lambda block: block.is_equality)
        if not units:
            return cls(Table(y.new_zeros(n + y.shape[0], 0), n, y.shape[0], None), y.new_zeros(1, 0))
        shape = broadcast(*(block.batch_shape() for block in units))
        groups = shape.numel()

        def join(tensors: list[Tensor], *own: int) -> Tensor:
            wide = [tensor.expand(*shape, -1, *own).reshape(groups, -1, *own) for tensor in tensors]
            if len(wide) == 1:
                return wide[0]
            return torch.cat(wide, 1) if wide else y.new_zeros(groups, 0, *own)

        a = join([block.a for block in units], n)
        b = join([block.b for block in units])
        slack = join([block.slack for block in units if block.slack is not None])
        if groups == 1:
            columns = a[0].t()
            return cls(Table(torch.cat([columns, torch.addmm(b[0], y, columns)]), n, y.shape[0], None), slack)
        group = torch.arange(groups, device=y.device).view(shape).expand(batch).reshape(-1)
        # Evenly: each group has all examples along the dimensions that come after those of the groups.
        full = (1,) * (len(batch) - len(shape)) + tuple(shape)
        own = 1 + max(i for i, size in enumerate(full) if size != 1)
        is_even = full[:own] == batch[:own]
        if is_even:
            base = torch.baddbmm(b.unsqueeze(1), y.view(groups, -1, n), a.mT).flatten(0, 1)
        else:
            base = (a[group] @ y.unsqueeze(-1)).squeeze(-1) + b[group]
        return cls(Table(torch.cat([a.mT.reshape(groups * n, -1), base]), n, y.shape[0], group, is_even), slack)

    @property
    def num_equalities(self) -> int:
        return self.slack.shape[-1]

    @property
    def num_inequalities(self) -> int:
        return self.table.stacked.shape[-1] - self.num_equalities

    @property
    def num_rows(self) -> int:
        """m of Eq. 2, where an equality counts twice."""
        return self.table.stacked.shape[-1] + self.num_equalities

    def slack_of(self, example: Tensor | slice) -> Float[Tensor, "#example equality"]:
        """The slack for some examples, in one row where all share it."""
        return self.slack if self.table.group is None else self.slack[self.table.group[example]]

    def distances(self, differences: Differences) -> Float[Tensor, "row constr"]:
        """d of every point from every row of Eq. 2."""
        parts = [rows.values(self.table) for _, rows in differences.slabs(self.table, max(differences.num_rows, 1))]
        value = torch.cat([self.table.stacked.new_zeros(0, self.table.stacked.shape[-1]), *parts])
        d, s = value[:, : self.num_inequalities], value[:, self.num_inequalities :]
        slack = self.slack_of(differences.example)
        return torch.cat([d, slack + s, slack - s], -1)
