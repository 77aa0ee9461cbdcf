"""What a training run is told, where it stands, and what came of it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

from neuralilp.errors import InputError

Stopped = Literal["epochs", "patience", "goal", "time limit", "interrupted"]
"""Why a run ended. Only an interrupted one has not run its course."""

CHANGEABLE = ("epochs", "time_limit", "checkpoint_every")
"""What a resumed run may be told anew: none of it changes a step."""


@dataclasses.dataclass(frozen=True)
class Schedule:
    """How long to train, and how often to look."""

    epochs: int
    batch_size: int
    validate_every: int = 1
    """Epochs between validations; there is one more at the end if steps were taken since the last."""
    patience: int | None = None
    """Validations without gain before stopping, counted from the last temperature drop or from the best validation,
    whichever is later. A temperature that never ends to drop (a plateau schedule with floor 0 and less patience than
    this) therefore never lets a run stop: give it a floor."""
    goal: float | None = None
    """A figure at which to stop: with the best that there is, 1 for an accuracy, nothing is left to gain."""
    time_limit: float | None = None
    """Seconds of wall time for the whole run: validation and the pieces before a resume count too. Training stops
    early enough for a last validation that takes as long as the one before; where there was none, it comes on top."""
    checkpoint_every: float = 30.0
    """Seconds between checkpoints of everything. One is also written at every validation and at the end."""
    average_over: int | None = None
    """Validate and keep, instead of the weights of a step, their mean over about so many steps: the newest counts
    1/average_over, and older ones fade."""
    keep_later: bool = False
    """Of validations with equal figures, as few examples often give, keep the weights of the last and not the first.
    That is no gain, and patience goes on counting."""
    restart_on_drop: bool = False
    """Begin the optimiser and the learning-rate schedule anew when the temperature drops."""
    clip_norm: float | None = None
    """The length to which a longer gradient of all weights is cut before a step."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "validate_every"):
            _check_whole(name, getattr(self, name))
        for name in ("patience", "average_over"):
            if getattr(self, name) is not None:
                _check_whole(name, getattr(self, name))
        if self.goal is not None and not math.isfinite(self.goal):
            raise InputError(f"goal must be a finite number, got {self.goal}")
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise InputError(f"clip_norm must be positive, got {self.clip_norm}")
        for name in ("time_limit", "checkpoint_every"):
            seconds = getattr(self, name)
            if seconds is not None and not seconds >= 0:
                raise InputError(f"{name} must be at least 0 seconds, got {seconds}")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run came to; the weights of the best validation are in the step that was trained."""

    stopped: Stopped
    epochs: int
    """Epochs that were completed."""
    steps: int
    train_seconds: float
    """Until the best validation, validations excluded: the paper's measure. Without any, until the end."""
    total_seconds: float
    """Wall time of all pieces of the run, everything included."""
    monitor: str
    best: float | None
    """The best of the monitored figure; None when there was none that is a number."""
    best_epoch: int | None
    best_steps: int | None
    figures: Mapping[str, float]
    """All figures of the best validation."""


@dataclasses.dataclass(frozen=True)
class Standing:
    """Where a run stands, for whoever reports on it."""

    epoch: float
    """Epochs done, with the fraction of the present one."""
    steps: int
    seconds: float
    schedule: Schedule
    temperature: float
    terms: Mapping[str, float]
    """Means since the last validation: the loss, and its terms by name."""
    monitor: str
    figure: float | None
    """The monitored figure at the last validation."""
    best: float | None

    def seconds_left(self) -> float:
        """By the epochs at the pace so far or by the time limit, whichever comes first; early stopping aside."""
        pace = self.seconds / self.epoch if self.epoch > 0 else math.inf
        by_epochs = max(self.schedule.epochs - self.epoch, 0) * pace if self.epoch < self.schedule.epochs else 0.0
        limit = self.schedule.time_limit
        return by_epochs if limit is None else min(by_epochs, max(limit - self.seconds, 0))


def _check_whole(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name} must be a whole number of at least 1, got {value!r}")
