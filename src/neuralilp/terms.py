"""What ILP-Loss returns: its terms, and what there is to see along the way."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class LossTerms(NamedTuple):
    """L₊, L₋ and L_o of Eq. 5, to be weighed by a balancer, and diagnostics, which carry no gradient."""

    positive: Float[Tensor, ""]
    negative: Float[Tensor, ""]
    covariance: Float[Tensor, ""]
    masked: Float[Tensor, ""]
    """Share of the negatives that were left out (:func:`neuralilp.negatives.admissible`)."""
    separated: Float[Tensor, ""]
    """Share of the solutions none of whose negatives that count is inside all hyperplanes."""
    inside: Float[Tensor, ""]
    """Share of the solutions that satisfy every learned row."""

    def stack(self) -> Float[Tensor, " term"]:
        return torch.stack([self.positive, self.negative, self.covariance])
