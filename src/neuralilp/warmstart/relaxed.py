"""A warm start for costs and one constraint that networks make from the input: the smooth relaxation of the program.

Over [0, 1]ⁿ, with entropy added, min c·z subject to a·z + b >= 0 has the solution z_i = σ(λ a_i - c_i), where λ >= 0 is
the constraint's multiplier: zero where the constraint holds without it, else the one root of a·z(λ) + b, which grows
with λ. So z depends on a, b and c smoothly, at the price of a root in one variable and without any solver. Training so
that it predicts y* (cross entropy) brings c and a near to where ILP-Loss can separate y* from its neighbours exactly.
Beyond the paper.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from neuralilp.errors import InputError
from neuralilp.model import NeuralILP

HALVINGS, DOUBLINGS = 40, 40
FLATTEST = 1e-4
"""The least slope of a·z(λ), relative to |a|²: below it, where all of z is at its bounds, gradients stay finite."""


class RelaxedTerms(NamedTuple):
    cross_entropy: Float[Tensor, ""]
    """In the mean over variables and examples: what is minimised."""
    multiplier: Float[Tensor, ""]
    """The mean of λ."""
    rounded: Float[Tensor, ""]
    """Share of the variables that are right when z is rounded."""


class RelaxedStep(nn.Module):
    """x, y* -> the cross entropy of y* under the smooth solution of the model's program, and its terms.

    The program must be binary with one learned inequality, and that must bind at the start: a row that does not has no
    gradient. Nothing is drawn and nothing has a temperature: the network sets the scale of c and a itself.
    """

    def __init__(self, model: NeuralILP) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        x: Any,
        solution: Float[Tensor, "*batch var"],
        *,
        temperature: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> tuple[Float[Tensor, ""], RelaxedTerms]:
        program = self.model(x)
        if len(program.learned) != 1 or program.learned[0].b.shape[-1] != 1 or program.learned[0].slack is not None:
            raise InputError("model must have one learned inequality for the smooth relaxation")
        if program.known:
            raise InputError("model must have no known rows for the smooth relaxation")
        if not (program.bounds.is_binary and bool((program.bounds.integral_lower == 0).all())):
            raise InputError("model must have binary variables for the smooth relaxation")
        block, cost = program.learned[0], program.cost
        a, b = block.a[..., 0, :].expand_as(cost), block.b[..., 0].expand(cost.shape[:-1])
        logits, multiplier = relaxed_logits(cost, a, b)
        loss = functional.binary_cross_entropy_with_logits(logits, solution)
        rounded = ((logits.detach() > 0) == (solution > 0.5)).to(loss.dtype).mean()
        return loss, RelaxedTerms(loss.detach(), multiplier.detach().mean(), rounded)


def relaxed_logits(
    c: Float[Tensor, "*batch var"], a: Float[Tensor, "*batch var"], b: Float[Tensor, "*batch"]
) -> tuple[Float[Tensor, "*batch var"], Float[Tensor, "*batch"]]:
    """λ a - c, and λ, with gradients through both; where no z in the box satisfies the row, λ is as large as tried."""
    with torch.no_grad():
        root = _root(c, a, b)
        is_active = root > 0
    # One step of Newton's method from the root leaves it where it is and gives it its derivative.
    z = torch.sigmoid(root.unsqueeze(-1) * a - c)
    spread = a.square().sum(-1)
    slope = torch.maximum((a.square() * z * (1 - z)).sum(-1), FLATTEST * spread).detach()
    excess = (a * z).sum(-1) + b
    multiplier = torch.where(is_active, root - (excess - excess.detach()) / slope, 0.0)
    return multiplier.unsqueeze(-1) * a - c, multiplier


def _root(c: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """λ >= 0 with a·σ(λ a - c) + b = 0; 0 where that is positive there already."""

    def excess(multiplier: Tensor) -> Tensor:
        return (a * torch.sigmoid(multiplier.unsqueeze(-1) * a - c)).sum(-1) + b

    high = torch.ones_like(b)
    for _ in range(DOUBLINGS):
        is_low = excess(high) < 0
        if not bool(is_low.any()):
            break
        high = torch.where(is_low, 2 * high, high)
    low = torch.zeros_like(b)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        is_low = excess(middle) < 0
        low, high = torch.where(is_low, middle, low), torch.where(is_low, high, middle)
    return torch.where(excess(torch.zeros_like(b)) >= 0, 0.0, (low + high) / 2)
