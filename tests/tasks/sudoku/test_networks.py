"""Perception: blanks computed once give what computing all of them gives, and learning two shapes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from neuralilp.constraints import Box
from neuralilp.costs import NetworkCost
from neuralilp.errors import InputError, ShapeError
from neuralilp.model import NeuralILP
from neuralilp.tasks.sudoku.networks import LeNet, VisualCost


def boards(generator: torch.Generator, given: float, dtype: torch.dtype = torch.float64) -> Tensor:
    images = torch.rand(2, 3, 16, 28, 28, dtype=dtype, generator=generator)
    return images * (torch.rand(2, 3, 16, 1, 1, generator=generator) < given)


@pytest.mark.parametrize("given", [0.0, 0.4, 1.0])
def test_skipping_blanks_changes_nothing(given: float, generator: torch.Generator) -> None:
    network = LeNet(4, generator=generator).double()
    images = boards(generator, given)
    weight = torch.randn(2, 3, 16, 4, dtype=torch.float64, generator=generator)

    def gradients(logits: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad((logits * weight).sum(), tuple(network.parameters()))

    logits = network(images)
    plain = network.layers(images.view(-1, 1, 28, 28)).view(2, 3, 16, 4)
    torch.testing.assert_close(logits, plain)
    for ours, theirs in zip(gradients(logits), gradients(plain), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_blanks_are_computed_once(generator: torch.Generator) -> None:
    network = LeNet(4, generator=generator).double()
    seen = []
    network.layers.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    images = boards(generator, 0.4)
    network(images)
    assert seen == [int(images.flatten(3).any(-1).sum()) + 1]


def test_layers_of_the_classic() -> None:
    """LeNet-5 for 28×28 without padding: 6·26 + 16·151 + 120·257 + 84·121 + 10·85 weights."""
    network = LeNet(10, channels=(6, 16), hidden=(120, 84))
    assert sum(p.numel() for p in network.parameters()) == 6 * 26 + 16 * 151 + 120 * 257 + 84 * 121 + 10 * 85


def test_the_cost_is_minus_the_scores(generator: torch.Generator) -> None:
    network = LeNet(4, generator=generator)
    images = boards(generator, 0.4, torch.float32)[0]
    model = NeuralILP(NetworkCost(VisualCost(network)), [], Box(0.0, 1.0, 64))
    cost = model(images).cost
    assert cost.shape == (3, 64)
    assert torch.equal(cost.view(3, 16, 4), -network(images))


def test_learns_two_shapes(generator: torch.Generator) -> None:
    """A bar across or upright, anywhere, in noise."""
    network = LeNet(2, generator=generator)
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)

    def draw(count: int) -> tuple[Tensor, Tensor]:
        images = 0.3 * torch.rand(count, 28, 28, generator=generator)
        label = torch.randint(2, (count,), generator=generator)
        at = torch.randint(4, 24, (count,), generator=generator)
        for image, kind, place in zip(images, label.tolist(), at.tolist(), strict=True):
            (image if kind == 0 else image.T)[place, 4:24] = 1
        return images, label

    for _ in range(30):
        images, label = draw(64)
        loss = functional.cross_entropy(network(images), label)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    images, label = draw(200)
    assert (network(images).argmax(-1) == label).float().mean() > 0.95


def test_the_same_seed_gives_the_same_weights_and_leaves_the_global_generator() -> None:
    state = torch.get_rng_state()
    first, second = (LeNet(3, generator=torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    other = LeNet(3, generator=torch.Generator().manual_seed(6))
    assert not torch.equal(first.layers[0].weight, other.layers[0].weight)


@pytest.mark.wrong_types
def test_errors() -> None:
    with pytest.raises(InputError, match="classes must be positive, got 0"):
        LeNet(0)
    for shape in ((2, 81, 28, 27), (28, 28), (2, 729)):
        with pytest.raises(ShapeError, match=r"images must be `\*batch cell 28 28`, got \(" + str(shape[0])):
            LeNet(9)(torch.zeros(shape))
