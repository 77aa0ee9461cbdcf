"""Mining: candidates hold and are tight, chance is what shuffling gives, and rules are those that were hidden."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from neuralilp import Bounds, ConstraintBlock, InputError, IntegerProgram, solve
from neuralilp.distill import Axes
from neuralilp.mining import expected_violations, mine_rules, pair_rows, slice_rows, sparsest_separating
from neuralilp.mining.candidates import Rows
from neuralilp.mining.selecting import all_moves, covering, least_evidence, supported_rows
from neuralilp.negatives.nearest import Neighbourhood, moves


def box(n: int, upper: float = 1.0) -> Bounds:
    return Bounds(torch.zeros(n, dtype=torch.float64), torch.full((n,), upper, dtype=torch.float64))


def solved(cost: torch.Tensor, a: torch.Tensor, b: torch.Tensor, upper: float = 1.0) -> torch.Tensor:
    program = IntegerProgram(cost, box(cost.shape[1], upper), (ConstraintBlock(a.double(), b.double()),))
    answer = solve(program)
    assert set(answer.counts()) == {"optimal"}
    return answer.z


def as_set(rows: Rows) -> set[tuple[float, ...]]:
    return {tuple(row.tolist()) for row in torch.cat([rows.a, rows.b.unsqueeze(1)], 1)}


def test_pairs_that_hold() -> None:
    """x and y never both, z never without x, and one of y and w always; by looking at all pairs."""
    points = torch.tensor([[1, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 1]]).double()
    found = as_set(pair_rows(points))
    expected = set()
    for i, j in itertools.permutations(range(4), 2):
        for signs in ((-1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)):
            row = torch.zeros(4, dtype=torch.float64)
            row[i], row[j] = signs
            least = float((points @ row).min())
            if least > min(
                sum(s * v for s, v in zip(signs, values, strict=True)) for values in itertools.product((0, 1), repeat=2)
            ):
                expected.add((*row.tolist(), -least))
    assert found == expected


def test_sums_along_axes_are_tight() -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 2, (30, 12), generator=generator).double()
    rows = slice_rows(y, Axes(("worker", "day", "shift"), (2, 3, 2)))
    # 3 axes: sums over one (6 + 4 + 6 rows), over two (2 + 3 + 2) and over all, each from above and from below.
    assert len(rows.a) == 2 * (6 + 4 + 6 + 2 + 3 + 2 + 1)
    assert torch.equal((y @ rows.a.mT + rows.b).amin(0), torch.zeros(len(rows.a), dtype=torch.float64))


def test_chance_of_a_pair() -> None:
    """Two variables that are 1 in half of 200 examples each: 50 would have both."""
    y = torch.zeros(200, 2, dtype=torch.float64)
    y[:100, 0] = y[100:, 1] = 1
    count = expected_violations(torch.tensor([[-1.0, -1.0]]).double(), torch.ones(1).double(), y, shuffles=50)
    assert float(count) == pytest.approx(50, abs=3)


def test_the_sparsest_row_between() -> None:
    """Solutions have at most two of four; three of them are separated by the sum of those three."""
    y = torch.tensor([p for p in itertools.product((0.0, 1.0), repeat=4) if sum(p) <= 2]).double()
    found = sparsest_separating(torch.tensor([1.0, 1.0, 0.0, 1.0]).double(), y)
    assert found is not None
    assert found[0].tolist() == [-1, -1, 0, -1]
    assert found[1] == 2
    assert sparsest_separating(y.mean(0), y) is None  # among them


def test_moves_keep_to_equalities() -> None:
    y = torch.eye(4).double()
    moves = all_moves(y, 2, torch.ones(1, 4).double())
    assert len(moves)
    assert bool((moves.sum(-1) == 0).all())
    assert bool((moves != 0).any(-1).all())


def test_covering_takes_what_separates_most() -> None:
    rows = Rows(torch.tensor([[-1.0, 0.0], [0.0, -1.0], [-1.0, -1.0]]).double(), torch.tensor([0.0, 0.0, 0.0]).double())
    points = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]).double()
    assert covering(rows, points).tolist() == [2]
    assert covering(rows.take(torch.tensor([0, 1])), points).tolist() == [0, 1]
    assert covering(rows, points[:0]).tolist() == []


def hidden() -> tuple[torch.Tensor, torch.Tensor]:
    """At most one of the first three, not the fourth without the fifth, at least two of the last four."""
    a = torch.zeros(3, 8)
    a[0, :3], a[1, 3], a[1, 4], a[2, 4:] = -1, -1, 1, 1
    return a, torch.tensor([1.0, 0.0, -2.0])


def test_hidden_rules_are_found_with_costs() -> None:
    a, b = hidden()
    cost = torch.randn(300, 8, generator=torch.Generator().manual_seed(0)).double()
    y = solved(cost, a, b)
    candidates = Rows.joined(pair_rows(y), slice_rows(y, Axes(("half", "place"), (2, 4))))
    mined = mine_rules(y, box(8), cost, candidates)
    assert not len(mined.unexplained)
    assert bool((y @ mined.rules.a.mT + mined.rules.b >= 0).all())
    # The same feasible set, of all 256 points.
    points = torch.tensor(list(itertools.product((0.0, 1.0), repeat=8))).double()
    truly = (points @ a.double().mT + b.double() >= 0).all(-1)
    learnt = (points @ mined.rules.a.mT + mined.rules.b >= 0).all(-1)
    assert torch.equal(truly, learnt)
    assert bool((mined.rules.separates(mined.negatives).any(-1)).all())
    assert not bool((mined.negatives @ a.double().mT + b.double() >= 0).all(-1).any())


def test_what_is_hardly_an_accident_without_costs() -> None:
    """Of 8 variables with a hidden pair among them, the pair is the rule, and with 10 examples nothing is."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 2, (400, 8), generator=generator).double()
    y[:, 1] *= 1 - y[:, 0]
    rows, evidence = supported_rows(pair_rows(y), y)
    assert as_set(rows) == {(-1.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)}
    assert float(evidence[0]) >= least_evidence(1)
    few = y[:10]
    assert len(pair_rows(few).a)
    assert not len(supported_rows(pair_rows(few), few)[0].a)


def test_least_evidence_grows_with_what_was_tried() -> None:
    assert least_evidence(1) == 5
    assert least_evidence(1000) == pytest.approx(5 + math.log(1000))


def test_candidates_must_hold() -> None:
    y = torch.eye(3).double()
    bad = Rows(torch.tensor([[-1.0, 0.0, 0.0]]).double(), torch.zeros(1).double())
    with pytest.raises(InputError, match="candidates must hold on all solutions"):
        mine_rules(y, box(3), -y, bad)


def test_cheaper_points_inside_are_those_of_all_neighbours() -> None:
    generator = torch.Generator().manual_seed(0)
    cost = torch.randn(12, 6, generator=generator, dtype=torch.float64)
    bounds = Bounds(torch.zeros(6).double(), torch.full((6,), 2.0).double())
    rows = ConstraintBlock(torch.randn(20, 6, generator=generator).double(), torch.full((20,), 4.0).double()).unit()
    y = torch.ones(12, 6).double()
    around = Neighbourhood(rows, bounds, moves(y, 3, 10**6))
    least = torch.full((12,), 0.1).double()
    near, distance = around.nearest(cost, y, y, least, len(around.moves))  # the deepest inside first
    for count in (3, len(around.moves)):
        expected = [z[:count][d[:count] >= -1e-6] for z, d in zip(near, distance, strict=True)]
        points, steps = around.inside(cost, y, least, count, 1e-6)
        assert len(points) > 20
        assert points.equal(torch.cat(expected))
        assert (points - steps).equal(torch.ones_like(points))
