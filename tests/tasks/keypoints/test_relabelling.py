"""Steps over several orders of the points."""

from __future__ import annotations

import pytest
import torch

from neuralilp import ILPLoss
from neuralilp.balancing import FixedWeights
from neuralilp.constraints import Box, LearnableConstraints
from neuralilp.costs import NetworkCost
from neuralilp.errors import InputError
from neuralilp.model import NeuralILP
from neuralilp.negatives import BatchNegatives, Negatives, OneHop, Union
from neuralilp.negatives.base import Draw, NegativeSampler
from neuralilp.program import IntegerProgram
from neuralilp.step import LossStep
from neuralilp.tasks.keypoints.job import bijection, permutation_rate
from neuralilp.tasks.keypoints.relabelling import (
    NegativeMemory,
    RelabelledStep,
    entries,
    random_orders,
    straightening,
)

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
    place = entries(*random_orders(5, 2, K, generator=torch.Generator().manual_seed(1))).view(-1, K, K)
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


# -- what was found wrong with others ----------------------------------------------------------------------------------


def swapped(y: torch.Tensor) -> torch.Tensor:
    """The first two left points with each other's partners, as one negative an example."""
    return y.unflatten(-1, (K, K))[..., [1, 0, 2], :].flatten(-2).unsqueeze(-2)


def test_straightened_every_solution_is_the_identity() -> None:
    _, y = examples()
    assert y.gather(-1, straightening(y, K)).equal(torch.eye(K).flatten().expand_as(y))
    assert not y.equal(torch.eye(K).flatten().expand_as(y))


def test_the_memory_keeps_the_last_wrong_ones() -> None:
    """With room for three: y* itself is not kept, the fourth takes the place of the first, of many the last stay."""
    memory = NegativeMemory(3, K)
    one = torch.eye(K).flatten()
    found = [torch.full((K * K,), float(i)) for i in range(8)]
    assert memory.recall(5, *random_orders(2, K)).shape == (2, 0, K * K)
    memory.add(torch.stack([found[0], one, found[1]])[:, None])
    assert int(memory.count) == 2
    memory.add(torch.stack([found[2], found[3]])[:, None])
    assert memory.point[:, 0].tolist() == [3, 1, 2]
    memory.add(torch.stack(found[4:8])[:, None])
    assert sorted(memory.point[:, 0].tolist()) == [5, 6, 7]
    copied = NegativeMemory(3, K)
    copied.load_state_dict(memory.state_dict())
    assert copied.point.equal(memory.point)


def test_what_is_recalled_goes_wrong_in_the_same_way() -> None:
    """Two partners swapped: of any y* that is again two of its partners swapped, and in time every two of them."""
    memory, generator = NegativeMemory(10, K), torch.Generator().manual_seed(6)
    _, y = examples(1)
    straight = straightening(y, K)
    memory.add(swapped(y).gather(-1, straight.unsqueeze(-2)))
    left, right = random_orders(50, K, generator=generator)
    target = torch.eye(K).flatten().expand(50, -1).gather(-1, entries(left, right))
    again = memory.recall(4, left, right, generator=generator).float()
    assert again.shape == (50, 4, K * K)
    assert permutation_rate(again) == 1
    places = (again - target.unsqueeze(-2)).unflatten(-1, (K, K)).abs().sum(-1)  # by left point: 2 where it is wrong
    assert (places.sort(-1).values == torch.tensor([0.0, 2.0, 2.0])).all()
    assert len(places.flatten(0, -2).unique(dim=0)) == K


def test_every_example_learns_from_what_was_found_with_one() -> None:
    """The solver is right about all pairs but the first: the others have that negative in their loss as well."""

    class Nothing(NegativeSampler):
        def sample(self, program: IntegerProgram, solution: torch.Tensor, draw: Draw) -> Negatives:
            return Negatives.from_points(solution, solution.unsqueeze(-2)[..., :0, :])

    class OnlyTheFirst(NegativeSampler):
        def sample(self, program: IntegerProgram, solution: torch.Tensor, draw: Draw) -> Negatives:
            found = solution.unsqueeze(-2).clone()
            found[0] = swapped(solution)[0]
            return Negatives.from_points(solution, found)

    a, b = bijection(K)
    model = model_of(LearnableConstraints.from_rows(-a, 0.5 - b))
    _, y = examples()
    right = -y.clone().requires_grad_()  # every cost is for its solution, by less than the margin
    slopes = []
    for recalled in (0, 6):
        step = RelabelledStep(
            model,
            Nothing(),
            ILPLoss(negative_margin=2.0, known_rows_compete=False),
            FixedWeights(0.0, 1.0, 0.0),
            k=K,
            searched=OnlyTheFirst(),
            recalled=recalled,
        )
        total, _ = step(right, y, temperature=0.1, generator=torch.Generator().manual_seed(7))
        slopes.append(torch.autograd.grad(total, right)[0].abs().sum(-1))
    alone, shared = slopes
    assert alone[0] > 0 == alone[1:].max()
    assert shared[1:].min() > 0.1 * shared[0]
    with pytest.raises(InputError, match="recalled must be 0 where nothing is searched, got 6"):
        RelabelledStep(model, OneHop(), ILPLoss(), FixedWeights(), k=K, recalled=6)
