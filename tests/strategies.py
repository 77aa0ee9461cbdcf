"""Programs with solutions and negatives: one of every kind to compare on, and hypothesis strategies for invariants."""

from __future__ import annotations

import dataclasses
import math

import torch
from hypothesis import strategies as st
from torch import Tensor

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.negatives import BatchNegatives, KHop, Negatives, OneHop, ProjectAndSample, Union
from neuralilp.program import IntegerProgram

ROWS = ("inequalities", "equalities", "mixed", "network", "restarts", "none")
BOXES = ("binary", "general", "unbounded")


@dataclasses.dataclass(frozen=True)
class Case:
    """A program, solutions y* that are good targets for it, and negatives; ``leaves`` are what is learned."""

    program: IntegerProgram
    solution: Tensor
    negatives: Negatives
    leaves: tuple[Tensor, ...]


def bounds_of(box: str, n: int, dtype: torch.dtype = torch.float32) -> Bounds:
    """``unbounded`` has variables with a lower bound only, with an upper bound only, and with none."""
    if box == "binary":
        return Bounds(torch.zeros(n, dtype=dtype), torch.ones(n, dtype=dtype))
    low, high = torch.full((n,), -2.0, dtype=dtype), torch.full((n,), 3.0, dtype=dtype)
    if box == "unbounded":
        low[::2], high[1::3] = -math.inf, math.inf
    return Bounds(low, high)


def solutions_in(bounds: Bounds, batch: tuple[int, ...], generator: torch.Generator) -> Tensor:
    low, high = bounds.lower.clamp(min=-2), bounds.upper.clamp(max=3)
    share = torch.rand(*batch, low.shape[-1], generator=generator, dtype=low.dtype)
    return (low + ((high - low + 1) * share).floor()).minimum(high)


def random_case(
    rows: str,
    box: str = "binary",
    *,
    cost_is_learned: bool = False,
    n: int = 4,
    batch: int = 3,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
) -> Case:
    """A program of the kind named, with negatives of every family; the same numbers in every dtype."""
    generator = torch.Generator().manual_seed(seed)
    leaves: list[Tensor] = []

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(torch.float32).to(dtype)

    def leaf(value: Tensor) -> Tensor:
        leaves.append(value.requires_grad_())
        return value

    def learned(*shape: int, is_equality: bool = False) -> ConstraintBlock:
        """Wide enough that some negatives are inside of every row: else nothing is left of L₋ at low temperature."""
        slack = leaf(random(*shape).abs() + width) if is_equality else None
        b = random(*shape) + (0 if is_equality else width)
        return ConstraintBlock(leaf(random(*shape, n)), leaf(b), slack, is_learned=True)

    bounds = bounds_of(box, n, dtype)
    width = math.sqrt(n) * (1 if box == "binary" else 2)
    size = (2, batch) if rows == "restarts" else (batch,)
    solution = solutions_in(bounds, size, generator)
    match rows:
        case "inequalities":
            blocks = [learned(3)]
        case "equalities":
            blocks = [learned(2, is_equality=True)]
        case "mixed":
            a = random(2, n)
            value = solution @ a.mT
            known = ConstraintBlock(a[:1], 0.75 - value[:, :1].amin(0))
            middle, half = (
                (value[:, 1:].amin(0) + value[:, 1:].amax(0)) / 2,
                (value[:, 1:].amax(0) - value[:, 1:].amin(0)) / 2,
            )
            known_equality = ConstraintBlock(a[1:], -middle, half + 0.75)
            blocks = [learned(2, is_equality=True), known, learned(2), known_equality, learned(1)]
        case "network":
            blocks = [learned(batch, 2, is_equality=True), learned(batch, 3)]
        case "restarts":
            blocks = [learned(2, 1, 3), learned(2, 1, 1, is_equality=True), learned(2)]
        case _:
            blocks = []
    cost = random(batch, n)
    if cost_is_learned:
        cost = leaf(cost)
    program = IntegerProgram(cost, bounds, tuple(blocks), cost_is_learned=cost_is_learned)
    hops = KHop((1, 2, 3), count=4) if n > 10 else Union(OneHop(), KHop((2, 3), count=4))
    negatives = Union(hops, BatchNegatives(), ProjectAndSample())(program, solution, generator=generator)
    outside = solution.unsqueeze(-2) + 40
    extra = Negatives.from_points(solution, torch.cat([solution.unsqueeze(-2), outside], -2))
    return Case(program, solution, Negatives.cat([negatives, extra]), tuple(leaves))


@dataclasses.dataclass(frozen=True)
class Numbers:
    """Everything that makes up a case, as plain tensors: :meth:`case` builds it outside of hypothesis' drawing."""

    box: str
    solution: Tensor
    learned: tuple[tuple[Tensor, Tensor, Tensor | None], ...]
    known: Tensor | None
    cost: Tensor
    cost_is_learned: bool
    steps: Tensor

    def case(self) -> Case:
        y, n = self.solution, self.solution.shape[-1]
        blocks = [ConstraintBlock(a, b, slack, is_learned=True) for a, b, slack in self.learned]
        if self.known is not None:
            blocks.append(ConstraintBlock(self.known, -(y @ self.known.mT).amin(0)))
        bounds = bounds_of(self.box, n, torch.float64)
        program = IntegerProgram(self.cost, bounds, tuple(blocks), cost_is_learned=self.cost_is_learned)
        return Case(program, y, Negatives.from_points(y, y.unsqueeze(-2) + self.steps), ())


FLOATS = st.floats(-4, 4, width=32).filter(lambda x: x == 0 or abs(x) > 1e-3)


def tensors(*shape: int, entries: st.SearchStrategy[float] = FLOATS) -> st.SearchStrategy[Tensor]:
    count = math.prod(shape)
    values = st.lists(entries, min_size=count, max_size=count)
    return values.map(lambda flat: torch.tensor(flat, dtype=torch.float64).reshape(shape))


@st.composite
def numbers(draw: st.DrawFn) -> Numbers:
    """Small programs with any numbers, zero rows and ties among them, and points that may be anything integral."""
    n, batch = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    box = draw(st.sampled_from(BOXES))
    low, high = (0, 1) if box == "binary" else (-2, 3)
    solution = draw(tensors(batch, n, entries=st.integers(low, high).map(float)))
    learned = []
    for is_equality in draw(st.lists(st.booleans(), max_size=3)):
        lead = draw(st.sampled_from([(), (batch,)]))
        m = draw(st.integers(1, 3))
        slack = draw(tensors(*lead, m, entries=st.floats(0, 1, width=32))) if is_equality else None
        learned.append((draw(tensors(*lead, m, n)), draw(tensors(*lead, m)), slack))
    return Numbers(
        box=box,
        solution=solution,
        learned=tuple(learned),
        known=draw(st.none() | tensors(1, n)),
        cost=draw(tensors(batch, n)),
        cost_is_learned=not learned or draw(st.booleans()),
        steps=draw(tensors(batch, draw(st.integers(1, 5)), n, entries=st.integers(-2, 2).map(float))),
    )
