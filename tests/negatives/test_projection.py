"""Project and sample: the rounding probabilities, on the dense and on the sparse path, and where y* stands in."""

from __future__ import annotations

import math

import pytest
import torch
from strategies import random_case
from torch import Tensor

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.negatives import ProjectAndSample, admissible
from neuralilp.program import IntegerProgram

SAMPLES = 20_000
DEVIATIONS = 5
"""A normal variable is that far out once in 1.7 million; the seed is fixed, and some hundred numbers are looked at."""


@pytest.fixture(params=["dense", "sparse"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("neuralilp.negatives.projection.SPARSE_FROM", 0 if request.param == "sparse" else 2**62)
    return request.param


def wide(n: int) -> Bounds:
    return Bounds(torch.full((n,), -50.0), torch.full((n,), 50.0))


def program_of(a: Tensor, b: Tensor, slack: Tensor | None = None, bounds: Bounds | None = None) -> IntegerProgram:
    n = a.shape[-1]
    block = ConstraintBlock(a, b, slack, is_learned=True)
    return IntegerProgram(torch.zeros(n), bounds or wide(n), (block,))


def moves(program: IntegerProgram, y: Tensor, samples: int, generator: torch.Generator) -> Tensor:
    """Differences from y*, `sample row var`, for many copies of one solution."""
    solution = y.expand(samples, -1).contiguous()
    negatives = ProjectAndSample()(program, solution, generator=generator)
    return negatives.points() - solution.unsqueeze(-2)


ROWS = torch.tensor(
    [
        [1.0, -2.0, 0.5, 0.0, 3.0],
        [0.2, 0.2, -0.4, 1.0, -0.1],
        [-1.0, -1.0, 1.0, 1.0, 0.3],
        [2.0, 0.0, 0.0, -1.0, 0.0],
    ]
)
DISTANCES = torch.tensor([0.12, -0.2, 1.7, -2.3])
"""Of y* from the rows: the first two move no coordinate by a quarter, the others some by more than one."""
Y = torch.tensor([1.0, 0.0, -2.0, 3.0, 5.0])


def statistics_program() -> IntegerProgram:
    return program_of(ROWS, DISTANCES * ROWS.norm(dim=-1) - ROWS @ Y)


def test_rounding_probabilities(path: str, generator: torch.Generator) -> None:
    """r = y* - d·a/|a| goes to floor(r) + 1 with probability r - floor(r), else to floor(r), each coordinate alone.

    A frequency over N samples deviates by sqrt(p(1 - p)/N); that of two coordinates going up together is p_i p_j.
    """
    program = statistics_program()
    move = moves(program, Y, SAMPLES, generator)
    target = -DISTANCES.unsqueeze(-1) * ROWS / ROWS.norm(dim=-1, keepdim=True)
    low = target.floor()
    up = move - low
    assert bool(((up == 0) | (up == 1)).all())
    p = target - low
    assert bool(((up.mean(0) - p).abs() <= bound(p)).all())
    together = torch.einsum("sri,srj->rij", up, up) / SAMPLES
    expected = p.unsqueeze(-1) * p.unsqueeze(-2)
    off = ~torch.eye(5, dtype=torch.bool)
    assert bool(((together - expected).abs() <= bound(expected))[:, off].all())
    # Rows are rounded independently of one another, too.
    across = torch.einsum("si,sj->ij", up[:, 0], up[:, 1]) / SAMPLES
    expected = p[0].unsqueeze(-1) * p[1]
    assert bool(((across - expected).abs() <= bound(expected)).all())


def bound(p: Tensor) -> Tensor:
    """Five standard deviations of a frequency, and a little for the float32 in which p was computed."""
    return DEVIATIONS * (p * (1 - p) / SAMPLES).clamp(min=0).sqrt() + 1e-6


def test_both_paths_have_one_distribution(monkeypatch: pytest.MonkeyPatch, generator: torch.Generator) -> None:
    """Means and pairwise products of the moves, between the two paths: the difference of two means of N samples."""
    samples = {}
    for name, threshold in (("dense", 2**62), ("sparse", 0)):
        monkeypatch.setattr("neuralilp.negatives.projection.SPARSE_FROM", threshold)
        samples[name] = moves(statistics_program(), Y, SAMPLES, generator)

    def assert_same(mine: Tensor, its: Tensor) -> None:
        variance = (mine.var(0) + its.var(0)) / SAMPLES
        assert bool(((mine.mean(0) - its.mean(0)).abs() <= DEVIATIONS * variance.sqrt() + 1e-6).all())

    dense, sparse = samples["dense"], samples["sparse"]
    assert_same(dense, sparse)
    assert_same(dense.unsqueeze(-1) * dense.unsqueeze(-2), sparse.unsqueeze(-1) * sparse.unsqueeze(-2))
    moved = [(move != 0).sum(-1).float() for move in (dense, sparse)]  # how many coordinates move at all
    assert_same(*moved)
    assert_same(moved[0].square(), moved[1].square())


def test_usable_points_have_one_distribution(monkeypatch: pytest.MonkeyPatch, generator: torch.Generator) -> None:
    """In a tight box the paths treat points outside differently, but those that the loss may use come equally often."""
    a = torch.tensor([[1.0, 2.0, -1.0]])
    y = torch.tensor([0.0, 1.0, 1.0])
    bounds = Bounds(torch.zeros(3), torch.ones(3))
    program = program_of(a, 0.4 * a.norm(dim=-1) - a @ y, bounds=bounds)
    unit = (a / a.norm())[0]
    p_down = [min(max(0.4 * unit[i].item(), 0), 1) for i in range(3)]  # the third goes up instead, out of the box
    frequencies = {}
    for name, threshold in (("dense", 2**62), ("sparse", 0)):
        monkeypatch.setattr("neuralilp.negatives.projection.SPARSE_FROM", threshold)
        solution = y.expand(SAMPLES, -1).contiguous()
        negatives = ProjectAndSample()(program, solution, generator=generator)
        usable = admissible(program, negatives)
        points = negatives.points()[usable]
        assert set(map(tuple, points.tolist())) == {(0.0, 0.0, 1.0)}
        frequencies[name] = usable.float().mean().item()
    # Only the second coordinate may move: the first would go below 0, and the third above 1.
    stay = (1 - 0.4 * unit[0].abs().item()) * (1 - 0.4 * unit[2].abs().item())
    p = p_down[1] * stay
    for frequency in frequencies.values():
        assert frequency == pytest.approx(p, abs=DEVIATIONS * math.sqrt(p * (1 - p) / SAMPLES))


def test_an_integral_projection_is_certain(path: str, generator: torch.Generator) -> None:
    """x >= 3 seen from y* = (1, 2): the projection (3, 2) is integral, and is the sample every time."""
    program = program_of(torch.tensor([[2.0, 0.0]]), torch.tensor([-6.0]))
    y = torch.tensor([1.0, 2.0]).expand(50, -1).contiguous()
    points = ProjectAndSample()(program, y, generator=generator).points()
    assert points.unique(dim=0).tolist() == [[[3.0, 2.0]]]


def test_both_sides_of_an_equality(path: str, generator: torch.Generator) -> None:
    """|2x - 6| <= 2 at y* = (0, 0): the planes are x = 2 and x = 4, and both projections are integral."""
    program = program_of(torch.tensor([[2.0, 0.0]]), torch.tensor([-6.0]), torch.tensor([2.0]))
    points = ProjectAndSample()(program, torch.zeros(3, 2), generator=generator).points()
    assert [sorted(map(tuple, example)) for example in points.tolist()] == [[(2.0, 0.0), (4.0, 0.0)]] * 3


def test_on_the_hyperplane_and_zero_rows(path: str, generator: torch.Generator) -> None:
    """y* itself, which is masked: (1, 2) lies on x + y = 3, and a zero row is no hyperplane, whatever its b."""
    program = program_of(torch.tensor([[1.0, 1.0], [0.0, 0.0]]), torch.tensor([-3.0, 7.0]))
    y = torch.tensor([[1.0, 2.0]])
    negatives = ProjectAndSample()(program, y, generator=generator)
    assert negatives.points().tolist() == [[[1.0, 2.0]] * 2]
    assert not admissible(program, negatives).any()
    zero = program_of(torch.zeros(2, 2), torch.ones(2), torch.ones(2))
    negatives = ProjectAndSample()(zero, y, generator=generator)
    assert negatives.points().tolist() == [[[1.0, 2.0]] * 4]


@pytest.mark.parametrize("rows", ["inequalities", "equalities", "mixed", "network", "restarts"])
def test_every_row_projects_its_own_solution(path: str, rows: str, generator: torch.Generator) -> None:
    """Whichever way rows are held: the mean of many samples for one program is the projection on each of its planes."""
    case = random_case(rows, "unbounded", batch=2)
    count = 60
    free = Bounds(torch.full((4,), -math.inf, dtype=torch.float64), torch.full((4,), math.inf, dtype=torch.float64))
    program = IntegerProgram(case.program.cost, free, case.program.learned)
    y = case.solution
    total = torch.stack(
        [ProjectAndSample()(program, y, generator=generator).points() - y.unsqueeze(-2) for _ in range(count)]
    ).mean(0)
    a, b = [], []
    for block in program.blocks:
        explicit_a, explicit_b = block.explicit()
        a.append(explicit_a.expand(*y.shape[:-1], -1, -1))
        b.append(explicit_b.expand(*y.shape[:-1], -1))
    rows_a, rows_b = torch.cat(a, -2), torch.cat(b, -1)
    norm = rows_a.norm(dim=-1)
    distance = ((rows_a @ y.unsqueeze(-1)).squeeze(-1) + rows_b) / norm
    expected = -distance.unsqueeze(-1) * rows_a / norm.unsqueeze(-1)
    # Sparse negatives may come before dense ones, but here all blocks take one path: rows keep their order.
    assert total.shape == expected.shape
    assert bool(((total - expected).abs() <= DEVIATIONS * 0.5 / math.sqrt(count)).all())


def test_only_learned_rows_are_projected_on(path: str, generator: torch.Generator) -> None:
    known = ConstraintBlock(torch.ones(1, 2), torch.ones(1))
    program = IntegerProgram(torch.zeros(2), wide(2), (known,))
    negatives = ProjectAndSample()(program, torch.zeros(3, 2), generator=generator)
    assert negatives.points().shape == (3, 0, 2)


def test_large_problems_take_the_sparse_path(generator: torch.Generator) -> None:
    """Without any constant touched: beyond the threshold, negatives come as places and steps, below it densely."""
    n = 100
    a, b = torch.randn(40, n, generator=generator), torch.full((40,), 0.3)
    program = program_of(a, b, bounds=Bounds(torch.zeros(n), torch.ones(n)))
    large = ProjectAndSample()(program, torch.zeros(100, n), generator=generator)
    small = ProjectAndSample()(program, torch.zeros(2, n), generator=generator)
    assert (large.place.shape[-2], large.dense.shape[-2]) == (40, 0)
    assert (small.place.shape[-2], small.dense.shape[-2]) == (0, 40)


def test_solutions_with_more_batch_dimensions_than_the_program(path: str, generator: torch.Generator) -> None:
    """Programs `(3)` against solutions `(2, 3)`: example i has the row x >= 2i, which is where both its runs land."""
    b = -2.0 * torch.arange(3.0).view(3, 1)
    program = program_of(torch.ones(3, 1, 1), b)
    points = ProjectAndSample()(program, torch.full((2, 3, 1), 9.0), generator=generator).points()
    assert points.flatten(1).tolist() == [[0, 2, 4]] * 2
