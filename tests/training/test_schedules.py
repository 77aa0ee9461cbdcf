"""Schedules of the learning rate."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from neuralilp import InputError
from neuralilp.training import one_cycle, triangular


def optimiser(*rates: float) -> torch.optim.Optimizer:
    groups: list[dict[str, Any]] = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": rate} for rate in rates]
    return torch.optim.AdamW(groups)


@pytest.mark.parametrize(
    ("rates", "peak", "peaks"),
    [
        ((0.1,), 0.4, [0.4]),
        ((0.1, 0.2), 0.4, [0.4, 0.4]),
        ((0.1, 0.2), [0.4, 1.0], [0.4, 1.0]),
        ((0.1, 2.0), None, [0.1, 2.0]),
    ],
)
def test_up_and_down_from_zero_for_every_group(rates: tuple[float, ...], peak: Any, peaks: list[float]) -> None:
    adam = optimiser(*rates)
    rate = triangular(adam, peak, 4)
    shares = [0, 0.25, 0.5, 0.75, 1, 0.75, 0.5, 0.25, 0, 0.25]
    for share in shares:
        assert [group["lr"] for group in adam.param_groups] == pytest.approx([share * p for p in peaks])
        adam.step()
        rate.step()
    assert adam.param_groups[0]["betas"] == (0.9, 0.999)


@pytest.mark.parametrize(("after", "peaks"), [(0, [1, 0.5, 0.25, 0.125]), (2, [1, 1, 0.5, 0.25])])
def test_peaks_decay_after_so_many_cycles(after: int, peaks: list[float]) -> None:
    adam = optimiser(0.1)
    rate = triangular(adam, 1.0, 1, decay=0.5, after=after)
    seen = []
    for _ in range(8):
        seen.append(adam.param_groups[0]["lr"])
        adam.step()
        rate.step()
    assert seen == pytest.approx([share * peak for peak in peaks for share in (0, 1)])


def test_unusable_arguments() -> None:
    for peak in (0.0, [0.1], [0.1, -1.0]):
        with pytest.raises(InputError, match="peak must be above 0 for each of the 2 parameter groups"):
            triangular(optimiser(0.1, 0.1), peak, 4)
    with pytest.raises(InputError, match="half_cycle must be at least 1 step, got 0"):
        triangular(optimiser(0.1), 0.1, 0)
    for decay, after in ((0.0, 0), (1.5, 0), (0.5, -1)):
        with pytest.raises(InputError, match="decay must be above 0 and at most 1, and after at least 0, got"):
            triangular(optimiser(0.1), 0.1, 4, decay=decay, after=after)


def test_one_cycle_peaks_at_each_groups_rate_and_ends_near_zero() -> None:
    adam = optimiser(0.1, 2.0)
    rate = one_cycle(adam, epochs=5, examples=79, batch_size=8)  # 10 batches an epoch
    seen = []
    for _ in range(50):
        adam.step()
        rate.step()
        seen.append(rate.get_last_lr())
    assert max(first for first, _ in seen) == pytest.approx(0.1, rel=0.01)
    assert max(second for _, second in seen) == pytest.approx(2.0, rel=0.01)
    assert seen.index(max(seen)) < 6
    assert seen[-1][0] < 1e-5
    assert seen[-1][1] < 1e-4
    with pytest.raises(InputError, match="epochs, examples and batch_size"):
        one_cycle(adam, epochs=0, examples=79, batch_size=8)


@pytest.mark.parametrize("steps", range(1, 25))
def test_one_cycle_of_few_steps(steps: int) -> None:
    adam = optimiser(0.1)
    rate = one_cycle(adam, epochs=steps, examples=3, batch_size=3)
    seen = rate.get_last_lr()
    for _ in range(steps):
        adam.step()
        rate.step()
        seen += rate.get_last_lr()
    assert seen[0] < 0.01
    assert max(seen) > 0.08
    assert seen[-1] < 1e-5 or steps == 1
