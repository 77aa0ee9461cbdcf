"""What changes while a run goes on, beside the weights: counters, the best so far, and random numbers."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from neuralilp.training.plan import Outcome, Stopped


@dataclasses.dataclass
class State:
    """Counters of a run; all of it goes into checkpoints."""

    epoch: int = 0
    """Epochs done."""
    order: Tensor | None = None
    """The permutation of the present epoch, None before it has begun."""
    position: int = 0
    """Examples of it that have been used."""
    steps: int = 0
    seconds: float = 0.0
    """Wall time until the checkpoint."""
    validation_seconds: float = 0.0
    last_validation_seconds: float = 0.0
    rows: int = 0
    """Rows of ``curves.csv``."""
    waited: int = 0
    """Validations since the best one or the last temperature drop."""
    figure: float | None = None
    best: float | None = None
    best_epoch: int | None = None
    best_steps: int | None = None
    best_train_seconds: float | None = None
    best_figures: dict[str, float] = dataclasses.field(default_factory=dict)
    stopped: Stopped | None = None
    stopped_by: float | None = None
    """The time limit that was in force then."""

    def to_dict(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def outcome(self, stopped: Stopped, monitor: str) -> Outcome:
        unstopped = self.seconds - self.validation_seconds
        return Outcome(
            stopped=stopped,
            epochs=self.epoch,
            steps=self.steps,
            train_seconds=unstopped if self.best_train_seconds is None else self.best_train_seconds,
            total_seconds=self.seconds,
            monitor=monitor,
            best=self.best,
            best_epoch=self.best_epoch,
            best_steps=self.best_steps,
            figures=dict(self.best_figures),
        )


class Randomness:
    """The random numbers of a run, all from its seed.

    ``order`` gives permutations, the same on all processes; ``draws`` is for the step, and PyTorch's own generator for
    whatever else asks (dropout), both different on each process.
    """

    def __init__(self, seed: int, device: torch.device, rank: int = 0) -> None:
        first, second, third = torch.randint(2**62, (3,), generator=torch.Generator().manual_seed(seed)).tolist()
        self.device = device
        self.order = torch.Generator().manual_seed(first)
        self.draws = torch.Generator(device).manual_seed(second + rank)
        torch.manual_seed(third + rank)

    def state(self) -> list[Tensor]:
        states = [self.order.get_state(), self.draws.get_state(), torch.get_rng_state()]
        if self.device.type == "cuda":
            states.append(torch.cuda.get_rng_state(self.device))
        return states

    def restore(self, states: list[Tensor]) -> None:
        states = [state.clone() for state in states]  # PyTorch crashes on a state that is a view of a larger tensor
        self.order.set_state(states[0])
        self.draws.set_state(states[1])
        torch.set_rng_state(states[2])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(states[3], self.device)

    def gathered(self, fabric: Fabric) -> list[Tensor]:
        """The states of all processes, one a row."""
        if fabric.world_size == 1:
            return [state.unsqueeze(0) for state in self.state()]
        gathered = fabric.all_gather([state.to(fabric.device) for state in self.state()])
        return [states.cpu() for states in gathered]
