"""Cost modules: the input itself, a static learnable vector, a network."""

from __future__ import annotations

import torch
from torch import nn

from neuralilp.costs import KnownCost, LearnableCost, NetworkCost


def test_known_cost() -> None:
    x = torch.tensor([[1.0, -2.0]])
    assert KnownCost()(x) is x
    assert KnownCost(-1.0)(x).tolist() == [[-1.0, 2.0]]
    assert not KnownCost.is_learned
    assert list(KnownCost().parameters()) == []
    assert KnownCost(**KnownCost(-1.0).config())(x).tolist() == [[-1.0, 2.0]]


def test_learnable_cost() -> None:
    """A standard Gaussian from the generator given: same seed, same start, whatever the global generator does."""
    torch.manual_seed(1)
    first = LearnableCost(1000, generator=torch.Generator().manual_seed(7))
    torch.manual_seed(2)
    again = LearnableCost(1000, generator=torch.Generator().manual_seed(7))
    other = LearnableCost(1000, generator=torch.Generator().manual_seed(8))
    assert torch.equal(first.cost, again.cost)
    assert not torch.equal(first.cost, other.cost)
    # The mean of 1000 has standard deviation 0.032, that of their squares 0.045: five of them.
    assert abs(first.cost.mean().item()) < 0.16
    assert abs(first.cost.square().mean().item() - 1) < 0.23
    assert first(torch.zeros(5, 3)) is first.cost
    assert first.is_learned
    assert first.config() == {"num_variables": 1000}


def test_network_cost() -> None:
    network = nn.Linear(3, 2)
    cost = NetworkCost(network)
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(cost(x), network(x))
    assert cost.is_learned
    assert {id(p) for p in cost.parameters()} == {id(p) for p in network.parameters()}
