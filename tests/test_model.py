"""NeuralILP: cost, constraints and box as one module, with an encoder that its heads share."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch import Tensor, nn

from neuralilp.constraints import Box, KnownConstraints, LearnableConstraints, NetworkConstraints
from neuralilp.costs import KnownCost, LearnableCost, NetworkCost
from neuralilp.errors import ShapeError
from neuralilp.loss import ILPLoss
from neuralilp.model import NeuralILP
from neuralilp.negatives import OneHop


class CountingEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 6)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.linear(x)


def test_known_cost_and_static_rows() -> None:
    learnable = LearnableConstraints(2, 3)
    known = KnownConstraints(torch.ones(1, 3), torch.ones(1))
    model = NeuralILP(KnownCost(-1.0), [learnable, known], Box(0, 1, 3))
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    program = model(x)
    assert torch.equal(program.cost, -x)
    assert not program.cost_is_learned
    assert [block.is_learned for block in program.blocks] == [True, False]
    assert program.batch_shape == (4,)
    assert program.blocks[0].a.shape == (2, 3)  # held once
    assert model.num_variables == 3
    names = {name for name, _ in model.named_parameters()}
    assert names == {"constraints.0.a", "constraints.0.radius", "constraints.0.origin"}


@pytest.mark.parametrize(
    ("cost", "is_learned"), [(KnownCost(), False), (LearnableCost(3), True), (NetworkCost(nn.Identity()), True)]
)
def test_who_learns_the_cost(cost: nn.Module, is_learned: bool) -> None:
    program = NeuralILP(cost, [], Box(0, 1, 3))(torch.ones(2, 3))
    assert program.cost_is_learned is is_learned
    assert program.has_learned_part is is_learned


def test_heads_share_the_encoder() -> None:
    """The encoder runs once, both heads get its output, and gradients of both reach it."""
    encoder = CountingEncoder()
    cost = NetworkCost(nn.Linear(6, 3))
    rows = NetworkConstraints(nn.Sequential(nn.Linear(6, 2 * 3), nn.Unflatten(-1, (2, 3))), offset=1.0)
    model = NeuralILP(cost, [rows], Box(0, 1, 3), encoder=encoder)
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    program = model(x)
    assert encoder.calls == 1
    hidden = encoder.linear(x)
    torch.testing.assert_close(program.cost, cost.network(hidden))
    torch.testing.assert_close(program.blocks[0].a, rows.network(hidden))
    for part in (program.cost, program.blocks[0].a):
        slope = torch.autograd.grad(part.sum(), encoder.linear.weight, retain_graph=True)[0]
        assert slope.any()
    y = torch.zeros(4, 3)
    terms = ILPLoss()(program, y, OneHop()(program, y), temperature=1.0)
    (terms.positive + terms.negative).backward()  # type: ignore[no-untyped-call]
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())


def test_state_round_trip() -> None:
    def make(seed: int) -> NeuralILP:
        generator = torch.Generator().manual_seed(seed)
        rows = LearnableConstraints(2, 3, slack=0.1, start="gaussian", generator=generator)
        known = KnownConstraints(torch.full((1, 3), float(seed)), torch.ones(1))
        return NeuralILP(LearnableCost(3, generator=generator), [rows, known], Box(0, seed, 3))

    one, two = make(1), make(2)
    two.load_state_dict(one.state_dict())
    first, second = one(None), two(None)
    assert torch.equal(first.explicit()[0], second.explicit()[0])
    assert torch.equal(first.explicit()[1], second.explicit()[1])
    assert torch.equal(first.cost, second.cost)


def test_variables_must_agree() -> None:
    with pytest.raises(ShapeError, match=r"constraints\[1\] must have the 3 variables of box, got 4"):
        NeuralILP(KnownCost(), [LearnableConstraints(2, 3), LearnableConstraints(2, 4)], Box(0, 1, 3))
    model = NeuralILP(KnownCost(), [LearnableConstraints(2, 3)], Box(0, 1, 3))
    with pytest.raises(ShapeError, match=r"cost must be a float tensor `\*batch 3`, got .* of shape \(2, 4\)"):
        model(torch.ones(2, 4))


@pytest.mark.wrong_types
@pytest.mark.parametrize(
    ("x", "got"), [(torch.ones(2, 3, dtype=torch.long), "torch.int64 of shape"), ([1.0, 2.0, 3.0], "list")]
)
def test_cost_of_another_kind_is_named(x: object, got: str) -> None:
    model = NeuralILP(KnownCost(), [], Box(0, 1, 3))
    with pytest.raises(ShapeError, match=f"cost must be a float tensor .*, got {got}"):
        model(x)


def test_models_can_be_pickled() -> None:
    """As spawned workers need; files are written by ``neuralilp.save``, which executes nothing."""
    model = NeuralILP(KnownCost(), [LearnableConstraints(2, 3)], Box(0, 1, 3))
    copied = pickle.loads(pickle.dumps(model))
    x = torch.ones(1, 3)
    torch.testing.assert_close(copied(x).explicit(), model(x).explicit())


def test_a_model_s_restart() -> None:
    """Constraints that have restarts give one of theirs; others, cost, box and encoder are those of the model."""
    rows = [LearnableConstraints(2, 3, restarts=4), LearnableConstraints(1, 3)]
    model = NeuralILP(KnownCost(), rows, Box(0, 1, 3), encoder=torch.nn.Linear(5, 3))
    one, x = model.restart(1), torch.randn(7, 5)
    assert model(x).batch_shape == (4, 7)
    assert one(x).batch_shape == (7,)
    torch.testing.assert_close(one(x).blocks[0].a, model(x).blocks[0].a[1, 0])
    assert one.constraints[1] is rows[1]
    assert one.encoder is model.encoder
