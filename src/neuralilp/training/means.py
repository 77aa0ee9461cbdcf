"""Means of the loss and its terms over many steps, summed on the device so that no step waits for a number."""

from __future__ import annotations

import math
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn


class Summed(nn.Module):
    """A step whose terms come as one vector without gradient, the loss first: all that the loop and Fabric look at."""

    def __init__(self, step: nn.Module) -> None:
        super().__init__()
        self.step = step
        self.names: tuple[str, ...] = ()

    def forward(
        self, x: Any, solution: Tensor, temperature: float, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        total, terms = self.step(x, solution, temperature=temperature, generator=generator)
        self.names = terms._fields
        with torch.no_grad():
            return total, torch.stack((total, *terms))


class Means:
    """The sums since the last validation."""

    def __init__(self) -> None:
        self.sums: Tensor | None = None
        self.count = 0
        self.names: tuple[str, ...] = ()

    def add(self, values: Tensor, weight: float, names: tuple[str, ...]) -> None:
        if self.sums is None:
            has_doubles = values.device.type != "mps"
            self.sums = torch.zeros_like(values, dtype=torch.float64 if has_doubles else None)
            self.names = names
        self.sums.add_(values, alpha=weight)
        self.count += 1

    def clear(self) -> None:
        self.sums, self.count = None, 0

    def values(self, fabric: Fabric | None = None) -> dict[str, float]:
        """The means by name, over all processes if a Fabric is given; NaN where no step was taken."""
        sums = self.sums if fabric is None else self._reduced(fabric)
        names = ("loss", *self.names)
        if sums is None:
            return dict.fromkeys(names, math.nan)
        return dict(zip(names, (sums / self.count).tolist(), strict=True))

    def state(self, fabric: Fabric) -> dict[str, Any]:
        return {"sums": self._reduced(fabric), "count": self.count, "names": self.names}

    def restore(self, state: dict[str, Any], device: torch.device) -> None:
        self.sums = None if state["sums"] is None else state["sums"].to(device)
        self.count, self.names = state["count"], tuple(state["names"])

    def _reduced(self, fabric: Fabric) -> Tensor | None:
        """The sums as if one process had done all steps."""
        if self.sums is None or fabric.world_size == 1:
            return self.sums
        mean = fabric.all_reduce(self.sums.clone(), reduce_op="mean")
        assert isinstance(mean, Tensor)
        return mean
