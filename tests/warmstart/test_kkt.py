"""The warm start from the optimality conditions: planted rows come back, whatever the scale of the costs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from torch import Tensor

from neuralilp.blocks import Bounds
from neuralilp.errors import InputError, ShapeError
from neuralilp.tasks.random_constraints.data import load
from neuralilp.tasks.random_constraints.generate import generate
from neuralilp.warmstart import OptimalityFit, fit_optimality_conditions
from neuralilp.warmstart.kkt import _Conditions

DATA = Path(os.environ.get("NEURALILP_DATA", "nowhere"))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def worst_cosine(fit: OptimalityFit, true_a: Tensor) -> float:
    """Of the true normal that the best restart comes least close to."""
    true = torch.nn.functional.normalize(true_a.to(fit.a.dtype), dim=-1)
    return (fit.a[fit.best] @ true.mT).amax(0).min().item()


def box(n: int, low: float = -3, high: float = 3, dtype: torch.dtype = torch.float64) -> Bounds:
    return Bounds(torch.full((n,), low, dtype=dtype), torch.full((n,), high, dtype=dtype))


def some_examples(count: int = 40, n: int = 4) -> tuple[Tensor, Tensor]:
    """Examples in the box [-3, 3], optimal or not."""
    cost = 2 * torch.rand(count, n, generator=seeded(1), dtype=torch.float64) - 1
    return cost, torch.randint(-3, 4, (count, n), generator=seeded(2)).double()


@pytest.mark.parametrize(("n", "rows", "seed"), [(6, 2, 0), (8, 3, 1)])
def test_recovers_planted_normals(n: int, rows: int, seed: int) -> None:
    data = generate(
        "planted", num_constraints=rows, lower=-5, upper=5, num_variables=n, num_train=400, num_test=1, seed=seed
    )
    bounds = Bounds(data.lower, data.upper)
    fit = fit_optimality_conditions(
        data.cost[:400], data.solution[:400], bounds, 2 * rows, iterations=1000, generator=seeded()
    )
    assert worst_cosine(fit, data.true_a) > 0.999
    # The offsets too: a row found is tight to the data, and so close to the plane that is.
    nearest = (fit.a[fit.best] @ data.true_a.mT).argmax(0)
    assert torch.allclose(fit.b[fit.best][nearest], data.true_b, atol=0.3)


@pytest.mark.skipif(
    not (DATA / "random_constraints").is_dir(),
    reason="needs the published datasets: set NEURALILP_DATA to the folder that holds random_constraints",
)
def test_recovers_the_rows_of_a_published_dataset() -> None:
    data = load(DATA, "dense", 8, 0)
    train = data.split().train
    bounds = Bounds(data.lower, data.upper)
    fit = fit_optimality_conditions(train.cost, train.solution, bounds, 16, generator=seeded())
    assert worst_cosine(fit, data.true_a) > 0.9999


def test_learns_a_triangle_without_bounds() -> None:
    """x >= 0, y >= 0, x + y <= 4: a linear cost is least in a corner, and all corners are integral."""
    true = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-(0.5**0.5), -(0.5**0.5)]], dtype=torch.float64)
    corners = torch.tensor([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]], dtype=torch.float64)
    cost = 2 * torch.rand(200, 2, generator=seeded(), dtype=torch.float64) - 1
    solution = corners[(cost @ corners.mT).argmin(-1)]
    free = box(2, -torch.inf, torch.inf)
    fit = fit_optimality_conditions(cost, solution, free, 3, iterations=600, generator=seeded())
    assert worst_cosine(fit, true) > 0.999
    nearest = (fit.a[fit.best] @ true.mT).argmax(0)
    assert torch.allclose(fit.b[fit.best][nearest], torch.tensor([0.0, 0.0, 8**0.5]).double(), atol=0.1)


def test_gradients_agree_with_autograd() -> None:
    cost, solution = some_examples()
    problem = _Conditions(cost, solution, box(4))
    a = torch.randn(2, 3, 4, generator=seeded(3), dtype=torch.float64)
    b = torch.randn(2, 3, generator=seeded(4), dtype=torch.float64)
    multipliers = torch.rand(2, 3, 40, generator=seeded(5), dtype=torch.float64)
    variables = tuple(tensor.clone().requires_grad_() for tensor in (a, multipliers, b))

    # The objective as the docstring has it, example by example.
    total = torch.zeros((), dtype=torch.float64)
    for restart in range(2):
        unit = variables[0][restart] / variables[0][restart].norm(dim=-1, keepdim=True)
        for s in range(40):
            weight, distance = variables[1][restart, :, s], unit @ solution[s] + variables[2][restart]
            for residual, y in zip(cost[s] - unit.mT @ weight, solution[s], strict=True):
                counts = (y > -3 or residual < 0) and (y < 3 or residual > 0)
                total = total + residual**2 * counts / 40
            total = total + (0.2 * weight @ distance.abs() + 0.7 * distance.clamp(max=0).square().sum()) / 40
    assert torch.allclose(problem.objective(a, b, multipliers, 0.2, 0.7).sum(), total)
    expected = torch.autograd.grad(total, variables)
    for mine, its in zip(problem.gradients(a, b, multipliers, 0.2, 0.7), expected, strict=True):
        torch.testing.assert_close(mine, its)


def test_fixed_variables_explain_any_cost() -> None:
    """A variable with one value has duals of either sign, so its cost says nothing."""
    cost, solution = some_examples(n=2)
    lower, upper = torch.tensor([1.0, -3.0]).double(), torch.tensor([1.0, 3.0]).double()
    solution[:, 0] = 1
    problem = _Conditions(cost, solution, Bounds(lower, upper))
    a, multipliers = torch.eye(2, dtype=torch.float64)[None], torch.zeros(1, 2, 40, dtype=torch.float64)
    assert (problem.residual(a, multipliers)[0, 0] == 0).all()
    assert (problem.residual(a, multipliers)[0, 1] != 0).any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scale_of_costs_changes_multipliers_alone(dtype: torch.dtype) -> None:
    cost, solution = (tensor.to(dtype) for tensor in some_examples())
    bounds = box(4, dtype=dtype)
    fit = fit_optimality_conditions(cost, solution, bounds, 3, iterations=60, generator=seeded())
    for factor in (1024.0, 1e-3):  # a power of two does not even round
        other = fit_optimality_conditions(factor * cost, solution, bounds, 3, iterations=60, generator=seeded())
        rounding = 0 if factor == 1024 else 1e-3 if dtype is torch.float32 else 1e-9
        for mine, its in zip(fit[:2], other[:2], strict=True):
            torch.testing.assert_close(its, mine, rtol=rounding, atol=rounding)
        torch.testing.assert_close(other.multipliers / factor, fit.multipliers, rtol=rounding, atol=rounding)
        torch.testing.assert_close(other.objective, fit.objective, rtol=rounding, atol=rounding)
        assert other.a.dtype is other.multipliers.dtype is dtype


def test_what_comes_back() -> None:
    cost, solution = some_examples()
    reports: list[tuple[int, Tensor]] = []
    fit = fit_optimality_conditions(
        cost, solution, box(4), 3, restarts=5, iterations=120, generator=seeded(), progress=lambda *r: reports.append(r)
    )
    assert (fit.a.shape, fit.b.shape, fit.multipliers.shape) == ((5, 3, 4), (5, 3), (5, 40, 3))
    torch.testing.assert_close(fit.a.norm(dim=-1), torch.ones(5, 3, dtype=torch.float64))
    assert (fit.multipliers >= 0).all()
    distance = fit.a @ solution.mT + fit.b.unsqueeze(-1)
    assert (distance >= 0).all()  # no example is cut off,
    assert (distance.amin(-1) == 0).all()  # and every row touches one
    assert fit.best == fit.objective.argmin()
    assert [done for done, _ in reports] == [50, 100]
    assert all(objective.shape == (5,) for _, objective in reports)


def test_generator_decides_all() -> None:
    cost, solution = some_examples()
    first, second, other = (
        fit_optimality_conditions(cost, solution, box(4), 3, iterations=20, generator=seeded(seed))
        for seed in (7, 7, 8)
    )
    assert all(torch.equal(mine, its) for mine, its in zip(first[:4], second[:4], strict=True))
    assert not torch.equal(first.a, other.a)


@pytest.mark.wrong_types
def test_errors() -> None:
    cost, solution = some_examples()
    bounds = box(4)
    for name in ("num_constraints", "restarts", "iterations", "learning_rate"):
        options = {"num_constraints": 2, name: 0}
        with pytest.raises(InputError, match=f"{name} must be positive, got 0"):
            fit_optimality_conditions(cost, solution, bounds, **options)
    with pytest.raises(InputError, match=r"violation must be two positive weights, got \(0, 1\)"):
        fit_optimality_conditions(cost, solution, bounds, 2, violation=(0, 1))
    with pytest.raises(InputError, match="cost must not be zero in every example"):
        fit_optimality_conditions(0 * cost, solution, bounds, 2)
    with pytest.raises(InputError, match=r"solution must be integral: example 0 has z\[0\]"):
        fit_optimality_conditions(cost, solution + 0.5, bounds, 2)
    with pytest.raises(InputError, match="solution must lie within the bounds"):
        fit_optimality_conditions(cost, solution + 7, bounds, 2)
    with pytest.raises(InputError, match=r"cost must be finite: example 0 has c\[0\] = nan"):
        fit_optimality_conditions(cost * torch.nan, solution, bounds, 2)
    with pytest.raises(ShapeError, match=r"cost must be `example var`, got shape \(4,\)"):
        fit_optimality_conditions(cost[0], solution[0], bounds, 2)
    with pytest.raises(ShapeError, match="bounds must be those of all examples"):
        fit_optimality_conditions(cost, solution, Bounds(solution - 1, solution + 1), 2)
    with pytest.raises(ShapeError, match=r"solution must have shape \(40, 4\), got \(39, 4\)"):
        fit_optimality_conditions(cost, solution[:39], bounds, 2)
