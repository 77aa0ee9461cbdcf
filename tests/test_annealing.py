"""Temperature schedules, step by step."""

from __future__ import annotations

import math

import pytest

from neuralilp.annealing import MilestoneTemperature, PlateauTemperature
from neuralilp.errors import InputError


def drops(schedule: PlateauTemperature | MilestoneTemperature, figures: list[float]) -> list[bool]:
    return [schedule.step(figure) for figure in figures]


def test_drops_after_more_than_patience() -> None:
    """Patience 2: the first figure is a gain; two without gain are borne, the third drops, and counting starts anew."""
    schedule = PlateauTemperature(1.0, factor=0.1, patience=2)
    assert drops(schedule, [0.5, 0.5, 0.4]) == [False, False, False]
    assert schedule.value == 1.0
    assert schedule.step(0.5)
    assert schedule.value == pytest.approx(0.1)
    assert drops(schedule, [0.5, 0.5, 0.5]) == [False, False, True]
    assert schedule.value == pytest.approx(0.01)


def test_a_gain_starts_patience_anew() -> None:
    schedule = PlateauTemperature(patience=1)
    assert drops(schedule, [0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.3]) == [False] * 6 + [True]


def test_patience_zero_drops_at_once() -> None:
    assert drops(PlateauTemperature(patience=0), [0.5, 0.6, 0.6]) == [False, False, True]


def test_cooldown() -> None:
    """Patience 0 and cooldown 2: after a drop two looks pass without counting, the third drops."""
    schedule = PlateauTemperature(patience=0, cooldown=2)
    assert drops(schedule, [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]) == [False, True, False, False, True, False, False]


def test_gains_count_while_cooling() -> None:
    schedule = PlateauTemperature(patience=0, cooldown=2)
    drops(schedule, [0.5, 0.5])
    assert drops(schedule, [0.9, 0.8, 0.8]) == [False, False, True]
    assert schedule.best == 0.9


def test_floor() -> None:
    """0.1, ×0.5 but not below 0.02: 0.05, 0.025, 0.02, and then no more drops."""
    schedule = PlateauTemperature(0.1, factor=0.5, patience=0, floor=0.02)
    schedule.step(1.0)
    values = []
    for _ in range(3):
        assert schedule.step(0.0)
        values.append(schedule.value)
    assert values == pytest.approx([0.05, 0.025, 0.02])
    assert not schedule.step(0.0)
    assert schedule.value == 0.02


def test_nan_is_no_gain() -> None:
    schedule = PlateauTemperature(patience=1)
    assert drops(schedule, [math.nan, math.nan]) == [False, True]
    assert schedule.best == -math.inf
    schedule = PlateauTemperature(patience=1)
    assert drops(schedule, [0.5, math.nan, 0.6, math.nan, math.nan]) == [False, False, False, False, True]
    assert schedule.best == 0.6


@pytest.mark.parametrize("cut", range(12))
def test_plateau_state_round_trip(cut: int) -> None:
    figures = [0.1, 0.3, 0.2, 0.2, 0.2, 0.2, 0.4, 0.4, 0.1, 0.1, 0.1, 0.1]
    settings = {"initial": 1.0, "factor": 0.5, "patience": 1, "cooldown": 1, "floor": 0.1}
    whole, first, second = (PlateauTemperature(**settings) for _ in range(3))
    expected = [(whole.step(figure), whole.value) for figure in figures]
    drops(first, figures[:cut])
    second.load_state_dict(first.state_dict())
    assert [(second.step(figure), second.value) for figure in figures[cut:]] == expected[cut:]
    assert any(dropped for dropped, _ in expected)


def test_milestones() -> None:
    """0.5, ×0.2 at epochs 2 and 4, in whatever order they are given, and whatever the figure is."""
    schedule = MilestoneTemperature(0.5, factor=0.2, epochs=[4, 2])
    assert schedule.value == 0.5
    seen = [(schedule.step(math.nan), schedule.value) for _ in range(5)]
    assert [dropped for dropped, _ in seen] == [False, True, False, True, False]
    assert [value for _, value in seen] == pytest.approx([0.5, 0.1, 0.1, 0.02, 0.02])


def test_milestones_state_round_trip() -> None:
    first, second = (MilestoneTemperature(0.5, factor=0.2, epochs=[2, 4]) for _ in range(2))
    for _ in range(3):
        first.step()
    second.load_state_dict(first.state_dict())
    assert second.value == first.value
    assert second.step()
    assert second.value == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"initial": -1.0}, "initial must be at least 0, got -1"),
        ({"initial": math.nan}, "initial must be at least 0, got nan"),
        ({"initial": math.inf}, "initial must be at least 0, got inf"),
        ({"factor": 1.0}, "factor must be at least 0 and below 1, got 1"),
        ({"factor": -0.1}, "factor must be at least 0 and below 1, got -0.1"),
        ({"patience": -1}, "patience and cooldown must be at least 0, got -1 and 0"),
        ({"cooldown": -2}, "patience and cooldown must be at least 0, got 4 and -2"),
        ({"floor": 2.0}, "floor must be between 0 and initial = 1.0, got 2.0"),
        ({"floor": -0.5}, "floor must be between 0 and initial = 1.0, got -0.5"),
    ],
)
def test_bad_plateau(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        PlateauTemperature(**arguments)


def test_milestones_stop_at_a_floor() -> None:
    """At the floor a milestone is no drop: early stopping would begin to count anew."""
    schedule = MilestoneTemperature(1.0, factor=0.1, epochs=[1, 2, 3], floor=0.05)
    seen = [(schedule.step(), schedule.value) for _ in range(4)]
    assert [dropped for dropped, _ in seen] == [True, True, False, False]
    assert [value for _, value in seen] == pytest.approx([0.1, 0.05, 0.05, 0.05])
    with pytest.raises(InputError, match=r"floor must be between 0 and initial = 1.0, got 1.5"):
        MilestoneTemperature(1.0, factor=0.1, epochs=[1], floor=1.5)


def test_bad_milestones() -> None:
    with pytest.raises(InputError, match="initial must be at least 0"):
        MilestoneTemperature(-1.0, factor=0.1, epochs=[1])
    with pytest.raises(InputError, match="factor must be at least 0 and below 1"):
        MilestoneTemperature(1.0, factor=2.0, epochs=[1])
