"""Polishing: the search against enumeration, the fit against autograd, and rounds that can be taken up again."""

from __future__ import annotations

import dataclasses
import io
import itertools
import math

import pytest
import torch
from torch import Tensor

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.errors import InputError, ShapeError
from neuralilp.negatives.nearest import distinct, moves, nearest_improving
from neuralilp.polishing import Polishing, PolishState, fit_pool, polish, polish_round, pool_loss, prune, start
from neuralilp.program import IntegerProgram
from neuralilp.solving import solve
from neuralilp.tasks.random_constraints.generate import generate
from neuralilp.warmstart import fit_optimality_conditions


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=seeded(seed), dtype=torch.float64)


def as_set(points: Tensor) -> set[tuple[float, ...]]:
    return {tuple(point) for point in points.tolist()}


def nearest_by_enumeration(
    a: Tensor, b: Tensor, c: Tensor, y: Tensor, z: Tensor, box: Bounds, hops: int
) -> list[Tensor]:
    """All points up to ``hops`` unit moves of z that beat y, nearest first, one at a time."""
    found = []
    for step in itertools.product((-1, 0, 1), repeat=len(y)):
        point = z + torch.tensor(step, dtype=y.dtype)
        moved = sum(map(abs, step))
        if 1 <= moved <= hops and box.contain(point).all() and c @ point < c @ y - 1e-9:
            found.append((-((a @ point + b) / a.norm(dim=-1)).min().item(), point))
    return [point for _, point in sorted(found, key=lambda pair: pair[0])]


BOXES = {
    "uneven": ([-2.0, 0.0, -1.0, 3.0], [2.0, 1.0, 1.0, 4.0]),
    "not integral": ([-1.5, -0.5, -0.5, 0.0], [1.5, 1.5, 0.5, 1.0]),
    "half open": ([-torch.inf, 0.0, -2.0, -torch.inf], [1.0, torch.inf, 2.0, torch.inf]),
}


@pytest.mark.parametrize("name", BOXES)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_search_agrees_with_enumeration(name: str, depth: int) -> None:
    bounds = Bounds(*(torch.tensor(bound, dtype=torch.float64) for bound in BOXES[name]))
    low, high = bounds.integral_lower.clamp(min=-2), bounds.integral_upper.clamp(max=5)
    a, b, cost = 3 * normal(3, 4), normal(3, seed=1), normal(30, 4, seed=2)
    solution = low + ((high - low + 1) * torch.rand(30, 4, generator=seeded(3), dtype=torch.float64)).floor()
    expected = set()
    for c, y in zip(cost, solution, strict=True):
        found = nearest_by_enumeration(a, b, c, y, y, bounds, 3)[:6]
        expected |= as_set(torch.stack(found)) if found else set()
        for _ in range(depth - 1):
            later = [near for z in found[:2] for near in nearest_by_enumeration(a, b, c, y, z, bounds, 2)[:3]]
            found = sorted(later, key=lambda z: -((a @ z + b) / a.norm(dim=-1)).min().item())
            expected |= as_set(torch.stack(found)) if found else set()
    points = nearest_improving(a, b, cost, solution, bounds, hops=3, top=6, beam=2, depth=depth)
    assert as_set(points) == expected
    assert len(points) == len(expected)


def test_search_does_not_take_rounding_for_improvement() -> None:
    """In float32 c·z of a large z is off by 1e-3 or so: all that is found must be cheaper in exact numbers."""
    cost = torch.rand(1, 12, generator=seeded()) + 0.1
    cost[:, 1] = cost[:, 0]  # moving one up and the other down costs nothing
    solution = 1000 + torch.randint(0, 9, (1, 12), generator=seeded(1)).float()
    bounds = Bounds(torch.full((12,), -torch.inf), torch.full((12,), torch.inf))
    a, b = torch.randn(3, 12, generator=seeded(2)), torch.zeros(3)
    points = nearest_improving(a, b, cost, solution, bounds, top=10**4)
    gain = (points - solution).double() @ cost[0].double()
    assert len(points) > 100
    assert gain.max() < 0


def test_search_asks_for_more_than_the_tolerance() -> None:
    """What counts as a gain begins at 1e-5 (|c_1| + |c_2|) = 2e-5; the move (1, -1) gains 1e-5, or 3e-5."""
    solution = torch.zeros(1, 2).double()
    bounds, rows = Bounds(solution[0] - 1, solution[0] + 1), torch.eye(2).double()
    clear = {(-1.0, 0.0), (0.0, -1.0), (-1.0, -1.0)}
    for gain, found in ((1e-5, clear), (3e-5, clear | {(1.0, -1.0)})):
        cost = torch.tensor([[1.0, 1 + gain]]).double()
        assert as_set(nearest_improving(rows, 0 * solution[0], cost, solution, bounds)) == found


def test_search_has_nothing_to_offer_for_a_corner() -> None:
    """y at the cheapest corner of its box cannot be improved."""
    bounds = Bounds(torch.zeros(3), torch.ones(3))
    points = nearest_improving(torch.eye(3), torch.zeros(3), torch.ones(2, 3), torch.zeros(2, 3), bounds)
    assert points.shape == (0, 3)


def test_moves_are_all_or_a_choice() -> None:
    like = torch.zeros(7)
    everything = moves(like, 3, 10**6)
    count = sum(math.comb(7, hop) * 2**hop for hop in (1, 2, 3))
    assert len(everything) == len(as_set(everything)) == count
    assert as_set(everything.abs().sum(-1, keepdim=True)) == {(1,), (2,), (3,)}
    assert len(moves(like, 9, 10**6)) == 3**7 - 1  # no more variables than there are

    chosen = moves(like, 3, 200, seeded())
    assert as_set(chosen) < as_set(everything)
    size = chosen.abs().sum(-1)
    assert ((size == 1).sum(), (size == 2).sum()) == (14, 84)  # both fit into even shares of 200
    assert 50 <= (size == 3).sum() <= 102
    assert torch.equal(chosen, moves(like, 3, 200, seeded()))
    assert not torch.equal(chosen[98:130], moves(like, 3, 200, seeded(1))[98:130])
    assert len(moves(like, 2, 1)) == 14


@pytest.mark.parametrize("width", [5, 40])  # 40 is too wide to number the points
def test_distinct_sorts_rows(width: int) -> None:
    points = torch.randint(-4, 5, (300, width), generator=seeded()).float()
    points = torch.cat([points, points[:100]])
    assert torch.equal(distinct(points), torch.unique(points, dim=0))
    assert distinct(points[:0]).shape == (0, width)


def plain_loss(a: Tensor, b: Tensor, pool: Tensor, solution: Tensor, margin: float) -> Tensor:
    """The formula of :func:`fit_pool` as it is written."""
    unit = a / a.norm(dim=-1, keepdim=True)
    inside = solution @ unit.mT + b.unsqueeze(1)
    outside = pool @ unit.mT + b.unsqueeze(1)
    negative = (margin + outside.amin(-1)).clamp(min=0).sum(-1)
    return ((margin - inside).clamp(min=0).sum((1, 2)) + negative) / len(solution)


def test_gradient_of_the_pool_agrees_with_autograd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neuralilp.polishing.CHUNK", 64)  # several chunks, the last one shorter
    a, b = normal(2, 3, 5).requires_grad_(), normal(2, 3, seed=1).requires_grad_()
    pool, solution = normal(50, 5, seed=2).round(), normal(20, 5, seed=3).round()
    expected = plain_loss(a, b, pool, solution, 0.3)
    loss, *gradients = pool_loss(a.detach(), b.detach(), pool.mT, solution.mT, 0.3)
    torch.testing.assert_close(loss, expected.detach())
    for mine, its in zip(gradients, torch.autograd.grad(expected.sum(), (a, b)), strict=True):
        torch.testing.assert_close(mine, its)


def test_fit_agrees_with_plain_adam() -> None:
    first, first_b = torch.nn.functional.normalize(normal(2, 3, 5), dim=-1), normal(2, 3, seed=1)
    pool, solution = normal(200, 5, seed=2).round(), normal(60, 5, seed=3).round()
    a, b = first.clone().requires_grad_(), first_b.clone().requires_grad_()
    optimizer = torch.optim.Adam([a, b], betas=(0.9, 0.99))
    for step in range(30):
        optimizer.param_groups[0]["lr"] = 0.01 * (0.5 * (1 + math.cos(math.pi * step / 30)) + 0.01)
        optimizer.zero_grad()
        plain_loss(a, b, pool, solution, 0.1 * 0.1 ** (step / 30)).sum().backward()
        optimizer.step()
    fitted = fit_pool(first, first_b, pool, solution, steps=30, learning_rate=0.01, margins=(0.1, 0.01))
    expected = (a / a.norm(dim=-1, keepdim=True), b, plain_loss(a, b, pool, solution, 0.01))
    for mine, its in zip(fitted, expected, strict=True):
        torch.testing.assert_close(mine, its.detach())
    assert torch.equal(first_b, normal(2, 3, seed=1))  # what was given stays as it was


def test_prune_by_hand() -> None:
    """Points of a line; the rows cut off z < 0, z < -1 (within the first), z > 3, z > 9 and nothing."""
    a = torch.tensor([[1.0], [1.0], [-1.0], [-1.0], [1.0]])
    b = torch.tensor([0.0, 1.0, 3.0, 9.0, 100.0])
    pool = torch.tensor([[-3.0], [-2.0], [-1.0], [4.0], [5.0], [10.0]])
    # Alone: row 0 cuts -1; row 2 cuts 4 and 5; the others nothing. Without row 4, then 1, then 3, row 0 alone cuts
    # three points and row 2 three.
    assert prune(a, b, pool, 0).tolist() == [0, 2]
    # At 3 more the first goes too, and the last one stays, though it separates no more than that.
    assert prune(a, b, pool, 3).tolist() == [2]


@pytest.fixture(scope="module")
def problem() -> tuple[PolishState, Tensor, Tensor, Bounds, Tensor, Tensor]:
    """A start for polishing, examples, their box, and examples to test on."""
    data = generate("small", num_constraints=2, lower=-5, upper=5, num_variables=6, num_train=400, num_test=100, seed=3)
    bounds, cost, solution = Bounds(data.lower, data.upper), data.cost[:400], data.solution[:400]
    fit = fit_optimality_conditions(cost, solution, bounds, 4, restarts=2, iterations=800, generator=seeded())
    return start(fit.a, fit.b + 0.001, cost), cost, solution, bounds, data.cost[400:], data.solution[400:]


def test_polished_rows_solve_new_instances(
    problem: tuple[PolishState, Tensor, Tensor, Bounds, Tensor, Tensor],
) -> None:
    state, cost, solution, bounds, new_cost, new_solution = problem
    rounds: list[int] = []
    end = polish(state.a, state.b, cost, solution, bounds, on_round=lambda state: rounds.append(state.round))
    assert rounds == [1, 2, 3, 4, 5, 6]
    assert len(end.a) == 1
    assert end.a.shape[1] == 2  # of the four rows, those that are there
    assert not ((end.a[0] @ solution.mT + end.b[0].unsqueeze(-1)) < -1e-3).any()
    program = IntegerProgram(new_cost, bounds, (ConstraintBlock(end.a[0], end.b[0]),))
    assert (solve(program).z == new_solution).all(-1).double().mean() >= 0.95


def test_taken_up_again_it_is_the_same(problem: tuple[PolishState, Tensor, Tensor, Bounds, Tensor, Tensor]) -> None:
    state, *examples, _, _ = problem
    settings = Polishing(rounds=3, steps=20, prune_round=1, max_moves=60, depth=2, seed=5)
    states: list[PolishState] = []
    end = polish(state.a, state.b, *examples, settings=settings, on_round=states.append)
    for reached in states:
        file = io.BytesIO()
        torch.save(reached._asdict(), file)
        file.seek(0)
        torch.rand(3)  # what others draw does not matter
        saved = PolishState(**torch.load(file, weights_only=True))
        again = polish(state.a, state.b, *examples, settings=settings, state=saved)
        assert again.round == end.round == 3
        assert all(torch.equal(mine, its) for mine, its in zip(again[1:], end[1:], strict=True))
    other = polish(state.a, state.b, *examples, settings=dataclasses.replace(settings, seed=6))
    assert not torch.equal(other.pool, end.pool)


def test_a_round_leaves_its_state_alone(problem: tuple[PolishState, Tensor, Tensor, Bounds, Tensor, Tensor]) -> None:
    state, *examples, _, _ = problem
    shifted = state.b - torch.tensor([[0.0], [2.0]])  # all of the pool is far outside the second restart
    state = state._replace(b=shifted)
    before = [tensor.clone() for tensor in state[1:]]
    settings = Polishing(rounds=2, steps=10, prune_round=1)
    after = polish_round(state, *examples, settings)
    assert all(torch.equal(mine, its) for mine, its in zip(state[1:3], before[:2], strict=True))
    assert not torch.equal(after.a, state.a)
    distance = (after.pool @ state.a.mT + state.b.unsqueeze(1)).amin(-1)
    assert (distance.amax(0) > -settings.reach).all()
    assert (distance[1] < -settings.reach).any()  # near one restart is enough
    for restart, (a, b) in enumerate(zip(after.a, after.b, strict=True)):
        assert after.unseparated[restart] == ((after.pool @ a.mT + b).amin(-1) >= 0).sum()
        assert after.violated[restart] == ((examples[1] @ a.mT + b).amin(-1) < 0).sum()


@pytest.mark.wrong_types
def test_errors() -> None:
    cost, solution, bounds = torch.ones(2, 3), torch.zeros(2, 3), Bounds(torch.zeros(3), torch.ones(3))
    a, b = torch.eye(3), torch.zeros(3)
    for name in ("hops", "top", "beam", "depth", "max_moves"):
        with pytest.raises(InputError, match=f"{name} must be positive, got 0"):
            nearest_improving(a, b, cost, solution, bounds, **{name: 0})
        with pytest.raises(InputError, match=f"{name} must be positive, got 0"):
            Polishing(**{name: 0})
    with pytest.raises(ShapeError, match=r"with 3 variables and at least one row, got shapes \(3, 2\) and \(3,\)"):
        nearest_improving(a[:, :2], b, cost, solution, bounds)
    with pytest.raises(ShapeError, match=r"a and b must have the dtype of cost, torch\.float32, got torch\.float64"):
        nearest_improving(a.double(), b.double(), cost, solution, bounds)
    with pytest.raises(InputError, match="a and b must be finite"):
        nearest_improving(a, b * torch.nan, cost, solution, bounds)
    with pytest.raises(InputError, match=r"a must have no zero row: row \[0, 2\] is zero"):
        polish(a[None] * torch.tensor([[1.0], [1.0], [0.0]]), b[None], cost, solution, bounds)
    with pytest.raises(ShapeError, match=r"a must be `restart constr var`, got shape \(3, 3\)"):
        polish(a, b, cost, solution, bounds)
    with pytest.raises(InputError, match=r"margins must be positive, got 10, 0.1 and \(0, 1\)"):
        fit_pool(a[None], b[None], solution, solution, steps=10, learning_rate=0.1, margins=(0, 1))
    with pytest.raises(InputError, match=r"margins must be two positive numbers, got \(0.1, 0\)"):
        Polishing(margins=(0.1, 0))
    with pytest.raises(InputError, match="prune_round must be one of the 3 rounds, from 0, got 3"):
        Polishing(rounds=3, prune_round=3)
    with pytest.raises(InputError, match="allow must not be negative, got -1"):
        Polishing(allow=-1)
