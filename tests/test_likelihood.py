"""The likelihood of solutions under a noisy polyhedron: by hand, by loops, its gradient, and learning by it."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor, nn

from neuralilp import (
    Box,
    KnownConstraints,
    KnownCost,
    LearnableConstraints,
    NetworkConstraints,
    NetworkCost,
    NeuralILP,
    solve,
)
from neuralilp.errors import InputError
from neuralilp.likelihood import LikelihoodStep, all_moves, log_one_minus_exp


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


class Whole(nn.Module):
    """x itself, cut: the first n numbers are c, the others the rows of A."""

    def __init__(self, n: int, part: str) -> None:
        super().__init__()
        self.n, self.part = n, part

    def forward(self, x: Tensor) -> Tensor:
        return x[..., : self.n] if self.part == "cost" else x[..., self.n :].unflatten(-1, (-1, self.n))


def reading(n: int, offset: float = 1.0) -> NeuralILP:
    """A model whose input is its program, b = ``offset``."""
    rows = NetworkConstraints(Whole(n, "rows"), offset=offset)
    return NeuralILP(NetworkCost(Whole(n, "cost")), [rows], Box(0, 1, n))


def test_two_variables_by_hand() -> None:
    """c = (-1, 0), one row (-3, -4)·z + 4 >= 0 and y* = (0, 1), within one hop, τ = √2, so that distances are as
    they are: σ(d·√2/τ) = σ(d).

    |a| = 5 and |c| = 1. y* is inside the row by (4 - 4)/5 = 0. The neighbours are
    (1, 1): d = (4 - 7)/5 = -0.6 from the row; from the cost row, -c·(z - y*) = 1
    (0, 0): d = 4/5 = 0.8; from the cost row, 0
    """
    x = torch.tensor([-1.0, 0.0, -3.0, -4.0])
    loss, terms = LikelihoodStep(reading(2, 4.0), hops=1)(x, torch.tensor([0.0, 1.0]), temperature=math.sqrt(2))
    positive = -math.log(sigmoid(0.0))
    negative = -(math.log(1 - sigmoid(-0.6) * sigmoid(1.0)) + math.log(1 - sigmoid(0.8) * sigmoid(0.0))) / 2
    assert terms.positive.item() == pytest.approx(positive, abs=1e-6)
    assert terms.negative.item() == pytest.approx(negative, abs=1e-6)
    assert loss.item() == pytest.approx(positive + negative, abs=1e-6)
    assert terms.inside.item() == 1
    assert terms.separated.item() == 0, "the second neighbour is inside both"


def naive(x: Tensor, solution: Tensor, n: int, hops: int, temperature: float) -> float:
    """The formula in loops, with b = 1."""
    total = 0.0
    for program, y in zip(x.tolist(), solution.tolist(), strict=True):
        c, rows = program[:n], [program[i : i + n] for i in range(n, len(program), n)]

        def probability(a: list[float], b: float, z: list[float]) -> float:
            norm = math.sqrt(sum(entry**2 for entry in a))
            distance = (sum(entry * value for entry, value in zip(a, z, strict=True)) + b) / norm
            return sigmoid(math.sqrt(n) * distance / temperature)

        total -= sum(math.log(probability(a, 1.0, y)) for a in rows)
        for z in itertools.product((0.0, 1.0), repeat=n):
            if 1 <= sum(left != right for left, right in zip(y, z, strict=True)) <= hops:
                inside = math.prod(probability(a, 1.0, list(z)) for a in rows)
                inside *= probability([-entry for entry in c], sum(e * v for e, v in zip(c, y, strict=True)), list(z))
                total -= math.log(1 - inside) / n
    return total / len(x)


@pytest.mark.parametrize(("hops", "rows", "temperature"), [(1, 1, 1.0), (2, 3, 0.5), (5, 2, 2.0)])
def test_it_is_the_formula(hops: int, rows: int, temperature: float, generator: torch.Generator) -> None:
    n = 5
    x = torch.randn(4, n * (1 + rows), generator=generator, dtype=torch.float64)
    solution = torch.randint(2, (4, n), generator=generator).double()
    step = LikelihoodStep(reading(n).double(), hops=hops).double()
    loss, _ = step(x, solution, temperature=temperature)
    assert loss.item() == pytest.approx(naive(x, solution, n, hops, temperature), rel=1e-9)


def test_gradient(generator: torch.Generator) -> None:
    x = torch.randn(3, 12, generator=generator, dtype=torch.float64, requires_grad=True)
    solution = torch.randint(2, (3, 4), generator=generator).double()
    step = LikelihoodStep(reading(4).double(), hops=2).double()
    assert torch.autograd.gradcheck(lambda x: step(x, solution, temperature=0.3)[0], (x,))


@pytest.mark.parametrize("temperature", [1e-4, 1e4])
def test_gradients_are_finite_at_any_temperature(temperature: float, generator: torch.Generator) -> None:
    x = (10 * torch.randn(50, 12, generator=generator)).requires_grad_()
    solution = torch.randint(2, (50, 4), generator=generator).float()
    loss, _ = LikelihoodStep(reading(4), hops=3)(x, solution, temperature=temperature)
    loss.backward()
    assert x.grad is not None
    assert bool(loss.isfinite() & x.grad.isfinite().all())


def test_log_one_minus_exp() -> None:
    x = torch.tensor([-1e-3, -0.5, -0.7, -3.0, -50.0], dtype=torch.float64)
    torch.testing.assert_close(log_one_minus_exp(x), (1 - x.exp()).log())
    assert log_one_minus_exp(torch.tensor(-1e-20)).item() == pytest.approx(math.log(1e-20))
    assert math.isfinite(log_one_minus_exp(torch.tensor(0.0)).item())


def test_moves_are_all_choices_once() -> None:
    moves = all_moves(6, 3)
    assert moves.shape == (6 + 15 + 20, 6)
    assert len({tuple(move) for move in moves.tolist()}) == 41
    assert all_moves(2, 5).tolist() == [[1, 0], [0, 1], [1, 1]]


def test_prices_and_weights_are_learnt_from_choices(generator: torch.Generator) -> None:
    """Twelve kinds of items with hidden prices and weights; an example shows five of them and the best choice."""
    kinds, n = 12, 5
    price, weight = (low + torch.rand(kinds, generator=generator) for low in (0.5, 0.2))

    class Kinds(nn.Module):
        """The items' kinds -> -price, then -weight of each."""

        def __init__(self) -> None:
            super().__init__()
            self.value = nn.Parameter(torch.ones(2, kinds))

        def forward(self, x: Tensor) -> Tensor:
            return -torch.cat([self.value[0][x], self.value[1][x] / 2], -1)

    kind = torch.stack([torch.randperm(kinds, generator=generator)[:n] for _ in range(400)])
    truth = reading(n)(-torch.cat([price[kind], weight[kind] / 1.5], -1))
    solution = solve(truth).z
    model = reading(n)
    model.encoder = Kinds()
    step = LikelihoodStep(model, hops=3)
    optimiser = torch.optim.Adam(step.parameters(), lr=0.02)
    for temperature in torch.logspace(-0.5, -2, 15).tolist():
        for batch in torch.randperm(300, generator=generator).split(20):
            optimiser.zero_grad()
            step(kind[batch], solution[batch], temperature=temperature)[0].backward()
            optimiser.step()
    with torch.no_grad():
        answer = solve(model(kind[300:])).z
    right = (answer == solution[300:]).all(-1).float().mean().item()
    assert right >= 0.85, "about a fifth is right at the start, when all items are alike"


def test_what_it_refuses() -> None:
    with pytest.raises(InputError, match="hops must be positive, got 0"):
        LikelihoodStep(reading(3), hops=0)
    with pytest.raises(InputError, match="hops must leave at most 65536 neighbours: 3 of 100 give 166750"):
        LikelihoodStep(reading(100), hops=3)
    x, y = torch.ones(1, 6), torch.ones(1, 3)
    with pytest.raises(InputError, match="temperature must be positive, got 0"):
        LikelihoodStep(reading(3))(x, y, temperature=0.0)
    known = KnownConstraints(torch.ones(1, 3), torch.zeros(1))
    with pytest.raises(InputError, match="model must have learned inequalities alone"):
        LikelihoodStep(NeuralILP(KnownCost(), [known], Box(0, 1, 3)))(y, y, temperature=1.0)
    rows = LearnableConstraints(2, 3)
    with pytest.raises(InputError, match="model must have binary variables"):
        LikelihoodStep(NeuralILP(KnownCost(), [rows], Box(0, 4, 3)))(y, y, temperature=1.0)
