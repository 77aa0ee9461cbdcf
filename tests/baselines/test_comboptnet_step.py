"""CombOptNet's training step: its loss by hand, programs without an answer, and learning two true rows."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

from neuralilp.baselines import CombOptNetStep
from neuralilp.baselines.comboptnet import decompose, mismatch
from neuralilp.blocks import Bounds
from neuralilp.constraints import Box, KnownConstraints, LearnableConstraints, NetworkConstraints
from neuralilp.costs import KnownCost, LearnableCost
from neuralilp.errors import InputError
from neuralilp.metrics import vector_accuracy
from neuralilp.model import NeuralILP
from neuralilp.solving import solve


def test_loss_and_gradients_by_hand() -> None:
    """Cost (-1, -2) on {0, .., 3}², range 3; the row 1.5 - z₁ >= 0 for example 0, and -1 - z₁ >= 0 for example 1.

    Example 0 answers (1, 3) for y* = (0, 3): scaled error (1/3, 0). Example 1 is infeasible, counts as (1, 1), and its
    y* = (2, 1) violates by 3. MSE (1/9 + 0 + 1 + 1)/4 = 19/36, violation (0 + 3)/2, its weight 2/3/2² = 1/6: 28/36.

    Example 0: g = 2 (1/3)(1/3)/4 = 1/18 for z₁, so d = (-1/18, 0), target (0, 3) feasible: half of 1/18 times the
    gradients of the distance 0.5 of y from its row, y - 0.5 a = (1.5, 3) and 1 (the network's rows are not marked as
    unit), and for the cost, whose difference is 1, times (-1, 0).
    Example 1: 1/6 · 1/2 times minus those of the distance -3 of y*, y* + 3 a = (-1, 1) and 1.
    """
    a = torch.tensor([[[-1.0, 0.0]], [[-1.0, 0.0]]], requires_grad=True)
    b = torch.tensor([[1.5], [-1.0]], requires_grad=True)
    cost = LearnableCost(2)
    cost.cost.data = torch.tensor([-1.0, -2.0])
    step = CombOptNetStep(NeuralILP(cost, [NetworkConstraints(nn.Identity())], Box(0.0, 3.0, 2)))
    total, terms = step((a, b), torch.tensor([[0.0, 3.0], [2.0, 1.0]]), temperature=0.5)
    assert total.item() == pytest.approx(28 / 36)
    assert [term.item() for term in terms] == pytest.approx([19 / 36, 1.5, 0, 0.5])
    assert terms._fields == ("mse", "violation", "vector_accuracy", "unsolved")
    total.backward()
    torch.testing.assert_close(a.grad, torch.tensor([[[1.5 / 36, 3 / 36]], [[1 / 12, -1 / 12]]]))
    torch.testing.assert_close(b.grad, torch.tensor([[1 / 36], [-1 / 12]]))
    torch.testing.assert_close(cost.cost.grad, torch.tensor([-1 / 36, 0]))


def test_right_answers_have_no_gradient() -> None:
    model = NeuralILP(KnownCost(), [LearnableConstraints(1, 2, radius=50.0)], Box(0.0, 3.0, 2))
    total, terms = CombOptNetStep(model)(torch.tensor([[-1.0, 2.0]]), torch.tensor([[3.0, 0.0]]), temperature=0.5)
    assert [term.item() for term in terms] == [0, 0, 1, 0]
    total.backward()
    assert total.item() == 0
    assert all(parameter.grad is not None and not parameter.grad.any() for parameter in model.parameters())


def test_binary_programs_without_an_answer_learn_as_from_any_made_up_answer() -> None:
    """z₁ + z₂ + z₃ >= 4, scaled to a unit row, with y* = (1, 0, 1)."""
    a = torch.full((1, 3), 3**-0.5, dtype=torch.float64)
    b = torch.tensor([-4 * 3**-0.5], dtype=torch.float64)
    solution = torch.tensor([[1.0, 0.0, 1.0]], dtype=torch.float64)
    known = (a[:0], b[:0])
    bounds = Bounds(torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64))
    weight = 2 / 3**2
    for point in itertools.product((0.0, 1.0), repeat=3):
        y = torch.tensor([point], dtype=torch.float64)
        if torch.equal(y, solution):
            continue
        g = 2 * (y - solution) / 3
        made_up = mismatch(a, b, torch.zeros_like(y), y, *decompose(-g, y, bounds), known, None)
        assert made_up.item() == pytest.approx(weight * 2 * 3**-0.5)

    rows = KnownConstraints(a.float(), b.float())
    learned = NetworkConstraints(nn.Identity())
    step = CombOptNetStep(NeuralILP(LearnableCost(3), [learned], Box(0.0, 1.0, 3)))
    total, terms = step((rows.a, rows.b), solution.float(), temperature=0.5)
    assert terms.unsolved == 1
    assert terms.mse == 1
    assert total.item() - 1 == pytest.approx(weight * 2 * 3**-0.5)


def test_a_fixed_variable_has_no_error() -> None:
    """z₂ has one value only; z₁ is off by the whole range of 2: mean (1 + 0)/2."""
    box = Box(torch.tensor([0.0, 4.0]), torch.tensor([2.0, 4.0]))
    step = CombOptNetStep(NeuralILP(LearnableCost(2), [], box))
    step.model.cost.cost.data = torch.tensor([-1.0, 1.0])  # type: ignore[union-attr]
    total, _ = step(None, torch.tensor([[0.0, 4.0]]), temperature=0.5)
    assert total.item() == 0.5


def data(count: int) -> tuple[Tensor, Tensor]:
    """Costs, and the optima on {0, .., 5}² of 2 z₁ + z₂ <= 7.5 and z₁ + 3 z₂ <= 10.5."""
    costs = torch.randn(count, 2, generator=torch.Generator().manual_seed(1))
    truth = KnownConstraints(torch.tensor([[-2.0, -1.0], [-1.0, -3.0]]), torch.tensor([7.5, 10.5]))
    model = NeuralILP(KnownCost(), [truth], Box(0.0, 5.0, 2))
    return costs, solve(model(costs)).z


def train(step: CombOptNetStep, x: Tensor, y: Tensor, steps: int, rate: float) -> list[float]:
    """The share of unsolved examples in each step."""
    optimiser = torch.optim.Adam(step.parameters(), lr=rate)
    generator = torch.Generator().manual_seed(0)
    unsolved = []
    for _ in range(steps):
        chosen = torch.randint(len(x), (8,), generator=generator)
        total, terms = step(x[chosen], y[chosen], temperature=0.5)
        optimiser.zero_grad()
        total.backward()
        optimiser.step()
        unsolved.append(terms.unsolved.item())
    return unsolved


def test_it_learns_two_rows() -> None:
    x, y = data(100)
    rows = LearnableConstraints(4, 2, origin=(1.25, 3.75), generator=torch.Generator().manual_seed(0))
    step = CombOptNetStep(NeuralILP(KnownCost(), [rows], Box(0.0, 5.0, 2)))
    before = vector_accuracy(solve(step.model(x)).z, y)
    train(step, x, y, 100, 0.05)
    after = vector_accuracy(solve(step.model(x)).z, y)
    assert before < 0.3
    assert after > 0.9


def test_an_infeasible_start_becomes_feasible() -> None:
    """z₁ + z₂ + 2 <= 0 leaves nothing of the box."""
    x, y = data(40)
    rows = LearnableConstraints(1, 2)
    rows.a.data, rows.radius.data, rows.origin.data = -torch.ones(1, 2), torch.tensor([-1.4]), torch.zeros(1, 2)
    unsolved = train(CombOptNetStep(NeuralILP(KnownCost(), [rows], Box(0.0, 5.0, 2))), x, y, 30, 0.2)
    assert unsolved[0] == 1
    assert unsolved[-1] == 0


@pytest.mark.wrong_types
def test_refusals() -> None:
    cost, target = torch.ones(1, 2), torch.zeros(1, 2)
    rows = LearnableConstraints(1, 2, radius=50.0)
    model = NeuralILP(KnownCost(), [rows], Box(0.0, 3.0, 2))
    with pytest.raises(InputError, match="relax must not be set"):
        CombOptNetStep(model, relax=True)
    with pytest.raises(InputError, match="temperature must be at least 0, got -1"):
        CombOptNetStep(model)(cost, target, temperature=-1.0)
    with pytest.raises(InputError, match="solution must lie within the bounds"):
        CombOptNetStep(model)(cost, target - 1, temperature=0.5)
    with pytest.raises(InputError, match="backend must be one of"):
        CombOptNetStep(model, backend="abacus")(cost, target, temperature=0.5)
    with pytest.raises(InputError, match="program must have a learned part"):
        CombOptNetStep(NeuralILP(KnownCost(), [], Box(0.0, 3.0, 2)))(cost, target, temperature=0.5)
    unbounded = NeuralILP(KnownCost(), [rows], Box(0.0, torch.inf, 2))
    with pytest.raises(InputError, match="bounds must be finite"):
        CombOptNetStep(unbounded)(cost, target, temperature=0.5)
