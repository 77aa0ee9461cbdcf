"""The smooth relaxation of a program with one inequality: its solution, its gradients, and learning by it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from neuralilp import Box, KnownConstraints, KnownCost, LearnableConstraints, NetworkConstraints, NetworkCost, NeuralILP
from neuralilp.errors import InputError
from neuralilp.warmstart.relaxed import RelaxedStep, relaxed_logits


def random_rows(generator: torch.Generator, count: int = 50) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    c, a = (torch.randn(count, 6, generator=generator, dtype=torch.float64) for _ in range(2))
    return c, a, torch.rand(count, generator=generator, dtype=torch.float64)


def test_the_multiplier_is_zero_or_the_row_is_tight(generator: torch.Generator) -> None:
    c, a, b = random_rows(generator)
    logits, multiplier = relaxed_logits(c, a, b)
    excess = (a * logits.sigmoid()).sum(-1) + b
    is_tight = multiplier > 0
    assert 5 < int(is_tight.sum()) < 45
    assert excess[is_tight].abs().max() < 1e-6
    assert excess[~is_tight].min() >= 0
    torch.testing.assert_close(logits, multiplier.unsqueeze(-1) * a - c)


def test_it_minimises_cost_and_entropy(generator: torch.Generator) -> None:
    """No feasible point nearby has less of c·z - Σ H(z_i)."""
    c, a, b = random_rows(generator, 20)
    z = relaxed_logits(c, a, b)[0].sigmoid()

    def objective(z: torch.Tensor) -> torch.Tensor:
        return (c * z + z * z.log() + (1 - z) * (1 - z).log()).sum(-1)

    for _ in range(200):
        other = (z + 0.02 * torch.randn(z.shape, generator=generator, dtype=z.dtype)).clamp(1e-6, 1 - 1e-6)
        is_feasible = (a * other).sum(-1) + b >= 0
        assert bool((objective(other) >= objective(z) - 1e-6)[is_feasible].all())


def test_gradients(generator: torch.Generator) -> None:
    c, a, b = (tensor.requires_grad_() for tensor in random_rows(generator, 8))
    assert torch.autograd.gradcheck(lambda *rows: relaxed_logits(*rows)[0], (c, a, b), atol=1e-5)


def test_a_row_that_nothing_satisfies_stays_finite() -> None:
    c = torch.zeros(1, 3, requires_grad=True)
    logits, multiplier = relaxed_logits(c, torch.full((1, 3), 0.1), torch.tensor([-1.0]))
    logits.sum().backward()
    assert bool(logits.isfinite().all() & multiplier.isfinite().all())
    assert c.grad is not None
    assert bool(c.grad.isfinite().all())


class Column(nn.Module):
    """One of the two numbers of each item, scaled by a weight of its own."""

    def __init__(self, column: int, is_row: bool) -> None:
        super().__init__()
        self.column, self.is_row = column, is_row
        self.scale = nn.Parameter(torch.tensor(-1.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value = self.scale * x[..., self.column]
        return value.unsqueeze(-2) if self.is_row else value


def test_it_learns_a_capacity(generator: torch.Generator) -> None:
    """Items with the best ratio of price to weight, half of which fits into what is left of 2: a scale near -1/2."""
    x = torch.rand(400, 8, 2, generator=generator) + 0.2
    order = (x[..., 0] / x[..., 1]).argsort(-1, descending=True)
    weight = x[..., 1].gather(1, order)
    fits = weight.cumsum(-1) - weight / 2 <= 2
    solution = torch.zeros(400, 8).scatter(1, order, fits.float())
    row = Column(1, True)
    model = NeuralILP(NetworkCost(Column(0, False)), [NetworkConstraints(row, offset=1.0)], Box(0.0, 1.0, 8))
    step = RelaxedStep(model)
    optimiser = torch.optim.Adam(step.parameters(), lr=0.05)
    for _ in range(300):
        loss, terms = step(x, solution)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert terms.rounded > 0.93
    assert row.scale.item() == pytest.approx(-0.5, abs=0.06)


@pytest.mark.parametrize(
    ("rows", "box", "message"),
    [
        (LearnableConstraints(2, 3), Box(0.0, 1.0, 3), "one learned inequality"),
        (LearnableConstraints(1, 3, slack=0.1), Box(0.0, 1.0, 3), "one learned inequality"),
        (LearnableConstraints(1, 3), Box(0.0, 2.0, 3), "binary variables"),
        (LearnableConstraints(1, 3), Box(-1.0, 0.0, 3), "binary variables"),
    ],
)
def test_other_programs_are_refused(rows: LearnableConstraints, box: Box, message: str) -> None:
    step = RelaxedStep(NeuralILP(KnownCost(), [rows], box))
    with pytest.raises(InputError, match=message):
        step(torch.zeros(2, 3), torch.zeros(2, 3))


def test_static_rows_and_known_ones() -> None:
    rows, known = LearnableConstraints(1, 3), KnownConstraints(torch.ones(1, 3), torch.zeros(1))
    box = Box(0.0, 1.0, 3)
    loss, _ = RelaxedStep(NeuralILP(KnownCost(), [rows], box))(torch.randn(2, 3), torch.zeros(2, 3))
    assert bool(loss.isfinite())
    with pytest.raises(InputError, match="no known rows"):
        RelaxedStep(NeuralILP(KnownCost(), [rows, known], box))(torch.zeros(2, 3), torch.zeros(2, 3))
