"""Costs from features: of all solutions that were seen, each example's own should be the cheapest.

With one set of constraints for all examples every solution is feasible for every example, so that y_s was chosen says
that it costs no more than any other, and a softmax over the negative costs of all of them should pick it:

    L = -mean over s of log( exp(-c(x_s)·y_s) / Σ_t exp(-c(x_s)·y_t) )

No constraint and no solver is needed. Beyond the paper.
"""

from __future__ import annotations

import time

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

STEPS, BATCH, PEAK, DECAY = 600, 256, 0.03, 1e-3


class ScaledLinear(nn.Module):
    """Features -> costs, linear in features of mean 0 and standard deviation 1."""

    mean: Tensor
    scale: Tensor

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("scale", torch.ones(inputs))
        self.linear = nn.Linear(inputs, outputs)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def measure(self, x: Float[Tensor, "example input"]) -> None:
        """Take mean and standard deviation from these features; constant ones stay as they are."""
        deviation = x.std(0, correction=0)
        self.mean.copy_(x.mean(0))
        self.scale.copy_(torch.where(deviation > 0, deviation, 1.0))

    def forward(self, x: Float[Tensor, "*batch input"]) -> Float[Tensor, "*batch output"]:
        return self.linear((x - self.mean) / self.scale)


def fit_costs(
    network: nn.Module,
    x: Float[Tensor, "example ..."],
    solution: Float[Tensor, "example var"],
    *,
    seed: int = 0,
    steps: int = STEPS,
    peak: float = PEAK,
    deadline: float | None = None,
) -> float:
    """Train a network x -> c in place; the loss at the end. After ``deadline``, of ``time.monotonic``, it stops."""
    points, own = torch.unique(solution, dim=0, return_inverse=True)
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(network.parameters(), lr=peak, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, peak, total_steps=steps + 1, pct_start=0.1)
    loss = torch.zeros(())
    for _ in range(steps):
        batch = torch.randint(len(x), (min(BATCH, len(x)),), generator=generator)
        loss = contrast(network(x[batch]), points, own[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if deadline is not None and time.monotonic() > deadline:
            break
    return loss.item()


def contrast(
    cost: Float[Tensor, "example var"], points: Float[Tensor, "point var"], own: Int[Tensor, " example"]
) -> Float[Tensor, ""]:
    """L: ``own`` is the number of each example's solution among the ``points``."""
    return functional.cross_entropy(-cost @ points.mT, own)
