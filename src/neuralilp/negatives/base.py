"""Negatives N(y*), and what every sampler of them shares."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from neuralilp.blocks import TOLERANCE, broadcasts
from neuralilp.differences import Differences, sizes_are_free
from neuralilp.errors import InputError, ShapeError
from neuralilp.program import IntegerProgram
from neuralilp.rows import UnitRows

FEW_VARIABLES = 24
"""Up to so many variables, dense differences are faster than sparse ones."""


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
    checked_for: IntegerProgram | None = dataclasses.field(default=None, repr=False)
    """The program that the solution was found to fit, by the sampler that drew these."""

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
    def from_dense(cls, solution: Tensor, dense: Float[Tensor, "*batch dense var"]) -> Negatives:
        """From dense differences z - y*."""
        none = solution.new_empty(*solution.shape[:-1], 0, 1)
        return cls(solution, none.long(), none, dense.expand(*solution.shape[:-1], -1, -1))

    @classmethod
    def from_points(cls, solution: Tensor, points: Float[Tensor, "*batch dense var"]) -> Negatives:
        """From the points themselves."""
        batch, n = solution.shape[:-1], solution.shape[-1]
        if points.ndim < 2 or points.shape[-1] != n or not broadcasts(batch, points.shape[:-2]):
            raise ShapeError(f"points must be {(*batch, 'neg', n)}, got {tuple(points.shape)}")
        if points.dtype != solution.dtype:
            raise ShapeError(f"points must have the dtype of the solution, {solution.dtype}, got {points.dtype}")
        if not bool((points - points.round() == 0).all()):
            raise InputError("points must be integral: a negative has a fractional, NaN or infinite entry")
        return cls.from_dense(solution, points - solution.unsqueeze(-2))

    @classmethod
    def cat(cls, parts: Sequence[Negatives]) -> Negatives:
        """The union; duplicates stay."""
        sparse = [part for part in parts if part.place.shape[-2]]
        dense = [part.dense for part in parts if part.dense.shape[-2]]
        joined = parts[0]
        if sparse:
            hops = max(part.place.shape[-1] for part in sparse)
            place = _cat_padded([part.place for part in sparse], hops)
            step = _cat_padded([part.step for part in sparse], hops)
            joined = dataclasses.replace(joined, place=place, step=step)
        return dataclasses.replace(joined, dense=torch.cat(dense, -2)) if dense else joined

    def __len__(self) -> int:
        """How many there are an example."""
        return self.place.shape[-2] + self.dense.shape[-2]

    def points(self) -> Float[Tensor, "*batch neg var"]:
        """Every negative as a point z, the sparse ones first."""
        batch, n = self.solution.shape[:-1], self.solution.shape[-1]
        sparse = self.step.new_zeros(*batch, self.place.shape[-2], n).scatter_add(-1, self.place, self.step)
        return self.solution.unsqueeze(-2) + torch.cat([sparse, self.dense], -2)

    def flatten(self) -> Differences:
        """One a row, whatever the batch dimensions."""
        n, width = self.solution.shape[-1], self.place.shape[-1]
        each = torch.arange(self.solution.shape[:-1].numel(), device=self.solution.device).unsqueeze(-1)
        example = [each.expand(-1, part.shape[-2]).reshape(-1) for part in (self.place, self.dense)]
        return Differences(
            self.place.reshape(-1, width),
            self.step.reshape(-1, width),
            self.dense.reshape(-1, n),
            torch.cat(example),
            is_even=True,
        )


def _cat_padded(tensors: list[Tensor], hops: int) -> Tensor:
    """Concatenate along the negatives, padded to ``hops``, which lie apart in memory: sums over them are then fast."""
    padded = [torch.nn.functional.pad(tensor.mT, (0, 0, 0, hops - tensor.shape[-1])) for tensor in tensors]
    return torch.cat(padded, -1).mT


@dataclasses.dataclass(frozen=True, eq=False)
class Examined:
    """The negatives that the loss may use, one a row, with what the known parts of the program say of them.

    Left out are those that equal y*, are not integral, leave the bounds, violate a known constraint, or have a known
    cost worse than that of y*: what is known separates them already. Where shapes must not depend on values
    (:func:`~neuralilp.differences.sizes_are_free`), they stay, with ``is_usable`` False.
    """

    differences: Differences
    cost_change: Float[Tensor, " row"]
    """c·(z - y*); carries a gradient where the cost is learned."""
    known_distance: Float[Tensor, "row known"] | None
    """Signed distances from the known rows, not counting the bounds; None where there are none."""
    is_usable: Bool[Tensor, " row"]

    def select(self, usable: Bool[Tensor, " row"]) -> Examined:
        rows, index = self.differences.select(usable)
        known = None if self.known_distance is None else self.known_distance.index_select(0, index)
        return Examined(rows, self.cost_change.index_select(0, index), known, self.is_usable.index_select(0, index))


def examine(program: IntegerProgram, negatives: Negatives) -> Examined:
    """Flatten the negatives and find out which of them the loss may use."""
    solution = negatives.solution
    change, is_usable = _by_cost_and_bounds(program, negatives)
    examined = Examined(negatives.flatten(), change, None, is_usable)
    drop = sizes_are_free(solution)
    if drop:
        examined = examined.select(is_usable)
    if not program.known:
        return examined
    distance = UnitRows.of(program.known, solution).distances(examined.differences)
    holds = (distance >= -TOLERANCE).all(-1)
    examined = dataclasses.replace(examined, known_distance=distance, is_usable=examined.is_usable & holds)
    return examined.select(holds) if drop else examined


def _by_cost_and_bounds(program: IntegerProgram, negatives: Negatives) -> tuple[Tensor, Tensor]:
    """c·(z - y*) of all negatives in the order of ``flatten``, and which of them bounds and known cost let through."""
    solution, place, step, dense = negatives.solution, negatives.place, negatives.step, negatives.dense
    cost = program.movable_cost.expand(solution.shape)
    down, up = program.bounds.lower - solution, program.bounds.upper - solution
    changes, oks = [], []
    if place.shape[-2]:
        at = place.mT.flatten(-2)  # hop after hop, as they lie in memory

        def gather(values: Tensor) -> Tensor:
            return values.gather(-1, at).unflatten(-1, (place.shape[-1], -1)).mT

        changes.append((gather(cost) * step).sum(-1).flatten())
        outside = (step < gather(down)) | (step > gather(up)) | (step != step.round())
        oks.append(((outside.sum(-1) == 0) & (step.abs().sum(-1) > 0)).flatten())
    if dense.shape[-2] or not changes:
        changes.append((dense @ cost.unsqueeze(-1)).flatten())
        outside = dense.round().clamp(down.unsqueeze(-2), up.unsqueeze(-2)) != dense
        oks.append(((outside.sum(-1) == 0) & (dense.abs().sum(-1) > 0)).flatten())
    change, ok = (parts[0] if len(parts) == 1 else torch.cat(parts) for parts in (changes, oks))
    return change, ok if program.cost_is_learned else ok & (change <= 0)


def admissible(program: IntegerProgram, negatives: Negatives) -> Bool[Tensor, "*batch neg"]:
    """Which negatives the loss may use (:class:`Examined`), in the order of :meth:`Negatives.points`."""
    _, usable = _by_cost_and_bounds(program, negatives)
    if program.known:
        distance = UnitRows.of(program.known, negatives.solution).distances(negatives.flatten())
        usable = usable & (distance >= -TOLERANCE).all(-1)
    batch, (sparse, dense) = negatives.solution.shape[:-1], (negatives.place.shape[-2], negatives.dense.shape[-2])
    first, second = usable.split([batch.numel() * sparse, batch.numel() * dense])
    return torch.cat([first.view(*batch, sparse), second.view(*batch, dense)], -1)


class Draw:
    """Where samplers take their random numbers from: uniform ones on [0, 1) of the shape asked for.

    They come from a ``torch.Generator``; or, as ``torch.compile`` cannot trace one, from ``numbers`` drawn before, one
    after the other. ``is_fixed`` asks a sampler to take as many every time, whatever the values.
    """

    def __init__(
        self,
        like: Tensor,
        generator: torch.Generator | None = None,
        *,
        numbers: Tensor | None = None,
        is_fixed: bool = False,
    ) -> None:
        self.like = like
        self.generator = generator
        self.numbers = numbers
        self.is_fixed = is_fixed or numbers is not None
        self.count = 0
        """How many were taken."""

    def __call__(self, *shape: int) -> Tensor:
        first, self.count = self.count, self.count + math.prod(shape)
        if self.numbers is not None:
            return self.numbers[first : self.count].view(shape)
        return torch.rand(shape, generator=self.generator, dtype=self.like.dtype, device=self.like.device)


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
            negatives = self.sample(program, solution, Draw(solution, generator))
        return dataclasses.replace(negatives, checked_for=program)

    @abc.abstractmethod
    def sample(self, program: IntegerProgram, solution: Tensor, draw: Draw) -> Negatives:
        """Candidates for a solution that is known to be good. No gradient flows here."""
