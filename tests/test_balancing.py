"""Balancers against the definition of the coefficient of variation, over sequences of losses."""

from __future__ import annotations

import math

import oracles
import pytest
import torch
from torch import Tensor

from neuralilp.balancing import CoefficientOfVariation, FixedWeights, SteeredWeights
from neuralilp.errors import InputError
from neuralilp.terms import LossTerms

SEQUENCES = {
    "falling": [[1 / (t + 1), 3 / (t + 1) ** 2, 0.5] for t in range(20)],
    "noisy": [[1 + 0.5 * math.sin(3 * t), 2 + math.cos(5 * t), 0.1 + 0.05 * math.sin(t)] for t in range(30)],
    "zero throughout": [[1 / (t + 1), 0.0, 0.2 + t] for t in range(10)],
    "zero at first": [[1.0, max(t - 3, 0), 2.0 + t] for t in range(10)],
    "falls to zero": [[1.0 + t, max(3 - t, 0), 2.0] for t in range(10)],
    "constant": [[1.0, 2.0, 3.0]] * 5,
    "all zero": [[0.0, 0.0, 0.0]] * 5,
}


def terms_of(values: list[float], dtype: torch.dtype = torch.float64) -> LossTerms:
    positive, negative, covariance = torch.tensor(values, dtype=dtype).requires_grad_()
    return LossTerms(positive, negative, covariance, *torch.zeros(3, dtype=dtype))


def weighted(weights: list[float] | Tensor, values: list[float]) -> float:
    return sum(float(weight) * value for weight, value in zip(weights, values, strict=True))


def test_fixed_weights() -> None:
    """2·1 + 3·4 + 0.5·6 = 17, and the weights are the slopes."""
    balance = FixedWeights(2.0, 3.0, 0.5)
    terms = terms_of([1, 4, 6])
    total = balance(terms)
    assert total.item() == 17.0
    slopes = torch.autograd.grad(total, [terms.positive, terms.negative, terms.covariance])
    assert [slope.item() for slope in slopes] == [2.0, 3.0, 0.5]
    assert FixedWeights()(terms_of([1, 4, 6])).item() == 11.0
    assert FixedWeights()(terms_of([1, 4, 6], torch.float32)).dtype == torch.float32


@pytest.mark.parametrize("bad", [-1.0, math.nan])
def test_bad_fixed_weights(bad: float) -> None:
    with pytest.raises(InputError, match="weights must be at least 0, got"):
        FixedWeights(1.0, bad, 1.0)


@pytest.mark.parametrize("name", SEQUENCES)
def test_coefficient_of_variation(name: str) -> None:
    """At every step the weights are those of the definition, sum to 1, and weigh the loss of that very step."""
    balance = CoefficientOfVariation().double()
    sequence = [[float(value) for value in step] for step in SEQUENCES[name]]
    for t, values in enumerate(sequence):
        total = balance(terms_of(values))
        expected = oracles.variation_weights(sequence[: t + 1])
        # A variance from running sums is exact to the square root of the resolution only where it is zero.
        assert balance.weights().tolist() == pytest.approx(expected, rel=1e-6, abs=1e-7)
        assert balance.weights().sum().item() == pytest.approx(1, rel=1e-12)
        assert total.item() == pytest.approx(weighted(expected, values), rel=1e-6, abs=1e-7)


def test_golden_second_step() -> None:
    """Losses (4, 1, 1) then (2, 1, 1): ratios of the first term are 1 and 1/2, mean 3/4, deviation 1/4: all the weight.

    Then (2, 2, 1): the first has the ratio 2/3, so ratios 1, 1/2, 2/3 with mean 13/18 and deviation sqrt(7/162);
    the second 1, 1, 2 with mean 4/3 and deviation sqrt(2)/3. Their quotients: 0.28782 and 0.35355.
    """
    balance = CoefficientOfVariation()
    first = balance(terms_of([4, 1, 1]))
    assert first.item() == pytest.approx(2)  # equal weights at first
    second = balance(terms_of([2, 1, 1]))
    assert balance.weights().tolist() == pytest.approx([1, 0, 0], abs=1e-6)
    assert second.item() == pytest.approx(2)
    balance(terms_of([2, 2, 1]))
    one, two = math.sqrt(7 / 162) / (13 / 18), math.sqrt(2) / 4
    assert balance.weights().tolist() == pytest.approx([one / (one + two), two / (one + two), 0], abs=1e-6)


def test_no_gradient_through_the_weights() -> None:
    balance = CoefficientOfVariation().double()
    for values in SEQUENCES["noisy"]:
        terms = terms_of(values)
        total = balance(terms)
    slopes = torch.autograd.grad(total, [terms.positive, terms.negative, terms.covariance])
    assert [slope.item() for slope in slopes] == pytest.approx(balance.weights().tolist(), rel=1e-14)


def test_unchanged_in_eval() -> None:
    balance = CoefficientOfVariation().double()
    for values in SEQUENCES["noisy"][:5]:
        balance(terms_of(values))
    before = {name: value.clone() for name, value in balance.state_dict().items()}
    balance.eval()
    total = balance(terms_of([100.0, 0.0, 7.0]))
    after = balance.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert total.item() == pytest.approx(weighted(balance.weights(), [100.0, 0.0, 7.0]))
    fresh = CoefficientOfVariation().eval()
    assert fresh(terms_of([1.0, 2.0, 3.0])).item() == pytest.approx(2)


def test_state_round_trip() -> None:
    """A run that is saved and loaded in the middle goes on as if nothing had happened."""
    whole, first, second = (CoefficientOfVariation() for _ in range(3))
    sequence = SEQUENCES["noisy"]
    totals = [whole(terms_of(values)).item() for values in sequence]
    for values in sequence[:11]:
        first(terms_of(values))
    second.load_state_dict(first.state_dict())
    assert [second(terms_of(values)).item() for values in sequence[11:]] == totals[11:]


def test_any_number_of_terms() -> None:
    balance = CoefficientOfVariation(num_terms=2).double()
    history: list[list[float]] = []
    for t in range(6):
        history.append([1.0 + t, 2.0 / (t + 1)])
        balance([torch.tensor(value, dtype=torch.float64) for value in history[-1]])
    assert balance.weights().tolist() == pytest.approx(oracles.variation_weights(history), rel=1e-9)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_leaves_no_trace(bad: float) -> None:
    balancer, untouched = CoefficientOfVariation(), CoefficientOfVariation()
    losses = [[1.0, 2.0, 3.0], [0.5, 2.5, 3.0], [0.4, 1.0, 2.0]]
    for step, row in enumerate(losses):
        balancer([*torch.tensor(row)])
        untouched([*torch.tensor(row)])
        if step == 1:
            balancer([*torch.tensor([1.0, bad, 1.0])])
    for mine, other in zip(balancer.buffers(), untouched.buffers(), strict=True):
        torch.testing.assert_close(mine, other)


def test_a_loss_after_a_vanishing_one_keeps_the_weights_finite() -> None:
    balancer = CoefficientOfVariation()
    for row in ([1e-42, 1.0, 1.0], [5.0, 1.0, 2.0], [5.0, 1.0, 1.0]):
        balancer([*torch.tensor(row)])
    assert balancer.weights().isfinite().all()
    assert float(balancer.weights().sum()) == pytest.approx(1.0)


def errors_of(outside: float, unseparated: float = 0.0, *, loss: float = 1.0) -> LossTerms:
    numbers = [torch.tensor(number) for number in (loss, 2.0, 3.0, 0.5, 1 - unseparated, 1 - outside)]
    return LossTerms(*numbers)


def test_golden_steering() -> None:
    """From a ratio of 1/2, by exp(0.1·(√0.64 - √(2·0.045))) in a step; λ_cov is a quarter of λ_neg."""
    balancer = SteeredWeights(2.0, rate=0.1, start=0.5, covariance=0.25)
    torch.testing.assert_close(balancer.weights(), torch.tensor([0.5, 1.0, 0.25]) / 1.75)
    total = balancer(errors_of(0.64, 0.045))
    raw = torch.tensor([0.5 * math.exp(0.05), 1.0, 0.25])
    torch.testing.assert_close(balancer.weights(), raw / raw.sum())
    torch.testing.assert_close(total, (raw / raw.sum() * torch.tensor([1.0, 2.0, 3.0])).sum())


@pytest.mark.parametrize(("outside", "unseparated", "way"), [(0.5, 0.1, 1), (0.1, 0.5, -1)])
def test_steering_goes_on_until_it_is_far_enough(outside: float, unseparated: float, way: int) -> None:
    """Up while too many solutions are outside, down while too many negatives are in; never out of reach."""
    balancer = SteeredWeights(rate=1.0, start=1.0)
    ratios = []
    for _ in range(20):
        balancer(errors_of(outside, unseparated))
        ratios.append(way * balancer.log_ratio.item())
    assert ratios[:9] == sorted(set(ratios[:9]))
    assert ratios[-1] == 5.0


def test_steering_rests_between_equal_errors_in_eval_and_on_nan() -> None:
    balancer = SteeredWeights(start=1.0)
    balancer(errors_of(0.0, 0.0))
    balancer(errors_of(0.5, 0.5))
    balancer(errors_of(1.0, loss=math.nan))
    balancer.eval()
    balancer(errors_of(1.0))
    assert balancer.log_ratio == 0
    balancer.train()
    balancer(errors_of(1.0))
    assert balancer.log_ratio > 0
    other = SteeredWeights()
    other.load_state_dict(balancer.state_dict())
    assert torch.equal(other.weights(), balancer.weights())


def test_covariance_fades_with_the_steps_that_count() -> None:
    """To 1/e in ``fade`` steps, but not in eval or on NaN; the other two keep their ratio."""
    balancer = SteeredWeights(start=1.0, covariance=0.5, fade=10)
    for _ in range(10):
        balancer(errors_of(0.0, 0.0))
    balancer(errors_of(0.0, loss=math.nan))
    balancer.eval()
    balancer(errors_of(0.0))
    raw = torch.tensor([1.0, 1.0, 0.5 / math.e])
    torch.testing.assert_close(balancer.weights(), raw / raw.sum())
    other = SteeredWeights(covariance=0.5)
    other.load_state_dict(balancer.state_dict())
    assert torch.equal(other.weights(), balancer.weights())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fade": 0.0}, "fade must be above 0, got 0.0"),
        ({"fade": math.nan}, "fade must be above 0, got nan"),
        ({"exchange": 0.0}, "exchange must be above 0 and finite, got 0.0"),
        ({"rate": 0.0}, "rate must be above 0 and finite, got 0.0"),
        ({"rate": math.nan}, "rate must be above 0 and finite, got nan"),
        ({"start": 200.0}, "start must be from 0.0067 to 148, got 200.0"),
        ({"start": math.nan}, "start must be from 0.0067 to 148, got nan"),
        ({"covariance": -1.0}, "covariance must be at least 0 and finite, got -1.0"),
    ],
)
def test_bad_steering(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SteeredWeights(**arguments)
