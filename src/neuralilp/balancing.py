"""Balancers: weigh the three terms of ILP-Loss into one number to minimise (the λ of Eq. 5)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from neuralilp.errors import InputError
from neuralilp.terms import LossTerms

LARGEST_RATIO = 1e6
"""A loss after a vanishing one has an unbounded ratio; beyond this it would drown all later ones."""


FARTHEST = 5.0
"""The logarithm of the ratio that steering goes to at most, one way and the other: about 150 to 1."""


class FixedWeights(nn.Module):
    """λ_pos, λ_neg, λ_cov as given."""

    weights: Tensor

    def __init__(self, positive: float = 1.0, negative: float = 1.0, covariance: float = 1.0) -> None:
        super().__init__()
        weights = torch.tensor([positive, negative, covariance])
        if not bool((weights >= 0).all()):
            raise InputError(f"weights must be at least 0, got {weights.tolist()}")
        self.register_buffer("weights", weights)

    def forward(self, terms: LossTerms) -> Float[Tensor, ""]:
        stacked = terms.stack()
        return (self.weights.to(stacked.dtype) * stacked).sum()


class CoefficientOfVariation(nn.Module):
    """Weights by the coefficient of variation of each term's loss ratio (Groenendijk et al. 2021), the paper's choice.

    With L_t a term and ⟨L⟩ the mean of its past, the ratio is ℓ_t = L_t/⟨L⟩; λ is proportional to σ_ℓ/⟨ℓ⟩, the
    standard deviation over the mean of the ratios so far, and the λ sum to 1. They are equal in the first step, and
    whenever no term has varied. A term that has been zero throughout has the ratio 1.

    The statistics are buffers, saved in checkpoints; they move in ``train()`` only, and not for a loss that is NaN or
    infinite.
    """

    steps: Tensor
    mean_loss: Tensor
    mean_ratio: Tensor
    variance: Tensor

    def __init__(self, num_terms: int = 3) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(()))
        for name in ("mean_loss", "mean_ratio", "variance"):
            self.register_buffer(name, torch.zeros(num_terms))

    def weights(self) -> Float[Tensor, " term"]:
        """The λ that the statistics give now."""
        variation = self.variance.sqrt() / self.mean_ratio.clamp(min=torch.finfo(self.mean_ratio.dtype).tiny)
        total = variation.sum()
        return torch.where(total > 0, variation / total, 1 / variation.numel())

    def forward(self, terms: LossTerms | Sequence[Tensor]) -> Float[Tensor, ""]:
        losses = terms.stack() if isinstance(terms, LossTerms) else torch.stack(list(terms))
        if self.training:
            self._update(losses.detach().to(self.mean_loss.dtype))
        return (self.weights().to(losses.dtype) * losses).sum()

    @torch.no_grad()
    def _update(self, losses: Tensor) -> None:
        is_finite = losses.isfinite().all()
        losses = torch.where(is_finite, losses, self.mean_loss)
        self.steps += is_finite
        share = is_finite / self.steps.clamp(min=1)
        past = torch.where(self.steps > 1, self.mean_loss, losses)
        ratio = torch.where(past > 0, losses / past, 1).clamp(max=LARGEST_RATIO)
        deviation = ratio - self.mean_ratio
        self.mean_loss.lerp_(losses, share)
        self.mean_ratio.lerp_(ratio, share)
        self.variance.lerp_(deviation * (ratio - self.mean_ratio), share)


class SteeredWeights(nn.Module):
    """λ_pos : λ_neg steered by the two kinds of errors that L₊ and L₋ are there for. Beyond the paper.

    L₊ alone keeps solutions inside, L₋ alone draws rows inwards, and no fixed ratio of the two fits few rows and many,
    or the start and the end of a run. So the ratio, ``start`` at first, is multiplied in each step by
    exp(``rate``·(√o - √(``exchange``·u))), with the shares o = 1 - :attr:`LossTerms.inside` of the solutions that are
    outside and u = 1 - :attr:`LossTerms.separated` of those with a negative inside: it rests where o is ``exchange``
    times u, and where there are neither. Roots, so that it still moves where both are few. Negatives that are not
    sampled are not counted: an exchange above 1 makes up for them. From a low start rows first find their directions
    among the negatives, and let the solutions in after that.

    ``covariance`` is λ_cov relative to λ_neg at first; it falls to 1/e of that in every ``fade`` steps. L_o spreads
    rows over the negatives, and is never zero: once they are in their places, it would push them off. The λ sum to 1.
    Restarts share one ratio. It and the fading are buffers, saved in checkpoints; they move in ``train()`` only, and
    not for a loss that is NaN or infinite.
    """

    log_ratio: Tensor
    faded: Tensor

    def __init__(
        self,
        exchange: float = 1.0,
        *,
        rate: float = 4e-4,
        start: float = 0.14,
        covariance: float = 0.1,
        fade: float = math.inf,
    ) -> None:
        super().__init__()
        if not fade > 0:
            raise InputError(f"fade must be above 0, got {fade}")
        for name, value in (("exchange", exchange), ("rate", rate)):
            if not 0 < value < math.inf:
                raise InputError(f"{name} must be above 0 and finite, got {value}")
        if not math.exp(-FARTHEST) <= start <= math.exp(FARTHEST):
            raise InputError(f"start must be from {math.exp(-FARTHEST):.4f} to {math.exp(FARTHEST):.0f}, got {start}")
        if not 0 <= covariance < math.inf:
            raise InputError(f"covariance must be at least 0 and finite, got {covariance}")
        self.exchange = exchange
        self.rate = rate
        self.covariance = covariance
        self.keep = math.exp(-1 / fade)
        self.register_buffer("log_ratio", torch.tensor(float(start)).log())
        self.register_buffer("faded", torch.tensor(1.0))

    def weights(self) -> Float[Tensor, " term"]:
        """The λ now."""
        one = torch.ones_like(self.log_ratio)
        raw = torch.stack([self.log_ratio.exp(), one, self.covariance * self.faded])
        return raw / raw.sum()

    def forward(self, terms: LossTerms) -> Float[Tensor, ""]:
        stacked = terms.stack()
        if self.training:
            self._update(terms, stacked.isfinite().all())
        return (self.weights().to(stacked.dtype) * stacked).sum()

    @torch.no_grad()
    def _update(self, terms: LossTerms, is_finite: Tensor) -> None:
        outside, unseparated = 1 - terms.inside, 1 - terms.separated
        move = self.rate * (outside.sqrt() - (self.exchange * unseparated).sqrt())
        is_good = is_finite & move.isfinite()
        self.log_ratio.add_(torch.where(is_good, move, 0)).clamp_(-FARTHEST, FARTHEST)
        self.faded.mul_(torch.where(is_good, self.keep, 1.0))
