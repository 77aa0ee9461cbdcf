"""Constraint blocks as one table of unit rows over flattened examples: the form that products with differences take."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from neuralilp.differences import Differences
from neuralilp.program import ConstraintBlock


@dataclasses.dataclass(frozen=True, eq=False)
class UnitRows:
    """The rows of some blocks, normalised, inequalities before equalities.

    Rows that are shared by examples are held once: ``group`` is the set of rows that each example uses, None where
    all use one. An equality is one row with the two distances ``slack + value`` and ``slack - value``.
    """

    table: Float[Tensor, "place constr"]
    """A transposed, one group after the other."""
    base: Float[Tensor, "example constr"]
    """a·y* + b: for an inequality, the signed distance of y*."""
    slack: Float[Tensor, "group equality"]
    group: Int[Tensor, " example"] | None

    @classmethod
    def of(cls, blocks: Sequence[ConstraintBlock], solution: Float[Tensor, "*batch var"]) -> UnitRows:
        n, batch = solution.shape[-1], solution.shape[:-1]
        y = solution.reshape(-1, n)
        units = sorted((block.unit() for block in blocks), key=lambda block: block.is_equality)
        if not units:
            return cls(y.new_zeros(n, 0), y.new_zeros(y.shape[0], 0), y.new_zeros(1, 0), None)
        shape = torch.broadcast_shapes(*(block.batch_shape() for block in units))
        groups = shape.numel()

        def join(tensors: list[Tensor], *own: int) -> Tensor:
            wide = [tensor.expand(*shape, -1, *own).reshape(groups, -1, *own) for tensor in tensors]
            return torch.cat(wide, 1) if wide else y.new_zeros(groups, 0, *own)

        a = join([block.a for block in units], n)
        b = join([block.b for block in units])
        slack = join([block.slack for block in units if block.slack is not None])
        if groups == 1:
            return cls(a[0].t().contiguous(), torch.addmm(b[0], y, a[0].t()), slack, None)
        group = torch.arange(groups, device=y.device).view(shape).expand(batch).reshape(-1)
        base = (a[group] @ y.unsqueeze(-1)).squeeze(-1) + b[group]
        return cls(a.mT.reshape(groups * n, -1), base, slack, group)

    @property
    def num_equalities(self) -> int:
        return self.slack.shape[-1]

    @property
    def num_inequalities(self) -> int:
        return self.table.shape[-1] - self.num_equalities

    @property
    def num_rows(self) -> int:
        """m of Eq. 2, where an equality counts twice."""
        return self.table.shape[-1] + self.num_equalities

    def slack_of(self, example: Tensor | slice) -> Float[Tensor, "#example equality"]:
        """The slack for some examples, in one row where all share it."""
        return self.slack if self.group is None else self.slack[self.group[example]]

    def distances(self, differences: Differences) -> Float[Tensor, "row constr"]:
        """d of every point from every row of Eq. 2."""
        value = self.base[differences.example] + differences.product(self.table, self.group)
        d, s = value[:, : self.num_inequalities], value[:, self.num_inequalities :]
        slack = self.slack_of(differences.example)
        return torch.cat([d, slack + s, slack - s], -1)
