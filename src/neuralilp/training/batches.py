"""Batches: a fresh permutation each epoch, and of each batch the share of this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from neuralilp.errors import InputError


class Batches:
    """Takes examples out of tensors with one first dimension; the last tensor holds the solutions, the others are x.

    With several processes each takes every ``processes``-th example of a batch, so that shares differ by one example
    at most. ``weight`` is what the loss of a share must be multiplied with so that the mean of the processes'
    gradients is the gradient of the mean over the batch: 1 where the batch divides evenly. Where there are fewer
    examples than processes, those left without take one with the weight 0, since all must take part in every step.
    """

    def __init__(self, data: Sequence[Tensor], device: torch.device, rank: int = 0, processes: int = 1) -> None:
        if len(data) < 2:
            raise InputError(f"data must hold x and the solutions, got {len(data)} tensors")
        sizes = [len(tensor) if tensor.ndim else 0 for tensor in data]
        if len(set(sizes)) > 1 or sizes[0] == 0:
            raise InputError(f"the tensors of data must have one first dimension, above 0, got {sizes}")
        self.tensors = tuple(tensor.detach() for tensor in data)
        self.size = sizes[0]
        self.device, self.rank, self.processes = device, rank, processes

    def take(self, rows: Int[Tensor, " example"]) -> tuple[Any, Tensor, float]:
        """x, the solutions, and the weight of this share of the batch."""
        weight = 1.0
        if self.processes > 1:
            batch = len(rows)
            share = rows[self.rank :: self.processes]
            weight = len(share) * self.processes / batch
            rows = share if len(share) else rows[:1]
        *x, solution = [tensor[rows].to(self.device) for tensor in self.tensors]
        return x[0] if len(x) == 1 else tuple(x), solution, weight
