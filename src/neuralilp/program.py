"""A batch of integer programs: minimise c·z subject to A z + b >= 0, lower <= z <= upper, z integer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from neuralilp.blocks import TOLERANCE, Bounds, ConstraintBlock, broadcast, broadcasts
from neuralilp.errors import InputError, ShapeError


@dataclasses.dataclass(frozen=True, eq=False)
class IntegerProgram:
    """A batch of integer programs (Eq. 2), with known and learned parts as explicit fields.

    Leading batch dimensions broadcast: a block without any is held once for all examples.

    Points ``z`` given to the methods are `*batch var`, or `*batch points var` for several a program.
    """

    cost: Float[Tensor, "*batch var"]
    bounds: Bounds
    blocks: tuple[ConstraintBlock, ...] = ()
    is_integer: Bool[Tensor, " var"] | None = None
    """None: every variable is integer."""
    cost_is_learned: bool = False

    def __post_init__(self) -> None:
        n = self.cost.shape[-1] if self.cost.ndim else 0
        if n == 0:
            raise ShapeError(f"cost must be `*batch var` with at least one variable, got {tuple(self.cost.shape)}")
        for name, tensor in self._tensors():
            if name.endswith((".a", ".lower")) and tensor.shape[-1] != n:
                raise ShapeError(f"{name} must have {n} variables as cost has, got shape {tuple(tensor.shape)}")
            if tensor.dtype != self.cost.dtype:
                raise ShapeError(f"{name} must have the dtype of cost, {self.cost.dtype}, got {tensor.dtype}")
        if self.is_integer is not None and self.is_integer.shape != (n,):
            raise ShapeError(f"is_integer must have shape ({n},), got {tuple(self.is_integer.shape)}")
        try:
            self.batch_shape  # noqa: B018
        except RuntimeError as error:
            raise ShapeError(f"the leading dimensions of cost, blocks and bounds must broadcast: {error}") from None

    def _tensors(self) -> list[tuple[str, Tensor]]:
        tensors = [("cost", self.cost), ("bounds.lower", self.bounds.lower), ("bounds.upper", self.bounds.upper)]
        for i, block in enumerate(self.blocks):
            tensors += [(f"blocks[{i}].a", block.a), (f"blocks[{i}].b", block.b)]
            if block.slack is not None:
                tensors.append((f"blocks[{i}].slack", block.slack))
        return tensors

    @property
    def num_variables(self) -> int:
        return self.cost.shape[-1]

    @property
    def batch_shape(self) -> torch.Size:
        shapes = [block.batch_shape() for block in self.blocks]
        return broadcast(self.cost.shape[:-1], self.bounds.lower.shape[:-1], *shapes)

    @property
    def learned(self) -> tuple[ConstraintBlock, ...]:
        return tuple(block for block in self.blocks if block.is_learned)

    @property
    def known(self) -> tuple[ConstraintBlock, ...]:
        return tuple(block for block in self.blocks if not block.is_learned)

    @property
    def movable_cost(self) -> Tensor:
        """The cost, with its gradient only where it is learned."""
        return self.cost if self.cost_is_learned else self.cost.detach()

    @property
    def has_learned_part(self) -> bool:
        return self.cost_is_learned or any(block.is_learned for block in self.blocks)

    def check_learned_part(self) -> None:
        """Raise unless there is something to learn."""
        if not self.has_learned_part:
            raise InputError("program must have a learned part: its cost and all its constraint blocks are known")

    def map(self, function: Callable[[Tensor], Tensor]) -> IntegerProgram:
        """The program with ``function`` applied to every float tensor: ``program.map(torch.Tensor.double)``."""
        blocks = tuple(
            dataclasses.replace(
                block,
                a=function(block.a),
                b=function(block.b),
                slack=None if block.slack is None else function(block.slack),
            )
            for block in self.blocks
        )
        bounds = Bounds(function(self.bounds.lower), function(self.bounds.upper))
        return dataclasses.replace(self, cost=function(self.cost), bounds=bounds, blocks=blocks)

    def to(self, *args: Any, **kwargs: Any) -> IntegerProgram:
        """As ``Tensor.to``: another device or float dtype."""
        moved = self.map(lambda tensor: tensor.to(*args, **kwargs))
        if self.is_integer is None:
            return moved
        return dataclasses.replace(moved, is_integer=self.is_integer.to(moved.cost.device))

    def detach(self) -> IntegerProgram:
        return self.map(Tensor.detach)

    def instance(self, index: int) -> IntegerProgram:
        """The program of one example of a batch, without batch dimensions."""
        shape = self.batch_shape

        def pick(tensor: Tensor, own: int) -> Tensor:
            full = tensor.expand(*shape, *tensor.shape[tensor.ndim - own :])
            return full.reshape(-1, *full.shape[len(shape) :])[index]

        blocks = tuple(
            dataclasses.replace(
                block,
                a=pick(block.a, 2),
                b=pick(block.b, 1),
                slack=None if block.slack is None else pick(block.slack, 1),
            )
            for block in self.blocks
        )
        bounds = Bounds(pick(self.bounds.lower, 1), pick(self.bounds.upper, 1))
        return dataclasses.replace(self, cost=pick(self.cost, 1), bounds=bounds, blocks=blocks)

    def objective(self, z: Float[Tensor, "*batch var"]) -> Float[Tensor, "*batch"]:
        """c·z"""
        self.check_points(z)
        return (_align(self.cost, 1, z, self.batch_shape) * z).sum(-1)

    def signed_distance(self, z: Float[Tensor, "*batch var"]) -> Float[Tensor, "*batch constr"]:
        """d(z; [a|b]) = (a·z + b) / |a| from every hyperplane of :meth:`explicit`, in its order, bounds included."""
        self.check_points(z)
        distances = []
        for block in self.blocks:
            unit = _align_block(block.unit(), z, self.batch_shape)
            value = unit.values(z)
            distances += [value] if unit.slack is None else [value + unit.slack, unit.slack - value]
        has_lower, has_upper = self._finite_bounds()
        lower, upper = (_align(bound, 1, z, self.batch_shape) for bound in (self.bounds.lower, self.bounds.upper))
        distances += [(z - lower)[..., has_lower], (upper - z)[..., has_upper]]
        leading = broadcast(*(distance.shape[:-1] for distance in distances))
        return torch.cat([distance.expand(*leading, -1) for distance in distances], -1)

    def is_feasible(self, z: Float[Tensor, "*batch var"], tolerance: float = TOLERANCE) -> Bool[Tensor, "*batch"]:
        """Every signed distance at least ``-tolerance``, and every integer variable within it of an integer."""
        integral = (z - z.round()).abs() <= tolerance
        if self.is_integer is not None:
            integral = integral | ~self.is_integer
        return (self.signed_distance(z) >= -tolerance).all(-1) & integral.all(-1)

    def explicit(self) -> tuple[Float[Tensor, "*batch constr var"], Float[Tensor, "*batch constr"]]:
        """(A, b) with everything as rows ``A z + b >= 0`` (Eq. 2): equalities twice, then finite bounds."""
        n, like = self.num_variables, self.cost
        eye = torch.eye(n, dtype=like.dtype, device=like.device)
        has_lower, has_upper = self._finite_bounds()
        parts = [block.explicit() for block in self.blocks]
        parts.append((eye[has_lower], -self.bounds.lower[..., has_lower]))
        parts.append((-eye[has_upper], self.bounds.upper[..., has_upper]))
        shape = broadcast(*(a.shape[:-2] for a, _ in parts), *(b.shape[:-1] for _, b in parts))
        a = torch.cat([a.expand(*shape, -1, -1) for a, _ in parts], -2)
        b = torch.cat([b.expand(*shape, -1) for _, b in parts], -1)
        return a, b

    def _finite_bounds(self) -> tuple[Tensor | slice, Tensor | slice]:
        """Which variables have a lower, and which an upper bound, in some instance."""
        if self.bounds.is_finite:
            return slice(None), slice(None)
        lower, upper = (
            bound.isfinite().reshape(-1, self.num_variables).any(0) for bound in (self.bounds.lower, self.bounds.upper)
        )
        return lower, upper

    def check_points(self, z: Tensor) -> None:
        if z.ndim < 1 or z.shape[-1] != self.num_variables:
            raise ShapeError(f"z must be `*batch var` with {self.num_variables} variables, got shape {tuple(z.shape)}")
        if z.dtype != self.cost.dtype:
            raise ShapeError(f"z must have the dtype of the program, {self.cost.dtype}, got {z.dtype}")
        batch = self.batch_shape
        if z.ndim - 1 < len(batch) or not broadcasts(z.shape[: len(batch)], batch):
            raise ShapeError(f"z must start with the batch shape {tuple(batch)} of the program, got {tuple(z.shape)}")

    def check_solution(self, solution: Tensor) -> None:
        """Raise unless ``solution`` can be a target y*: one point an example, integral, in bounds, known rows hold."""
        shape = (*self.batch_shape, self.num_variables)
        if solution.shape[-1:] != shape[-1:] or not broadcasts(solution.shape[:-1], self.batch_shape):
            raise ShapeError(f"solution must have shape {shape}, got {tuple(solution.shape)}")
        if solution.numel() == 0:
            raise ShapeError(f"solution must hold at least one example, got shape {tuple(solution.shape)}")
        if solution.dtype != self.cost.dtype:
            raise ShapeError(f"solution must have the dtype of the program, {self.cost.dtype}, got {solution.dtype}")
        if self.is_integer is not None and not bool(self.is_integer.all()):
            raise InputError("the program must be all integer to learn from a solution: is_integer has a False")
        if self.fits(solution):
            return
        integral, inside, finite = self._conditions(solution)
        if not finite.all():
            raise InputError(f"cost must be finite: {_first(~finite, self.cost, name='c')}")
        if not integral.all():
            raise InputError(f"solution must be integral: {_first(~integral, solution)}")
        if not inside.all():
            raise InputError(
                f"solution must lie within the bounds: {_first(~inside, solution)}, "
                f"lower = {_first(~inside, self.bounds.lower.expand_as(inside), value_only=True)}, "
                f"upper = {_first(~inside, self.bounds.upper.expand_as(inside), value_only=True)}"
            )
        violated = {i: ~(b.room(solution) >= -TOLERANCE) for i, b in enumerate(self.blocks) if not b.is_learned}
        i = next(i for i, rows in violated.items() if rows.any())
        *example, row = violated[i].nonzero()[0].tolist()
        raise InputError(
            f"solution must satisfy the known constraints: {_example(example)} violates row {row} of blocks[{i}]"
        )

    def fits(self, solution: Float[Tensor, "*batch var"]) -> Bool[Tensor, ""]:
        """The values that :meth:`check_solution` looks at, as one answer that stays on the device."""
        integral, inside, finite = self._conditions(solution)
        good = (integral & inside & finite).all()
        for block in self.known:
            good = good & (block.room(solution) >= -TOLERANCE).all()
        return good

    def _conditions(self, solution: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Elementwise: integral (False for NaN and infinity too), within the bounds, and of finite known cost."""
        integral = solution - solution.round() == 0
        return integral, self.bounds.contain(solution), self.cost.isfinite() | self.cost_is_learned


def _align(tensor: Tensor, own: int, z: Tensor, batch_shape: torch.Size) -> Tensor:
    """Insert the point dimensions of z after the batch dimensions of ``tensor``, whose last ``own`` are its own."""
    points = z.ndim - 1 - len(batch_shape)
    if points <= 0 or tensor.ndim == own:
        return tensor
    split = tensor.ndim - own
    return tensor.reshape(*tensor.shape[:split], *([1] * points), *tensor.shape[split:])


def _align_block(block: ConstraintBlock, z: Tensor, batch_shape: torch.Size) -> ConstraintBlock:
    a, b = _align(block.a, 2, z, batch_shape), _align(block.b, 1, z, batch_shape)
    slack = None if block.slack is None else _align(block.slack, 1, z, batch_shape)
    return dataclasses.replace(block, a=a, b=b, slack=slack)


def _example(index: list[int]) -> str:
    return f"example {index[0] if len(index) == 1 else index}" if index else "it"


def _first(bad: Tensor, values: Tensor, *, name: str = "z", value_only: bool = False) -> str:
    *example, variable = where = bad.nonzero()[0].tolist()
    value = values[tuple(where)].item()
    return f"{value:g}" if value_only else f"{_example(example)} has {name}[{variable}] = {value:g}"
