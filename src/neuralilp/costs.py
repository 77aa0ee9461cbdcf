"""Modules that produce the cost c: known (the input itself), learnable and static, or from a network."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn


class KnownCost(nn.Module):
    """c = factor · x: the input is the cost. Symbolic sudoku has c = -x."""

    is_learned = False

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Float[Tensor, "*batch var"]) -> Float[Tensor, "*batch var"]:
        return x if self.factor == 1.0 else x * self.factor

    def config(self) -> dict[str, Any]:
        return {"factor": self.factor}


class LearnableCost(nn.Module):
    """One learnable c for all instances, started from a standard Gaussian: a uniformly random direction."""

    is_learned = True

    def __init__(self, num_variables: int, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.cost = nn.Parameter(torch.randn(num_variables, generator=generator))

    def forward(self, x: Any = None) -> Float[Tensor, " var"]:
        return self.cost

    def config(self) -> dict[str, Any]:
        return {"num_variables": self.cost.shape[0]}


class NetworkCost(nn.Module):
    """c(x) of Eq. 3: any network whose output is `*batch var`."""

    is_learned = True

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Any) -> Float[Tensor, "*batch var"]:
        return self.network(x)

    def config(self) -> dict[str, Any]:
        return {}
