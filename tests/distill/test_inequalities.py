"""Learnt inequalities become small integers, tight on the solutions, that separate what was separated."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import rows_as_set
from torch import Tensor

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.distill import distill
from neuralilp.errors import InputError, ShapeError


def cube(n: int) -> Tensor:
    return torch.cartesian_prod(*[torch.arange(2).double()] * n)


def box(n: int, low: float = 0, high: float = 1) -> Bounds:
    return Bounds(torch.full((n,), low).double(), torch.full((n,), high).double())


def learnt(a: Tensor, b: Tensor, generator: torch.Generator, noise: float = 1e-4) -> ConstraintBlock:
    """Unit rows, turned a little, with offsets somewhere between the last point inside and the first outside."""
    norm = torch.linalg.vector_norm(a, dim=-1)
    a, b = a / norm.unsqueeze(-1), (b + 0.3) / norm
    return ConstraintBlock(a + noise * torch.randn(a.shape, generator=generator).double(), b, is_learned=True)


def split(a: Tensor, b: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """The points that satisfy all rows, and the others."""
    inside = (points @ a.mT + b >= 0).all(-1)
    return points[inside], points[~inside]


RULES = {
    "at most 3 of 8": ([[-1] * 8], [3]),
    "two incompatible items": ([[-1, 0, -1, 0, 0]], [1]),
    "knapsack": ([[-3, -4, -5, -7, -9, -2]], [12]),
    "two rules": ([[-1, -1, -1, 0, 0], [0, 0, 1, 1, 1]], [2, -1]),
    "an implication": ([[-1, 1, 0, 0]], [0]),
}


@pytest.mark.parametrize("with_negatives", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_planted_rules_come_back(name: str, with_negatives: bool, generator: torch.Generator) -> None:
    a, b = (torch.tensor(part).double() for part in RULES[name])
    y, negatives = split(a, b, cube(a.shape[1]))
    block = learnt(a, b, generator)
    result = distill([block], y, bounds=box(a.shape[1]), negatives=negatives if with_negatives else None)
    assert (result.num_unexplained, result.lost_negatives, result.is_exact) == (0, 0, True)
    inside, outside = split(result.inequalities.a, result.inequalities.b, cube(a.shape[1]))
    assert torch.equal(inside, y)
    assert torch.equal(outside, negatives)
    if name != "knapsack" or not with_negatives:  # smaller weights may separate the same points
        assert rows_as_set(result.inequalities) == {(*row, offset) for row, offset in zip(*RULES[name], strict=True)}
    else:
        assert result.inequalities.a.abs().amax() <= 9


def test_negatives_choose_the_smallest_integers() -> None:
    """By angle (3, 2) needs its own size; the point (1, 1) alone is separated by (1, 1) as well."""
    a, b = -torch.tensor([[3.0, 2.0]]).double(), torch.tensor([4.0]).double()
    y, negatives = split(a, b, cube(2))
    block = ConstraintBlock(a, b)
    by_angle = distill([block], y, bounds=box(2))
    by_points = distill([block], y, bounds=box(2), negatives=negatives)
    assert rows_as_set(by_angle.inequalities) == {(-3, -2, 3)}
    assert rows_as_set(by_points.inequalities) == {(-1, -1, 1)}


def test_duplicates_implied_rows_and_rows_without_effect_are_dropped(generator: torch.Generator) -> None:
    a = -torch.tensor([[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1], [0, 1, 0, 1]]).double()
    b = torch.tensor([1, 1, 1, 2, 5]).double()
    y, _ = split(a, b, cube(4))
    block = learnt(a, b, generator)
    zero = ConstraintBlock(torch.zeros(1, 4).double(), torch.ones(1).double())
    result = distill([block, zero], y, bounds=box(4))
    assert rows_as_set(result.inequalities) == {(-1, -1, -1, 0, 1)}  # z3 is at most 1, so the fourth row follows
    assert result.dropped_inequalities == 5
    assert result.is_exact


def test_rows_that_no_integers_express_stay_real() -> None:
    """(1, √2, π, e) at its own scale; the offset gives way to the solution that the learnt row cuts off."""
    row = torch.nn.functional.normalize(torch.tensor([[-1.0, -(2**0.5), -torch.pi, -torch.e]]).double())
    y = cube(4)[(cube(4) @ row[0]) >= -1.0]
    learnt_row = ConstraintBlock(row, -(y @ row[0]).min().reshape(1) - 0.05)
    result = distill([learnt_row], y, bounds=box(4), rounding=1e-4)
    assert len(result.inequalities.a) == 0
    assert result.num_unexplained == 1
    (kept,) = result.blocks()
    assert torch.allclose(kept.a, row)
    assert bool((kept.values(y) >= -1e-9).all())


def test_equalities_leave_less_to_separate() -> None:
    """One of three is learnt as an equality, so "at most one" says nothing more, and "not the last" does."""
    equality = ConstraintBlock(torch.ones(1, 3).double(), -torch.ones(1).double(), torch.full((1,), 0.01).double())
    inequalities = ConstraintBlock(torch.tensor([[-1, -1, -1], [0, 0, -1]]).double(), torch.tensor([1.2, 0.3]).double())
    y = torch.eye(3).double()[:2]
    for negatives in (None, torch.tensor([[0, 0, 1], [1, 1, 0], [1, 0, 0]]).double()):
        result = distill([inequalities, equality], y, bounds=box(3), negatives=negatives)
        assert rows_as_set(result.equalities) == {(1, 1, 1, -1)}
        assert rows_as_set(result.inequalities) == {(0, 0, -1, 0)}
        assert (result.is_exact, result.lost_negatives) == (True, 0)


def test_without_bounds_nothing_is_bounded_by_them() -> None:
    block = ConstraintBlock(torch.tensor([[-1.0, 0.0], [-1.0, -1.0]]), torch.tensor([3.0, 4.0]))
    y = torch.tensor([[3.0, 1.0], [0.0, 4.0], [-5.0, 2.0]])
    result = distill([block], y)
    assert rows_as_set(result.inequalities) == {(-1, 0, 3), (-1, -1, 4)}
    assert result.inequalities.a.dtype == torch.float32


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_every_rule_holds_and_no_negative_is_lost(data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 5))
    weights = st.lists(st.floats(-1, 1, width=32).filter(lambda x: abs(x) > 0.01), min_size=n, max_size=n)
    a = torch.tensor(data.draw(st.lists(weights, min_size=1, max_size=3))).double()
    b = -(cube(n) @ a.mT).quantile(data.draw(st.sampled_from([0.3, 0.6])), 0)
    y, negatives = split(a, b, cube(n))
    if not len(y):
        return
    with_negatives = data.draw(st.booleans())
    result = distill([ConstraintBlock(a, b)], y, bounds=box(n), negatives=negatives if with_negatives else None)
    for block in result.blocks():
        assert bool((block.values(y) >= -1e-9).all())
    whole = result.inequalities
    assert bool((whole.a == whole.a.round()).all())
    assert whole.a.abs().max() <= 10 if len(whole.a) else True
    if with_negatives:
        near = ((negatives @ a.mT + b) / torch.linalg.vector_norm(a, dim=-1) < -1e-5).any(-1)
        separated = [block.values(negatives[near]) < -1e-6 for block in result.blocks()]
        assert bool(torch.cat([*separated, torch.zeros(int(near.sum()), 1, dtype=torch.bool)], -1).any(-1).all())
        assert result.lost_negatives == 0


@pytest.mark.wrong_types
def test_bad_negatives() -> None:
    block = ConstraintBlock(torch.ones(1, 2), torch.zeros(1))
    with pytest.raises(ShapeError, match=r"negatives must be points `neg 2` as solutions are, got shape \(3,\)"):
        distill([block], torch.zeros(1, 2), negatives=torch.zeros(3))
    with pytest.raises(InputError, match="negatives must be finite: point 1 is not"):
        distill([block], torch.zeros(1, 2), negatives=torch.tensor([[0.0, 1], [torch.nan, 0]]))


def test_a_negative_that_is_a_solution_is_ignored() -> None:
    y = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    block = ConstraintBlock(torch.tensor([[-1.0, 0.0]]), torch.tensor([0.5]))
    result = distill([block], y, bounds=Bounds(torch.zeros(2), torch.ones(2)), negatives=y[1:])
    assert (result.num_rules, result.lost_negatives) == (0, 0)
