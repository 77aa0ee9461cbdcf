"""Steps over several orders of the points."""

from __future__ import annotations

import torch

from neuralilp import ILPLoss
from neuralilp.balancing import FixedWeights
from neuralilp.constraints import Box, LearnableConstraints
from neuralilp.costs import NetworkCost
from neuralilp.model import NeuralILP
from neuralilp.negatives import BatchNegatives, OneHop, Union
from neuralilp.step import LossStep
from neuralilp.tasks.keypoints.job import bijection, permutation_rate
from neuralilp.tasks.keypoints.relabelling import RelabelledStep, random_orders

K = 3


def examples(batch: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    cost = torch.randn(batch, K * K, generator=generator)
    order = torch.rand(batch, K, generator=generator).argsort(-1)
    return cost, torch.nn.functional.one_hot(order, K).flatten(1).float()


def model_of(rows: LearnableConstraints) -> NeuralILP:
    return NeuralILP(NetworkCost(torch.nn.Identity()), [rows], Box(-0.5, 1.5, K * K))


def test_orders_are_of_rows_and_columns() -> None:
    """A matrix i·k + j in a new order has rows and columns that are those of the old one, each once."""
    place = random_orders(5, 2, K, torch.Generator().manual_seed(1)).view(-1, K, K)
    row, column = place // K, place % K
    assert (row == row[..., :1]).all()
    assert (column == column[:, :1]).all()
    assert (row[..., 0].sort().values == torch.arange(K)).all()
    assert (column[:, 0].sort().values == torch.arange(K)).all()
    assert len(place.flatten(1).unique(dim=0)) > 1


def test_rows_that_do_not_know_the_order_see_the_same_loss_in_all() -> None:
    """The bijection's rows are the same rows in every order of points, and so is the loss, without noise."""
    a, b = bijection(K)
    model = model_of(LearnableConstraints.from_rows(-a, 0.5 - b))
    c, y = examples()
    loss, weights = ILPLoss(positive_margin=0.3, negative_margin=0.3), FixedWeights(1.0, 10.0, 0.0)
    plain, _ = LossStep(model, Union(OneHop(), BatchNegatives()), loss, weights)(c, y, temperature=0.1)
    step = RelabelledStep(model, OneHop(), loss, weights, k=K, searched=BatchNegatives(), orders=7)
    many, terms = step(c, y, temperature=0.1, generator=torch.Generator().manual_seed(2))
    assert terms.positive > 0
    assert terms.negative > 0
    torch.testing.assert_close(many, plain)


def test_rows_learn_from_orders_that_no_example_has() -> None:
    """One example, whose y* is inside a row that other orders of it break: only these pull at the row."""
    y = torch.eye(K).flatten().unsqueeze(0)
    rows = LearnableConstraints.from_rows(y - 0.5, torch.tensor([-1.0]))  # y* at 1/2, all other permutations below 0
    model, weights = model_of(rows), FixedWeights(1.0, 1.0, 0.0)
    c = torch.zeros(1, K * K)
    alone, _ = LossStep(model, BatchNegatives(), ILPLoss(), weights)(c, y, temperature=0.1)
    step = RelabelledStep(model, BatchNegatives(), ILPLoss(), weights, k=K, orders=20)
    many, _ = step(c, y, temperature=0.1, generator=torch.Generator().manual_seed(3))
    assert alone == 0
    assert many > 0.1


def test_noise_is_drawn_anew_and_can_be_repeated() -> None:
    model = model_of(LearnableConstraints(4, K * K, generator=torch.Generator().manual_seed(4)))
    c, y = examples()
    step = RelabelledStep(model, BatchNegatives(), ILPLoss(), FixedWeights(1.0, 1.0, 0.0), k=K, noise=1.0)
    values = [step(c, y, temperature=0.1, generator=torch.Generator().manual_seed(seed))[0] for seed in (0, 0, 1)]
    assert values[0] == values[1] != values[2]
    assert permutation_rate(y) == 1
