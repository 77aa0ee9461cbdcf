"""Learning a cost by rules that are known already, without a solver: those that say "exactly one of these is 1"."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from neuralilp.distill import Distilled
from neuralilp.errors import InputError


class RuleTerms(NamedTuple):
    cross_entropy: Float[Tensor, ""]
    """In the mean over rules: what is minimised."""
    likelihood: Float[Tensor, ""]
    """exp(-cross_entropy): the geometric mean of the probabilities that y* has in each rule."""


class RuleStep(nn.Module):
    """x, y* -> the loss and its terms, of rules "exactly one of these variables is 1".

    Each rule by itself, forgetting the others, is a choice of one of its variables, and a softmax of -c(x) the
    probability of each. The loss is the cross entropy of the one that y* has, a mean over rules and examples.

    With a ``margin`` the variables of y* cost that much more than c(x) says while it is learnt: to be chosen for sure,
    they must be cheaper than others by more than that.
    """

    members: Tensor

    def __init__(self, cost: nn.Module, members: Int[Tensor, "rule member"], *, margin: float = 0.0) -> None:
        super().__init__()
        if not (math.isfinite(margin) and margin >= 0):
            raise InputError(f"margin must be at least 0, got {margin}")
        self.cost, self.margin = cost, margin
        self.register_buffer("members", members, persistent=False)

    def forward(
        self,
        x: Any,
        solution: Float[Tensor, "*batch var"],
        *,
        temperature: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> tuple[Float[Tensor, ""], RuleTerms]:
        """Nothing is drawn and nothing has a temperature: both arguments are there for the training loop."""
        logits = -(self.cost(x) + self.margin * solution)[..., self.members]
        chosen = solution[..., self.members].argmax(-1)
        loss = functional.cross_entropy(logits.flatten(0, -2), chosen.flatten())
        return loss, RuleTerms(loss.detach(), loss.detach().neg().exp())


def exactly_one(distilled: Distilled) -> Int[Tensor, "rule member"]:
    """The variables of each rule of that kind, for those of the most frequent size."""
    a, b = distilled.equalities.a, distilled.equalities.b
    is_one = ((a == 0) | (a == 1)).all(-1) & (b == -1)
    sizes = a[is_one].sum(-1)
    if not len(sizes):
        raise InputError("distilled must have rules of the kind 'exactly one', got none")
    chosen = a[is_one][sizes == sizes.mode().values]
    return chosen.nonzero()[:, 1].view(len(chosen), -1)
