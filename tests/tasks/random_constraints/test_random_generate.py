"""New datasets by the published recipe."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from neuralilp.blocks import Bounds
from neuralilp.errors import InputError
from neuralilp.tasks.random_constraints.generate import generate, random_costs, random_rows


def box(lower: float, upper: float, n: int) -> Bounds:
    return Bounds(torch.full((n,), float(lower)), torch.full((n,), float(upper)))


def test_rows_follow_the_recipe(generator: torch.Generator) -> None:
    """Unit normals; the origin is uniform over [-2.5, 2.5] in the box [-5, 5], so a·o has the variance 25/12."""
    bounds = box(-5, 5, 16)
    rows = random_rows(bounds, 4000, generator)
    torch.testing.assert_close(rows.a.norm(dim=-1), torch.ones(4000))
    # b = ±(0.2 - a·o), so b² has mean 0.04 + 25/12.
    assert rows.b.square().mean().item() == pytest.approx(0.04 + 25 / 12, rel=0.05)
    assert rows.b.abs().max() <= 0.2 + 2.5 * 4


def test_middle_half_of_a_box_that_is_not_centred(generator: torch.Generator) -> None:
    """In one dimension a = ±1, so the hyperplane z = -b/a lies 0.2 from an origin between 12 and 16 in [10, 18]."""
    rows = random_rows(box(10, 18, 1), 2000, generator)
    planes = -rows.b / rows.a[:, 0]
    assert 11.8 <= planes.min() < 12.1
    assert 15.9 < planes.max() <= 16.2


def test_each_row_has_an_origin_of_its_own(generator: torch.Generator) -> None:
    """With one origin for all, two rows with equal normals would coincide: in one dimension, all of them."""
    rows = random_rows(box(-5, 5, 1), 50, generator)
    assert len((rows.b / rows.a[:, 0]).unique()) == 50


@pytest.mark.parametrize(("lower", "upper"), [(0, 1), (-5, 5), (-0.5, 1.5), (-0.7, 2.4)])
def test_some_integer_corner_is_feasible(lower: float, upper: float, generator: torch.Generator) -> None:
    bounds = box(lower, upper, 4)
    ends = (bounds.integral_lower[0].item(), bounds.integral_upper[0].item())
    corners = torch.tensor(list(itertools.product(ends, repeat=4)))
    for _ in range(50):
        rows = random_rows(bounds, 8, generator)
        assert (rows.values(corners) >= 0).all(-1).any()


def test_costs_are_uniform(generator: torch.Generator) -> None:
    cost = random_costs(5000, 4, generator)
    assert -1 <= cost.min() < -0.99
    assert 0.99 < cost.max() <= 1
    assert cost.mean().abs() < 0.02


@pytest.mark.parametrize(("lower", "upper"), [(0, 1), (-2, 2)])
def test_solutions_are_optimal(lower: float, upper: float) -> None:
    """Against all integer points of the box."""
    dataset = generate("x", num_constraints=3, lower=lower, upper=upper, num_variables=4, num_train=30, num_test=10)
    assert dataset.cost.shape == dataset.solution.shape == (40, 4)
    assert (dataset.name, dataset.num_train) == ("x", 30)
    assert dataset.true_a is not None
    assert dataset.true_b is not None
    points = torch.tensor(list(itertools.product(range(int(lower), int(upper) + 1), repeat=4))).float()
    feasible = points[(points @ dataset.true_a.mT + dataset.true_b >= 0).all(-1)]
    best = feasible[(dataset.cost @ feasible.mT).argmin(-1)]
    assert torch.equal(dataset.solution, best)
    assert len(feasible) < len(points)


def test_seeds() -> None:
    def make(seed: int, workers: int = 1) -> str:
        sizes: dict[str, Any] = {"num_constraints": 2, "num_variables": 5, "num_train": 20, "num_test": 5}
        return generate("x", lower=-5, upper=5, seed=seed, workers=workers, **sizes).fingerprint

    assert make(0) == make(0) == make(0, workers=2)
    assert make(0) != make(1)


def test_costs_that_are_not_solved_in_time() -> None:
    with pytest.raises(
        InputError, match=r"after drawing costs 10 times, .* of 4 are still not solved .*time than 0.0 s"
    ):
        generate("x", num_constraints=8, lower=-5, upper=5, num_train=3, num_test=1, time_limit=0.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_constraints": 0}, "num_constraints must be positive, got 0"),
        ({"num_test": 0}, "num_test must be positive, got 0"),
        ({"lower": 2.0}, "lower must not be above upper"),
        ({"upper": torch.inf}, "lower and upper must be finite, got 0 and inf"),
    ],
)
def test_bad_arguments(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        generate("x", **({"num_constraints": 1, "lower": 0.0, "upper": 1.0} | changes))
