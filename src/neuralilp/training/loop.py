"""The training loop: steps, validations, temperature, checkpoints, on the devices of a Lightning Fabric."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins import Precision
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from neuralilp.annealing import MilestoneTemperature, PlateauTemperature
from neuralilp.training.batches import Batches
from neuralilp.training.folder import RunFolder
from neuralilp.training.interrupts import Interrupts
from neuralilp.training.plan import Outcome, Schedule
from neuralilp.training.processes import on_rank_zero
from neuralilp.training.progress import Report, Silence
from neuralilp.training.record import fingerprint
from neuralilp.training.run import Run
from neuralilp.training.state import Randomness
from neuralilp.training.validation import Validate


def train(
    step: nn.Module,
    data: Sequence[Tensor],
    *,
    optimiser: Callable[[nn.Module], Optimizer],
    scheduler: Callable[[Optimizer], LRScheduler | None] | None = None,
    temperature: PlateauTemperature | MilestoneTemperature,
    validate: Validate,
    schedule: Schedule,
    folder: RunFolder | str | PathLike[str],
    monitor: str = "vector_accuracy",
    fabric: Fabric | None = None,
    seed: int = 0,
    report: Report | None = None,
    resume: bool = False,
    facts: Mapping[str, Any] | None = None,
) -> Outcome:
    """Train ``step`` and leave the weights of the best validation in it.

    ``step`` is called as ``step(x, solution, temperature=τ, generator=generator)`` and returns the number to minimise
    and a NamedTuple of scalar terms, as :class:`~neuralilp.LossStep` does. ``data`` holds tensors with one first
    dimension: the solutions last, x before (a tuple if there are several).

    ``optimiser`` makes an optimiser for ``step``, and ``scheduler`` a learning-rate schedule for that, stepped after
    every step; they are functions so that both can begin anew. ``validate`` gets ``step`` in ``eval()`` mode, without
    gradients, and returns figures, of which ``monitor`` is to be maximised. The temperature is stepped with it at each
    validation, :class:`~neuralilp.MilestoneTemperature` at each epoch.

    A run killed at any moment goes on with ``resume=True`` from the last checkpoint, and on a CPU it comes to the very
    weights that it would have come to, if ``validate`` gives the same figures for the same weights. Where there is
    nothing to resume it begins. Everything must be given as before, except for the ``epochs``, ``time_limit`` and
    ``checkpoint_every`` of the schedule, which may change; a run that is at its end returns its outcome. SIGINT and
    SIGTERM end a run with a checkpoint and ``stopped="interrupted"``.

    ``facts`` (learning rates, say) go to the folder's configuration: a run with others does not resume this one.

    ``fabric`` must have been launched; without one, the run is a single process where the weights are. With several
    processes each takes its share of a batch, with weights such that the gradient is that of the whole batch whether
    or not it divides evenly (:class:`~neuralilp.training.batches.Batches`), as far as the loss is a mean over
    examples. The statistics of :class:`~neuralilp.CoefficientOfVariation` and :class:`~neuralilp.SteeredWeights` are
    not: each process adds what its own share gives to what the first one had before the step, so λ differs a little
    between processes. Only the first process validates and writes.
    """
    is_own = fabric is None
    if fabric is None:
        weight = next(step.parameters(), None)
        on_cpu = weight is None or weight.device.type == "cpu"
        fabric = Fabric(accelerator="cpu" if on_cpu else "auto", devices=1)
    if not isinstance(folder, RunFolder):
        folder = RunFolder(folder)
    batches = Batches(data, fabric.device, fabric.global_rank, fabric.world_size)
    own = {
        "seed": seed,
        "monitor": monitor,
        "data": fingerprint(batches.tensors),
        "processes": fabric.world_size,
        **dataclasses.asdict(schedule),
        **(facts or {}),
    }
    report = report if report is not None and fabric.is_global_zero else Silence()
    with contextlib.ExitStack() as stack:
        on_rank_zero(fabric, lambda: stack.enter_context(folder.opened({"training": own}, resume=resume)))
        stack.enter_context(_own_randomness(fabric.device))
        stack.callback(report.close)
        interrupts = Interrupts()
        stack.enter_context(interrupts.heeded())
        run = Run(
            step=step,
            batches=batches,
            make_optimiser=optimiser,
            make_scheduler=scheduler,
            temperature=temperature,
            validate=validate,
            schedule=schedule,
            folder=folder,
            monitor=monitor,
            fabric=fabric,
            randomness=Randomness(seed, fabric.device, fabric.global_rank),
            report=report,
            interrupts=interrupts,
            is_bare=is_own and fabric.world_size == 1 and type(fabric.strategy.precision) is Precision,
        )
        return run.go()


@contextlib.contextmanager
def _own_randomness(device: torch.device) -> Iterator[None]:
    """The caller's random numbers are as before afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield
