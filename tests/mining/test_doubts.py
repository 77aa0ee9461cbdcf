"""Wrong examples are those that break what hardly any other breaks."""

from __future__ import annotations

import math

import torch

from neuralilp.distill import Axes
from neuralilp.mining import doubtful
from neuralilp.mining.doubts import strength


def choices(examples: int, groups: int = 4, size: int = 4) -> torch.Tensor:
    """One of each group of variables is 1, at random."""
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randint(size, (examples, groups), generator=generator)
    return torch.nn.functional.one_hot(chosen, size).flatten(1).double()


def test_right_examples_are_not_in_doubt() -> None:
    assert not doubtful(choices(300)).any()
    assert not doubtful(choices(300), Axes(("group", "member"), (4, 4))).any()


def test_two_of_a_group_are_in_doubt() -> None:
    """By pairs alone: two members of a group never occur together but in the wrong examples."""
    y = choices(1000)
    wrong = torch.tensor([3, 77, 200])
    y[wrong, :4] = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    assert doubtful(y).nonzero().flatten().tolist() == wrong.tolist()


def test_none_of_a_group_is_seen_by_the_sum() -> None:
    """No pair is broken where a whole group is 0, but its sum is."""
    y = choices(300)
    y[[5, 50], :4] = 0
    assert not doubtful(y).any()
    assert doubtful(y, Axes(("group", "member"), (4, 4))).nonzero().flatten().tolist() == [5, 50]


def test_independent_variables_break_nothing() -> None:
    y = (torch.rand(300, 12, generator=torch.Generator().manual_seed(1)) < 0.3).double()
    assert not doubtful(y, Axes(("one", "other"), (3, 4))).any()


def test_a_rule_that_many_break_is_none() -> None:
    """At a fifth of all it is a habit."""
    y = choices(300)
    y[:60, :4] = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    assert not doubtful(y).any()


def test_strength_bounds_the_poisson_tail() -> None:
    """P(X <= 2) for a mean of 20, against the bound, and no strength where more break it than by accident."""
    tail = sum(math.exp(-20) * 20**count / math.factorial(count) for count in range(3))
    broken, expected = torch.tensor([2.0, 0.0, 5.0]).double(), torch.tensor([20.0, 7.0, 4.0]).double()
    bound = strength(broken, expected)
    assert tail <= math.exp(-float(bound[0])) < 20 * tail
    assert bound[1:].tolist() == [7, 0]
