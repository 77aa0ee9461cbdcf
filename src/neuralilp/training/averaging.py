"""Weights averaged over the last steps, which vary less than those of any one step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn


class Average:
    """A mean of a module's parameters that fades: a new step counts 1/``over``, the first ones alike. Buffers stay."""

    def __init__(self, module: nn.Module, over: int) -> None:
        self.over, self.steps = over, 0
        self.parameters = list(module.parameters())
        self.values = [parameter.detach().clone() for parameter in self.parameters]

    @torch.no_grad()
    def update(self) -> None:
        """Take note of a step."""
        self.steps += 1
        for value, parameter in zip(self.values, self.parameters, strict=True):
            value.lerp_(parameter, 1 / min(self.steps, self.over))

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the module has the averaged parameters."""
        own = [parameter.detach().clone() for parameter in self.parameters]
        try:
            self._put(self.values)
            yield
        finally:
            self._put(own)

    def state(self) -> dict[str, Any]:
        return {"steps": self.steps, "values": self.values}

    def restore(self, state: dict[str, Any]) -> None:
        self.steps = state["steps"]
        for value, saved in zip(self.values, state["values"], strict=True):
            value.copy_(saved)

    @torch.no_grad()
    def _put(self, values: list[torch.Tensor]) -> None:
        for parameter, value in zip(self.parameters, values, strict=True):
            parameter.copy_(value)
