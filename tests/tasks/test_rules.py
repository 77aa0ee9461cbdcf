"""A cost that is learnt by rules "exactly one of these", against its definition written out."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

from neuralilp import InputError
from neuralilp.blocks import Bounds
from neuralilp.constraints import LearnableConstraints
from neuralilp.distill import Distilled, distill
from neuralilp.tasks.rules import RuleStep, exactly_one
from neuralilp.warmstart import affine_hull

K = 3
MEMBERS = torch.cat([torch.arange(K * K).view(K, K), torch.arange(K * K).view(K, K).T])
PERMUTATIONS = torch.stack([torch.eye(K)[list(order)].flatten() for order in itertools.permutations(range(K))])


class Given(nn.Module):
    """x itself as the cost."""

    def forward(self, x: Tensor) -> Tensor:
        return x


def rules_of(solutions: Tensor) -> Distilled:
    hull = affine_hull(solutions)
    rows = LearnableConstraints.from_rows(hull.a, hull.b, slack=1e-3)
    n = solutions.shape[-1]
    with torch.no_grad():
        return distill([rows()], solutions, bounds=Bounds(torch.zeros(n), torch.ones(n)))


def test_rules_of_permutations_are_rows_and_columns() -> None:
    found = {tuple(sorted(rule)) for rule in exactly_one(rules_of(PERMUTATIONS)).tolist()}
    assert found == {tuple(rule) for rule in MEMBERS.tolist()}


def test_without_such_rules_there_is_nothing_to_learn_by() -> None:
    with pytest.raises(InputError, match="exactly one"):
        exactly_one(rules_of(torch.tensor([[0.0, 0.0], [1.0, 1.0]])))


@pytest.mark.parametrize("margin", [0.0, 1.5])
def test_loss_is_the_cross_entropy_of_each_rule(margin: float) -> None:
    c = torch.randn(4, K * K, generator=torch.Generator().manual_seed(0))
    y = PERMUTATIONS[[0, 3, 5, 2]]
    loss, terms = RuleStep(Given(), MEMBERS, margin=margin)(c, y)
    each = []
    for cost, chosen in zip(c.tolist(), y.tolist(), strict=True):
        for rule in MEMBERS.tolist():
            weight = {i: torch.tensor(-cost[i] - margin * chosen[i]).exp() for i in rule}
            (one,) = [i for i in rule if chosen[i] == 1]
            each.append(-(weight[one] / sum(weight.values())).log())
    torch.testing.assert_close(loss, torch.stack(each).mean())
    torch.testing.assert_close(terms.likelihood, (-loss).exp())


def test_a_margin_keeps_costs_apart() -> None:
    """Descent goes on where the solution is the cheapest by less than the margin."""
    y = PERMUTATIONS[:1]
    c = (-4.0 * y).requires_grad_()
    slopes = []
    for margin in (0.0, 4.0):
        loss, _ = RuleStep(Given(), MEMBERS, margin=margin)(c, y)
        (slope,) = torch.autograd.grad(loss, c)
        slopes.append((slope * y).sum().item())
    assert slopes[1] > 10 * slopes[0] > 0


@pytest.mark.parametrize("margin", [-1.0, float("nan"), float("inf")])
def test_bad_margin(margin: float) -> None:
    with pytest.raises(InputError, match=r"margin must be at least 0, got"):
        RuleStep(Given(), MEMBERS, margin=margin)
