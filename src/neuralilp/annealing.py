"""Temperature schedules: τ high at first to explore which hyperplane separates a negative, then low to commit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from neuralilp.errors import InputError


class PlateauTemperature:
    """τ × ``factor`` when a validation figure has not risen for more than ``patience`` looks at it.

    After a drop, ``cooldown`` looks pass before patience counts again, and τ never goes below ``floor``.
    The figure is one to maximise; NaN counts as no gain.
    """

    def __init__(
        self,
        initial: float = 1.0,
        *,
        factor: float = 0.1,
        patience: int = 4,
        cooldown: int = 0,
        floor: float = 0.0,
    ) -> None:
        _check(initial, factor, floor)
        if patience < 0 or cooldown < 0:
            raise InputError(f"patience and cooldown must be at least 0, got {patience} and {cooldown}")
        self.value = initial
        self.factor = factor
        self.patience = patience
        self.cooldown = cooldown
        self.floor = floor
        self.best = -math.inf
        self.waited = 0
        self.cooling = 0

    def step(self, figure: float) -> bool:
        """Take note of a validation figure; True when the temperature drops."""
        if figure > self.best:
            self.best = figure
            self.waited = 0
        elif self.cooling == 0:
            self.waited += 1
        self.cooling = max(self.cooling - 1, 0)
        if self.waited <= self.patience or self.value <= self.floor:
            return False
        self.value = max(self.value * self.factor, self.floor)
        self.waited = 0
        self.cooling = self.cooldown
        return True

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("value", "best", "waited", "cooling")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in ("value", "best", "waited", "cooling"):
            setattr(self, name, state[name])


class MilestoneTemperature:
    """τ × ``factor`` at each of the given epochs, but never below ``floor``."""

    def __init__(self, initial: float, *, factor: float, epochs: Sequence[int], floor: float = 0.0) -> None:
        _check(initial, factor, floor)
        self.initial = initial
        self.floor = floor
        self.factor = factor
        self.epochs = sorted(epochs)
        self.epoch = 0

    @property
    def value(self) -> float:
        return max(self.initial * self.factor ** sum(epoch <= self.epoch for epoch in self.epochs), self.floor)

    def step(self, figure: float = math.nan) -> bool:
        """An epoch has passed; True when the temperature drops. The figure is not looked at."""
        before = self.value
        self.epoch += 1
        return self.value < before

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch = state["epoch"]


def _check(initial: float, factor: float, floor: float) -> None:
    if not (math.isfinite(initial) and initial >= 0):
        raise InputError(f"initial must be at least 0, got {initial}")
    if not 0 <= factor < 1:
        raise InputError(f"factor must be at least 0 and below 1, got {factor}")
    if not 0 <= floor <= initial:
        raise InputError(f"floor must be between 0 and initial = {initial}, got {floor}")
