"""Validating a step in the middle of its training."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import nn

from neuralilp.errors import InputError
from neuralilp.training.interrupts import Interrupts

Validate = Callable[[nn.Module], Mapping[str, float]]


def figures_of(step: nn.Module, validate: Validate, monitor: str, interrupts: Interrupts) -> dict[str, float] | None:
    """What ``validate`` finds, ``monitor`` among it; None when a signal came in between."""
    try:
        with interrupts.raising(), evaluating(step), torch.no_grad():
            figures = {name: float(figure) for name, figure in validate(step).items()}
    except KeyboardInterrupt:
        if not interrupts.is_set:
            raise
        return None
    if monitor not in figures:
        raise InputError(f"validate must return the monitored figure {monitor!r}, got {', '.join(figures) or 'none'}")
    return figures


@contextlib.contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """``eval()`` inside; after that every part is in the mode that it had, which need not be one for all."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode
