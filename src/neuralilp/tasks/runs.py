"""One run of any task: what makes it the run it is, training, test, and the record of it in the run's folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from neuralilp.annealing import MilestoneTemperature, PlateauTemperature
from neuralilp.errors import InputError
from neuralilp.training import Outcome, Report, RunFolder, Schedule, make_record, train
from neuralilp.training.interrupts import Interrupts

IDENTITY = ("task", "method", "seed", "setting", "data_fingerprint")
"""The entries of a configuration that every record has by the same name; the others become entries of its own."""

M = TypeVar("M", bound=nn.Module)


@dataclasses.dataclass(frozen=True, eq=False)
class Conditions:
    """How a run is to go, whatever it learns."""

    folder: RunFolder
    seed: int
    time_limit: float | None
    """For training with its validations; the test comes on top."""
    compile: bool
    resume: bool
    report: Report | None

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**63:
            raise InputError(f"seed must be between 0 and 2**63 - 1, got {self.seed}")

    @property
    def generator(self) -> torch.Generator:
        """A new one at each call: what is drawn first from it is always the same."""
        return torch.Generator().manual_seed(self.seed)


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How a method that trains step by step does so."""

    step: nn.Module
    optimiser: Callable[[nn.Module], Optimizer]
    temperature: PlateauTemperature | MilestoneTemperature
    schedule: Schedule
    scheduler: Callable[[Optimizer], LRScheduler | None] | None = None
    monitor: str = "variable_accuracy"
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Settings, by name, that make a run another one."""

    def follow(
        self, data: Sequence[Tensor], validate: Callable[[], Mapping[str, float]], conditions: Conditions
    ) -> Outcome:
        """Train the step, and leave the weights of the best validation in it."""
        return train(
            self.step,
            data,
            optimiser=self.optimiser,
            scheduler=self.scheduler,
            temperature=self.temperature,
            validate=lambda _: validate(),
            schedule=dataclasses.replace(self.schedule, time_limit=conditions.time_limit),
            folder=conditions.folder,
            monitor=self.monitor,
            seed=conditions.seed,
            report=conditions.report,
            resume=conditions.resume,
            facts=self.facts,
        )


class LookedUp(nn.Module):
    """A step on examples that are numbers of a table's rows, of images or sentences: it looks them up for the step."""

    table: Tensor

    def __init__(self, step: nn.Module, table: Tensor, look_up: Callable[[Tensor, Any], Any]) -> None:
        super().__init__()
        self.step = step
        self.look_up = look_up
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: Any, solution: Tensor, *, temperature: float, generator: torch.Generator | None = None) -> Any:
        return self.step(self.look_up(self.table, x), solution, temperature=temperature, generator=generator)


class TargetTerms(NamedTuple):
    error: Float[Tensor, ""]
    """What is minimised."""


class TargetStep(nn.Module):
    """x, target -> ``loss`` of a network's output and the target, for methods without a learnt program."""

    def __init__(self, network: nn.Module, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.network = network
        self.loss = loss

    def forward(
        self, x: Any, target: Tensor, *, temperature: float = 1.0, generator: torch.Generator | None = None
    ) -> tuple[Float[Tensor, ""], TargetTerms]:
        """Nothing is drawn and nothing has a temperature: both arguments are there for the training loop."""
        error = self.loss(self.network(x), target)
        return error, TargetTerms(error.detach())


def run_recorded(
    out: Path,
    config: Mapping[str, Any],
    *,
    resume: bool,
    facts: Mapping[str, Any],
    learn: Callable[[RunFolder], tuple[M, Outcome]],
    test: Callable[[M], dict[str, Any]],
    save: Callable[[M, Path], Any],
) -> dict[str, Any] | None:
    """Train and test: the record, which is also in the folder. None when interrupted.

    ``config`` makes the run what it is; ``facts`` are recorded beside it, and so are the settings of training. ``test``
    returns entries of the record, ``test`` and ``statuses`` among them.
    With ``resume`` a run goes on where it was, or begins; one that has its record is over, and that is returned
    whatever the time limit is now.
    """
    folder = RunFolder(out, config)
    if resume and folder.has_record():
        return record_of_same_run(folder)
    if not resume:
        folder.check(resume=False)
    model, outcome = learn(folder)
    if outcome.stopped == "interrupted":
        return None
    model.eval()
    with folder.locked():
        interrupts = Interrupts()
        try:
            with interrupts.heeded(), interrupts.raising():
                tested = test(model)
        except KeyboardInterrupt:
            return None
        extra = {name: value for name, value in folder.config.items() if name not in IDENTITY}
        record = make_record(
            **{name: config[name] for name in IDENTITY},
            outcome=outcome,
            test=tested.pop("test"),
            statuses=tested.pop("statuses"),
            extra={**extra, **facts, **tested},
        )
        save(model, folder.path / "model")
        folder.write_record(record)
    return record


def record_of_same_run(folder: RunFolder) -> dict[str, Any]:
    """The record of a run that is over, if it is the run that was asked for."""
    record = folder.read_record()
    for name, asked in folder.config.items():
        if record.get(name) != asked:
            raise InputError(
                f"{folder.path} holds another run: its {name} is {record.get(name)}, and {asked} was asked for"
            )
    return record
