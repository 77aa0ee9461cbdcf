"""The affine hull of solutions: all equalities that hold on them, and whether the examples were enough."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralilp.errors import InputError, ShapeError
from neuralilp.warmstart import affine_hull


def rational_rank(rows: list[list[int]]) -> int:
    """Exact, by elimination without fractions."""
    rank, rows = 0, [row.copy() for row in rows]
    for column in range(len(rows[0])):
        pivot = next((i for i in range(rank, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for i in range(rank + 1, len(rows)):
            p, q = rows[rank][column], rows[i][column]
            rows[i] = [p * x - q * y for x, y in zip(rows[i], rows[rank], strict=True)]
        rank += 1
    return rank


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_dimension_is_the_rational_rank_of_the_differences(data: st.DataObject) -> None:
    n, count = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 12))
    size = data.draw(st.sampled_from([1, 3, 1000]))
    entries = st.lists(st.integers(-size, size), min_size=n, max_size=n)
    points = data.draw(st.lists(entries, min_size=count, max_size=count))
    y = torch.tensor(points, dtype=torch.float64)
    hull = affine_hull(y)
    differences = [[x - x0 for x, x0 in zip(point, points[0], strict=True)] for point in points]
    assert hull.dimension == rational_rank(differences)
    assert hull.rank == n - hull.dimension
    assert torch.allclose(hull.a @ hull.a.mT, torch.eye(hull.rank, dtype=torch.float64), atol=1e-10)
    assert (y @ hull.a.mT + hull.b).abs().amax() < 1e-8 * size if hull.rank else True


def test_permutation_matrices_have_2k_minus_1_equalities() -> None:
    """Birkhoff: k row sums and k column sums cut out the hull of the k×k permutation matrices; one is redundant."""
    y = torch.stack([torch.eye(4)[list(p)].flatten() for p in itertools.permutations(range(4))])
    hull = affine_hull(y)
    assert (hull.rank, hull.dimension, hull.a.dtype) == (7, 9, torch.float64)
    row_sum = torch.zeros(16, dtype=torch.float64)
    row_sum[:4] = 1
    inside = hull.a @ row_sum
    assert torch.allclose(inside @ hull.a, row_sum)
    assert torch.isclose(inside @ hull.b, torch.tensor(-1.0, dtype=torch.float64))


def test_says_whether_more_examples_would_change_it(generator: torch.Generator) -> None:
    y = torch.randint(0, 2, (200, 6), generator=generator).float()
    y[:, 5] = y[:, :2].sum(-1)
    assert affine_hull(y).is_settled
    assert affine_hull(y).rank == 1
    assert not affine_hull(y[:1]).is_settled
    assert affine_hull(y[:1]).rank == 6
    assert not affine_hull(y[:5]).is_settled
    late = torch.cat([torch.zeros(99, 3), torch.tensor([[1.0, 0.0, 0.0]])])
    assert affine_hull(late).rank == 2
    assert not affine_hull(late).is_settled


def test_nearly_dependent_columns_are_told_apart() -> None:
    """y = 1000 x + e with e in {0, 1}: the Gram matrix loses e in its rounding, the data do not."""
    x, e = (part.flatten().double() for part in torch.meshgrid(torch.arange(1000), torch.arange(2), indexing="ij"))
    assert affine_hull(torch.stack([x, 1000 * x + e], -1)).rank == 0
    hull = affine_hull(torch.stack([x, 1000 * x], -1))
    assert hull.rank == 1
    assert abs(hull.a[0, 0] / hull.a[0, 1] + 1000) < 1e-6


def test_variables_of_different_sizes() -> None:
    x = torch.arange(20).double()
    y = torch.stack([x % 2, 10**6 * (x % 3), 10**6 * (x % 3) + x % 2], -1)
    hull = affine_hull(y)
    assert hull.rank == 1
    assert torch.allclose(hull.a[0] / hull.a[0, 2], torch.tensor([-1.0, -1.0, 1.0], dtype=torch.float64))


@pytest.mark.wrong_types
@pytest.mark.parametrize(
    ("solutions", "error", "message"),
    [
        (torch.zeros(3), ShapeError, r"`example var`, got torch.float32 of shape \(3,\)"),
        (torch.zeros(3, 2, dtype=torch.int64), ShapeError, "floats `example var`, got torch.int64"),
        (torch.zeros(0, 3), InputError, r"at least one example and one variable, got shape \(0, 3\)"),
        (torch.tensor([[0.0, 1.0], [0.4, 1.0]]), InputError, r"integral: example 1 has z\[0\] = 0.4"),
        (torch.tensor([[0.0, torch.nan]]), InputError, r"example 0 has z\[1\] = nan"),
        (torch.tensor([[0.0, torch.inf]]), InputError, r"example 0 has z\[1\] = inf"),
    ],
)
def test_bad_solutions(solutions: torch.Tensor, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        affine_hull(solutions)


def test_bad_tolerance() -> None:
    with pytest.raises(InputError, match="tolerance must lie between 0 and 1, got 0"):
        affine_hull(torch.zeros(2, 2), tolerance=0.0)
