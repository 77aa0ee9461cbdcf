"""Could a row hold on all solutions by accident? What independent variables would do tells."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

SHUFFLES = 16
"""Of each column, for the estimate."""

TOLERANCE = 1e-6
"""A row is violated below minus this; rows and solutions are in float64."""


@torch.no_grad()
def expected_violations(
    a: Float[Tensor, "row var"],
    b: Float[Tensor, " row"],
    solutions: Float[Tensor, "example var"],
    *,
    shuffles: int = SHUFFLES,
) -> Float[Tensor, " row"]:
    """How many of the solutions would violate each row if every variable had its values in an order of its own.

    A row that holds on all solutions, and would be violated by v of them, does so by accident with a probability of
    about exp(-v).
    """
    count = a.new_zeros(len(a))
    for independent in shuffled(solutions, shuffles):
        count += (independent @ a.mT + b < -TOLERANCE).sum(0)
    return count / shuffles


def shuffled(solutions: Float[Tensor, "example var"], times: int) -> Iterator[Float[Tensor, "example var"]]:
    """Solutions with every column in an order of its own, the same ones at every call."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(times):
        order = torch.rand(solutions.shape, generator=generator, dtype=torch.float64).argsort(0)
        yield solutions.gather(0, order)
