"""Exact answers of knapsacks against all choices, one by one."""

from __future__ import annotations

import itertools

import pytest
import torch

from neuralilp.errors import InputError, ShapeError
from neuralilp.tasks.knapsack.exact import solve_knapsacks


@pytest.mark.parametrize("seed", range(3))
def test_against_all_choices(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    price = torch.randint(1, 12, (40, 7), generator=generator)
    weight = torch.randint(0, 9, (40, 7), generator=generator)
    z, is_unique = solve_knapsacks(price, weight, 15)
    choices = torch.tensor(list(itertools.product((0, 1), repeat=7)))
    value = torch.where(choices @ weight.mT <= 15, choices @ price.mT, -1)
    best = value.amax(0)
    assert torch.equal((z.long() * price).sum(1), best)
    assert bool(((z.long() * weight).sum(1) <= 15).all())
    assert torch.equal(is_unique, (value == best).sum(0) == 1)
    assert 0 < int(is_unique.sum()) < 40


def test_many_at_once_are_solved_as_one_by_one() -> None:
    generator = torch.Generator().manual_seed(5)
    price, weight = (torch.randint(1, 40, (1100, 5), generator=generator) for _ in range(2))
    z, is_unique = solve_knapsacks(price, weight, 60)
    for i in (0, 499, 500, 1099):
        alone = solve_knapsacks(price[i : i + 1], weight[i : i + 1], 60)
        assert torch.equal(alone.z[0], z[i])
        assert alone.is_unique[0] == is_unique[i]


def test_nothing_fits() -> None:
    z, is_unique = solve_knapsacks(torch.tensor([[5, 6]]), torch.tensor([[3, 3]]), 2)
    assert not z.any()
    assert is_unique.all()


@pytest.mark.wrong_types
def test_bad_arguments() -> None:
    two = torch.ones(1, 2, dtype=torch.long)
    with pytest.raises(ShapeError, match=r"price and weight must both be `instance item`, got \(1, 2\) and \(1, 1\)"):
        solve_knapsacks(two, two[:, :1], 3)
    with pytest.raises(InputError, match="capacity and weight must not be negative, got -1 and 1"):
        solve_knapsacks(two, two, -1)
    with pytest.raises(InputError, match="capacity and weight must not be negative, got 1 and -1"):
        solve_knapsacks(two, -two, 1)
