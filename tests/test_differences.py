"""Differences from y* and their products with rows, against the points themselves."""

from __future__ import annotations

import dataclasses

import oracles
import pytest
import torch
from strategies import random_case

from neuralilp.differences import DenseRows
from neuralilp.negatives import Negatives
from neuralilp.rows import UnitRows


@pytest.mark.parametrize("n", [4, 30])
@pytest.mark.parametrize("rows", ["inequalities", "equalities", "mixed", "network", "restarts"])
def test_distances_without_the_points(rows: str, n: int) -> None:
    """From a·y* + b and a few columns: the distances of the points from inequalities, then from both equality sides."""
    case = random_case(rows, "general", n=n)
    y, points, batch = case.solution, case.negatives.points(), case.solution.shape[:-1]
    differences = case.negatives.flatten()
    unit = UnitRows.of(case.program.learned, y)
    distance = unit.distances(differences)
    assert distance.shape == (batch.numel() * len(case.negatives), unit.num_rows)
    z = differences.points(y.reshape(-1, n))
    for i in range(0, len(z), 7):
        example = tuple(int(k) for k in torch.unravel_index(differences.example[i], batch))
        learned = [row for row in oracles.rows_of(case.program, batch, example) if row.is_learned]
        expected = sorted(row.distance(z[i]).item() for row in learned)
        assert sorted(distance[i].tolist()) == pytest.approx(expected, rel=1e-11, abs=1e-11)
    flat = {tuple(point) for point in z.tolist()}
    assert flat == {tuple(point) for point in points.reshape(-1, n).tolist()}


@pytest.mark.parametrize("rows", ["network", "restarts"])
def test_products_by_group_and_by_row_agree(rows: str) -> None:
    """Where the examples of each group lie together, one product a group; else a gather: values, and their slopes."""
    case = random_case(rows, "general")
    table = UnitRows.of(case.program.learned, case.solution).table
    differences = case.negatives.flatten()
    assert table.is_even
    parts = {}
    for is_even in (True, False):
        ((_, products),) = dataclasses.replace(
            differences,
            place=differences.place[:0],
            step=differences.step[:0],
            example=differences.example[differences.num_sparse :],
            is_even=is_even,
        ).slabs(table, 10**6)
        assert isinstance(products, DenseRows)
        assert products.is_even == is_even
        values, slopes = products.values(table), table.replace(torch.zeros_like(table.stacked))
        products.add_slopes(values.cos(), slopes)
        parts[is_even] = values, slopes.stacked
    for even, uneven in zip(parts[True], parts[False], strict=True):
        assert even.abs().max() > 0
        torch.testing.assert_close(even, uneven)


def test_golden_distances() -> None:
    """Inequalities come first, then σ + s of every equality, then σ - s, whatever the order of the blocks."""
    case = random_case("mixed", "general")
    y = case.solution
    negatives = Negatives.from_points(y, y.unsqueeze(-2) + 1)
    distance = UnitRows.of(case.program.learned, y).distances(negatives.flatten())
    equality, first, second = (block.unit() for block in case.program.learned)
    assert equality.slack is not None
    z = y + 1
    s = z @ equality.a.mT + equality.b
    d = [z @ block.a.mT + block.b for block in (first, second)]
    torch.testing.assert_close(distance, torch.cat([*d, equality.slack + s, equality.slack - s], -1))


def test_flatten_keeps_examples_together_with_their_points() -> None:
    y = torch.tensor([[10.0, 0.0], [20.0, 0.0]])
    sparse = Negatives.from_sparse(y, torch.tensor([[1]]), torch.ones(1, 1))
    dense = Negatives.from_dense(y, torch.tensor([[0.0, 2.0], [0.0, 3.0]]))
    differences = Negatives.cat([dense, sparse]).flatten()
    z = differences.points(y)
    assert (differences.num_sparse, differences.num_rows) == (2, 6)
    assert z[:, 0].tolist() == [10.0 + 10 * e for e in differences.example.tolist()]
    assert sorted(map(tuple, z.tolist())) == [(10, 1), (10, 2), (10, 3), (20, 1), (20, 2), (20, 3)]


@pytest.mark.parametrize("n", [4, 30])
def test_selecting_rows(n: int) -> None:
    case = random_case("inequalities", "general", n=n)
    differences = case.negatives.flatten()
    z = differences.points(case.solution)
    keep = torch.arange(differences.num_rows) % 3 == 1
    kept, index = differences.select(keep)
    assert index.tolist() == keep.nonzero().squeeze(-1).tolist()
    assert torch.equal(kept.points(case.solution), z[keep])
    none, index = differences.select(torch.zeros_like(keep))
    assert (none.num_rows, len(index)) == (0, 0)


def test_no_rows_and_no_negatives() -> None:
    case = random_case("inequalities")
    y = case.solution
    none = Negatives.from_points(y, y.unsqueeze(-2)[:, :0])
    assert UnitRows.of(case.program.learned, y).distances(none.flatten()).shape == (0, 3)
    assert UnitRows.of((), y).distances(case.negatives.flatten()).shape == (case.negatives.flatten().num_rows, 0)
    sparse = random_case("inequalities", n=30)
    rows = sparse.negatives.flatten().num_rows
    assert UnitRows.of((), sparse.solution).distances(sparse.negatives.flatten()).shape == (rows, 0)
