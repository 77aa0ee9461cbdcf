"""Learning-rate schedules, stepped after every step of the optimiser."""

from __future__ import annotations

from collections.abc import Sequence

from torch.optim import Optimizer
from torch.optim.lr_scheduler import CyclicLR, OneCycleLR

from neuralilp.errors import InputError


def triangular(
    optimiser: Optimizer,
    peak: float | Sequence[float] | None = None,
    half_cycle: int = 1500,
    *,
    decay: float = 1.0,
    after: int = 0,
) -> CyclicLR:
    """The paper's schedule: from 0 up to ``peak`` in ``half_cycle`` steps, down to 0 in as many, and so on.

    ``peak`` is one number for all parameter groups, one for each, or None for the learning rate that each group has.
    After the first ``after`` cycles each one peaks at ``decay`` times the peak of the one before; the paper's never do.
    Validation should fall on the end of a cycle, where the rate is near zero: weights from the middle are worse.
    """
    groups = len(optimiser.param_groups)
    if peak is None:
        peaks = [float(group["lr"]) for group in optimiser.param_groups]
    elif isinstance(peak, Sequence):
        peaks = list(peak)
    else:
        peaks = [float(peak)] * groups
    if len(peaks) != groups or not all(p > 0 for p in peaks):
        raise InputError(f"peak must be above 0 for each of the {groups} parameter groups, got {peaks}")
    if half_cycle < 1:
        raise InputError(f"half_cycle must be at least 1 step, got {half_cycle}")
    if not (0 < decay <= 1 and after >= 0):
        raise InputError(f"decay must be above 0 and at most 1, and after at least 0, got {decay} and {after}")
    return CyclicLR(
        optimiser,
        [0.0] * groups,
        peaks,
        step_size_up=half_cycle,
        cycle_momentum=False,
        scale_fn=lambda cycle: decay ** max(cycle - max(after, 1), 0),  # the first cycle is 1
    )


def one_cycle(optimiser: Optimizer, epochs: int, examples: int, batch_size: int) -> OneCycleLR:
    """Up to the learning rate that each group has in a tenth of all steps, then down to almost nothing at their end.

    With few steps, the first is at the top.
    """
    if epochs < 1 or examples < 1 or batch_size < 1:
        raise InputError(
            f"epochs, examples and batch_size must be at least 1, got {epochs}, {examples} and {batch_size}"
        )
    steps = epochs * -(-examples // batch_size)
    peaks = [float(group["lr"]) for group in optimiser.param_groups]
    return OneCycleLR(
        optimiser, peaks, total_steps=steps + 1, pct_start=max(0.1, 2 / (steps + 1)), cycle_momentum=False
    )
