"""Learnt equalities become the sparse integer rows that were planted, whatever the variables mean."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from planted import grids, lattice_points, mixed, rows_as_set, sudoku_rules
from torch import Tensor

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.distill import distill, same_row_space
from neuralilp.errors import InputError, ShapeError
from neuralilp.program import IntegerProgram
from neuralilp.warmstart import affine_hull


def integers(rows: Tensor, right: Tensor) -> set[tuple[int, ...]]:
    return rows_as_set(ConstraintBlock(rows, -right, torch.zeros(len(rows), dtype=rows.dtype)))


@pytest.mark.parametrize(("shape", "count", "rank"), [((2, 2), 60, 40), ((2, 3), 150, 101)])
def test_all_rules_of_small_sudoku(shape: tuple[int, int], count: int, rank: int, generator: torch.Generator) -> None:
    """Also the redundant ones: 64 rows of rank 40, 144 of rank 101; variables in any order."""
    rules, y = sudoku_rules(*shape), grids(*shape, count)
    order = torch.randperm(y.shape[1], generator=generator)
    rules, y = rules[:, order], y[:, order]
    ones = torch.ones(len(rules), dtype=torch.float64)
    learnt = mixed(rules, -ones, int(1.2 * rank), generator)
    result = distill([learnt], y)
    assert rows_as_set(result.equalities) == integers(rules, ones)
    assert result.rank == rank
    assert result.is_exact
    assert (result.num_unexplained, result.dropped_equalities) == (0, 0)
    assert same_row_space(result.equalities.a, result.equalities.b, rules, -ones)


def test_what_was_learnt_decides(generator: torch.Generator) -> None:
    """Rows and cells of 4×4 sudoku learnt, but no columns and boxes: those hold on the solutions, and are no rules."""
    rules, y = sudoku_rules(2, 2)[:32], grids(2, 2, 60)
    ones = torch.ones(len(rules), dtype=torch.float64)
    result = distill([mixed(rules, -ones, 30, generator)], y)
    assert affine_hull(y).rank == 40
    assert result.rank == 28
    assert rows_as_set(result.equalities) == integers(rules, ones)


GENERAL = [
    ([[2, 3, -1, 0, 0]], [4]),
    ([[2, 3, -1, 0, 0], [0, 1, 0, 1, -2]], [4, 0]),
    ([[1, -1, 0, 0, 0], [0, 0, 3, 1, 1], [0, 0, 0, 1, -1]], [0, 2, 1]),
]


@pytest.mark.parametrize(("rows", "right"), GENERAL)
def test_general_integers(rows: list[list[int]], right: list[int], generator: torch.Generator) -> None:
    a, b = torch.tensor(rows).double(), -torch.tensor(right).double()
    y = lattice_points(a, b, -4, 4)
    result = distill([mixed(a, b, len(a) + 1, generator)], y)
    assert same_row_space(result.equalities.a, result.equalities.b, a, b)
    assert len(result.equalities.a) == len(a)
    assert int((result.equalities.a != 0).sum()) <= int((a != 0).sum())
    assert result.equalities.a.abs().amax() <= 3
    assert result.is_exact


def test_two_of_four_in_every_line(generator: torch.Generator) -> None:
    """Not sets of which one is 1, so linear programs must find them; the eighth is redundant, and as sparse."""
    z = torch.arange(16).view(4, 4)
    rules = torch.zeros(8, 16, dtype=torch.float64).scatter_(1, torch.cat([z, z.T]), 1.0)
    lines = [torch.tensor(line).double() for line in itertools.product([0, 1], repeat=4) if sum(line) == 2]
    boards = [torch.stack(board) for board in itertools.product(lines, repeat=4)]
    y = torch.stack([board.flatten() for board in boards if bool((board.sum(0) == 2).all())])
    two = torch.full((8,), 2.0, dtype=torch.float64)
    result = distill([mixed(rules, -two, 7, generator)], y)
    assert result.rank == 7
    assert rows_as_set(result.equalities) == integers(rules, two)


def test_fixed_equal_and_partitioned_variables(generator: torch.Generator) -> None:
    a = torch.tensor([[1, 0, 0, 0, 0, 0], [0, 1, -1, 0, 0, 0], [0, 0, 0, 1, 1, 1]]).double()
    b = torch.tensor([-1.0, 0.0, -1.0]).double()
    y = lattice_points(a, b, 0, 1)
    result = distill([mixed(a, b, 3, generator)], y)
    assert rows_as_set(result.equalities) == integers(a, -b)


def test_a_set_that_shares_variables_with_another_rule_is_said_once(generator: torch.Generator) -> None:
    """The sparsest row through z0 is the set, found before; z0 + z3 = 2 z4 is the other."""
    a, b = torch.tensor([[1, 1, 1, 0, 0], [1, 0, 0, 1, -2]]).double(), torch.tensor([-1.0, 0.0]).double()
    y = lattice_points(a, b, 0, 2)
    result = distill([mixed(a, b, 3, generator)], y)
    assert rows_as_set(result.equalities) == integers(a, -b)


def test_rows_that_the_solutions_contradict_are_dropped(generator: torch.Generator) -> None:
    rules, y = sudoku_rules(2, 2), grids(2, 2, 60)
    ones = torch.ones(len(rules), dtype=torch.float64)
    good = mixed(rules, -ones, 45, generator)
    noise = torch.nn.functional.normalize(torch.randn(5, 64, generator=generator).double(), dim=-1)
    shifted = ConstraintBlock(good.a[:2], good.b[:2] + 1, torch.zeros(2, dtype=torch.float64))
    zero = torch.zeros(1, 64, dtype=torch.float64)
    bad = ConstraintBlock(torch.cat([noise, zero]), torch.zeros(6).double(), torch.full((6,), 0.01).double())
    result = distill([bad, good, shifted], y)
    assert rows_as_set(result.equalities) == integers(rules, ones)
    assert result.dropped_equalities == 8
    assert not result.is_exact


def test_directions_without_integers_stay_real(generator: torch.Generator) -> None:
    """All variables are constant, so every row holds on the solution: (1, √2, π) has no small integers."""
    y = torch.zeros(5, 3, dtype=torch.float64)
    a = torch.tensor([[1.0, 2**0.5, torch.pi]]).double()
    result = distill([ConstraintBlock(a, torch.zeros(1).double(), torch.zeros(1).double())], y)
    assert len(result.equalities.a) == 0
    assert result.num_unexplained == 1
    (kept,) = result.blocks()
    assert torch.allclose(kept.a.abs(), torch.nn.functional.normalize(a), atol=1e-6)
    assert result.is_exact
    assert result.blocks(keep_unexplained=False) == ()


def test_large_coefficients_by_the_echelon_form() -> None:
    a, b = torch.tensor([[1.0, -37.0]]).double(), torch.tensor([-5.0]).double()
    y = torch.tensor([[5.0 + 37 * t, t] for t in range(10)]).double()
    result = distill([ConstraintBlock(a, b, torch.zeros(1).double())], y)
    assert rows_as_set(result.equalities) == {(1, -37, -5)}


def test_nothing_learnt() -> None:
    y = torch.zeros(3, 4)
    empty = ConstraintBlock(torch.zeros(0, 4), torch.zeros(0), torch.zeros(0))
    for learnt in ([], [empty]):
        result = distill(learnt, y)
        assert (result.num_rules, result.num_unexplained, result.is_exact) == (0, 0, True)
        assert result.equalities.a.shape == (0, 4)
        assert result.equalities.a.dtype == torch.float32


@st.composite
def programs(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    """One or two small-integer equalities and all their points in a small box; no two variables alike in them."""
    binary = draw(st.booleans())
    n = draw(st.integers(2, 5 if binary else 3))
    entries = st.sampled_from([0, 0, 1, 1, -1, 2] if not binary else [0, 1, 1, -1])
    a = torch.tensor(draw(st.lists(st.lists(entries, min_size=n, max_size=n), min_size=1, max_size=2))).double()
    low, high = (0, 1) if binary else (-2, 3)
    point = torch.tensor(draw(st.lists(st.integers(low, high), min_size=n, max_size=n))).double()
    b = -(a @ point)
    assume(bool((a != 0).any(-1).all()))
    y = lattice_points(a, b, low, high)
    assume(len({tuple(column) for column in y.T.tolist()}) == n)
    return a, b, y


@settings(max_examples=20, deadline=None)
@given(programs(), st.data())
def test_every_rule_holds_and_renaming_renames(program: tuple[Tensor, Tensor, Tensor], data: st.DataObject) -> None:
    a, b, y = program
    learnt = mixed(a, b, 3, torch.Generator().manual_seed(1))
    result = distill([learnt], y)
    block = result.equalities
    assert bool((block.values(y) == 0).all())
    if result.num_unexplained == 0 and result.dropped_equalities == 0:
        assert same_row_space(block.a, block.b, a, b)
    order = data.draw(st.permutations(range(y.shape[1])))
    other = distill([ConstraintBlock(learnt.a[:, order], learnt.b, learnt.slack)], y[:, order])
    renamed = ConstraintBlock(block.a[:, order], block.b, block.slack)
    assert rows_as_set(other.equalities) == rows_as_set(renamed)


@pytest.mark.wrong_types
def test_bad_input() -> None:
    y = torch.zeros(2, 3)
    row = ConstraintBlock(torch.ones(1, 3), torch.zeros(1), torch.zeros(1))
    with pytest.raises(InputError, match=r"solutions must be integral: example 1 has z\[2\] = 0.5"):
        distill([row], torch.tensor([[0.0, 0, 0], [0, 0, 0.5]]))
    with pytest.raises(InputError, match="at least one example"):
        distill([row], torch.zeros(0, 3))
    with pytest.raises(ShapeError, match=r"blocks\[0\].a must have 4 variables as solutions has"):
        distill([row], torch.zeros(2, 4))
    with pytest.raises(ShapeError, match="same rows for all examples, got the batch shape"):
        distill([ConstraintBlock(torch.ones(2, 1, 3), torch.zeros(2, 1))], y)
    with pytest.raises(InputError, match=r"blocks\[0\].a must be finite: index \[0, 1\]"):
        distill([ConstraintBlock(torch.tensor([[1.0, torch.nan, 0]]), torch.zeros(1))], y)
    with pytest.raises(InputError, match="tolerance must lie between 0 and 1, got 2"):
        distill([row], y, tolerance=2.0)
    with pytest.raises(InputError, match="largest must be at least 1, got 0"):
        distill([row], y, largest=0)
    box = Bounds(torch.zeros(3), torch.ones(3))
    with pytest.raises(InputError, match="within the bounds: example 1"):
        distill([row], torch.tensor([[0.0, 0, 0], [2, 0, 0]]), bounds=box)
    with pytest.raises(InputError, match="bounds must not be given"):
        distill(IntegerProgram(torch.zeros(3), box), y, bounds=box)
    with pytest.raises(ShapeError, match="bounds must be those of all examples, with 3 variables"):
        distill([row], y, bounds=Bounds(torch.zeros(2), torch.ones(2)))
