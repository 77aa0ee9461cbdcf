"""Negatives N(y*), and what every sampler of them shares."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from neuralilp.differences import Differences
from neuralilp.errors import InputError, ShapeError
from neuralilp.program import TOLERANCE, IntegerProgram
from neuralilp.rows import UnitRows


@dataclasses.dataclass(frozen=True, eq=False)
class Negatives:
    """N(y*): integral points other than y*, stored as differences from it, sparse ones apart from dense ones.

    A sparse negative moves from y* by ``step[..., j]`` at ``place[..., j]``; a step of zero is padding, and no place
    has two nonzero steps. Candidates that the loss must not use (:func:`admissible`) may be among them.
    """

    solution: Float[Tensor, "*batch var"]
    place: Int[Tensor, "*batch sparse hop"]
    step: Float[Tensor, "*batch sparse hop"]
    dense: Float[Tensor, "*batch dense var"]

    def __post_init__(self) -> None:
        batch, n = self.solution.shape[:-1], self.solution.shape[-1]
        if self.place.shape != self.step.shape or self.place.shape[:-2] != batch:
            raise ShapeError(
                f"place and step must both be `*batch sparse hop` with batch {tuple(batch)}, "
                f"got {tuple(self.place.shape)} and {tuple(self.step.shape)}"
            )
        if self.dense.shape[:-2] != batch or self.dense.shape[-1] != n:
            raise ShapeError(f"dense must be {(*batch, 'dense', n)}, got {tuple(self.dense.shape)}")

    @classmethod
    def from_sparse(cls, solution: Tensor, place: Tensor, step: Tensor) -> Negatives:
        """From places and steps, whose batch dimensions broadcast to those of the solution."""
        batch = solution.shape[:-1]
        dense = solution.new_empty(*batch, 0, solution.shape[-1])
        return cls(solution, place.expand(*batch, -1, -1), step.expand(*batch, -1, -1), dense)

    @classmethod
    def from_points(cls, solution: Tensor, points: Float[Tensor, "*batch dense var"]) -> Negatives:
        """From the points themselves, held as dense differences."""
        if points.ndim < 2 or points.shape[-1] != solution.shape[-1]:
            raise ShapeError(f"points must be `*batch neg {solution.shape[-1]}`, got {tuple(points.shape)}")
        if not bool((points == points.round()).all()):
            raise InputError("points must be integral and finite: a negative has a fractional, NaN or infinite entry")
        none = solution.new_empty(*solution.shape[:-1], 0, 1)
        return cls(solution, none.long(), none, points - solution.unsqueeze(-2))

    @classmethod
    def cat(cls, parts: Sequence[Negatives]) -> Negatives:
        """The union; duplicates stay."""
        hops = max(part.place.shape[-1] for part in parts)

        def pad(tensor: Tensor) -> Tensor:
            missing = hops - tensor.shape[-1]
            return torch.nn.functional.pad(tensor, (0, missing)) if missing else tensor

        return cls(
            parts[0].solution,
            torch.cat([pad(part.place) for part in parts], -2),
            torch.cat([pad(part.step) for part in parts], -2),
            torch.cat([part.dense for part in parts], -2),
        )

    def __len__(self) -> int:
        """How many there are an example."""
        return self.place.shape[-2] + self.dense.shape[-2]

    def flatten(self) -> Differences:
        """One a row, whatever the batch dimensions."""
        examples, n = self.solution.shape[:-1].numel(), self.solution.shape[-1]
        each = torch.arange(examples, device=self.solution.device)
        return Differences(
            self.place.reshape(-1, self.place.shape[-1]),
            self.step.reshape(-1, self.step.shape[-1]),
            self.dense.reshape(-1, n),
            torch.cat([each.repeat_interleave(part.shape[-2]) for part in (self.place, self.dense)]),
        )

    def points(self) -> Float[Tensor, "*batch neg var"]:
        """Every negative as a point z, the sparse ones first."""
        batch, n = self.solution.shape[:-1], self.solution.shape[-1]
        sparse = self.step.new_zeros(*batch, self.place.shape[-2], n).scatter_add(-1, self.place, self.step)
        return self.solution.unsqueeze(-2) + torch.cat([sparse, self.dense], -2)


@dataclasses.dataclass(frozen=True, eq=False)
class Examined:
    """Negatives, one a row, with what the known parts of a program say of them."""

    differences: Differences
    cost_change: Float[Tensor, " row"]
    """c·(z - y*); carries a gradient where the cost is learned."""
    known_distance: Float[Tensor, "row known"]
    """Signed distances from the known rows (not the bounds)."""
    is_usable: Bool[Tensor, " row"]
    """False for those that equal y*, leave the bounds, violate a known constraint, or have a known cost worse than
    that of y*: what is known separates them already, and the loss leaves them out."""

    def weighted(self, examples: int) -> tuple[Examined, Float[Tensor, " row"]]:
        """The usable negatives with their weights 1/(examples · |N|), for a mean over each N and over the examples.

        On a CPU the others are dropped; on a device, which would have to be asked how many they are, they weigh 0.
        """
        usable, example = self.is_usable, self.differences.example
        dtype = self.differences.step.dtype
        count = torch.zeros(examples, dtype=dtype, device=example.device).index_add_(0, example, usable.to(dtype))
        share = 1 / (count.clamp(min=1) * examples)
        if example.device.type != "cpu":
            return self, share[example] * usable
        rows, index = self.differences.select(usable)
        kept = Examined(rows, self.cost_change[index], self.known_distance[index], usable[index])
        return kept, share[rows.example]


def examine(program: IntegerProgram, negatives: Negatives) -> Examined:
    """Flatten the negatives and find out which of them the loss may use."""
    solution = negatives.solution
    rows = negatives.flatten()
    flat = rows.example[: rows.num_sparse].unsqueeze(-1) * solution.shape[-1] + rows.place
    room_down, room_up = (
        (bound - solution).reshape(-1, solution.shape[-1]) for bound in (program.bounds.lower, program.bounds.upper)
    )
    step, dense = rows.step, rows.dense
    is_usable = ((step >= room_down.take(flat)) & (step <= room_up.take(flat))).all(-1) & (step != 0).any(-1)
    if dense.shape[0]:
        owner = rows.example[rows.num_sparse :]
        inside = ((dense >= room_down[owner]) & (dense <= room_up[owner])).all(-1)
        is_usable = torch.cat([is_usable, inside & (dense != 0).any(-1)])
    change = rows.dot(program.cost.expand(solution.shape).reshape(-1, solution.shape[-1]))
    if not program.cost_is_learned:
        is_usable &= change <= 0
    known = UnitRows.of(program.known, solution)
    known_distance = known.distances(rows) if program.known else step.new_zeros(rows.example.shape[0], 0)
    if program.known:
        is_usable &= (known_distance >= -TOLERANCE).all(-1)
    return Examined(rows, change, known_distance, is_usable)


def admissible(program: IntegerProgram, negatives: Negatives) -> Bool[Tensor, "*batch neg"]:
    """Which negatives the loss may use (:class:`Examined`), in the order of :meth:`Negatives.points`."""
    usable = examine(program, negatives).is_usable
    batch, (sparse, dense) = negatives.solution.shape[:-1], (negatives.place.shape[-2], negatives.dense.shape[-2])
    first, second = usable.split([batch.numel() * sparse, batch.numel() * dense])
    return torch.cat([first.view(*batch, sparse), second.view(*batch, dense)], -1)


class NegativeSampler(abc.ABC):
    """Draws negatives for each solution of a batch. A subclass writes :meth:`sample`; calling it validates first."""

    def __call__(
        self,
        program: IntegerProgram,
        solution: Float[Tensor, "*batch var"],
        *,
        generator: torch.Generator | None = None,
    ) -> Negatives:
        program.check_solution(solution)
        with torch.no_grad():
            return self.sample(program, solution, generator)

    @abc.abstractmethod
    def sample(self, program: IntegerProgram, solution: Tensor, generator: torch.Generator | None) -> Negatives:
        """Candidates for a solution that is known to be good. No gradient flows here."""
