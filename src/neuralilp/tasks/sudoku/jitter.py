"""Images of digits moved, turned and stretched a little at each use, so that a network does not learn them by heart."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

ANGLE, STRETCH, SHEAR, SHIFT = math.radians(10), 0.1, 0.1, 2 / 14
"""The most of each: 10 degrees, a tenth, a tenth, and 2 of the 28 pixels."""


class Jittered(nn.Module):
    """A step whose images are jittered before it sees them; blank ones stay."""

    def __init__(self, step: nn.Module) -> None:
        super().__init__()
        self.step = step

    def forward(
        self, x: Tensor, solution: Tensor, *, temperature: float, generator: torch.Generator | None = None
    ) -> Any:
        return self.step(jittered(x, generator), solution, temperature=temperature, generator=generator)


@torch.no_grad()
def jittered(
    images: Float[Tensor, "*cell height width"], generator: torch.Generator | None = None
) -> Float[Tensor, "*cell height width"]:
    """Each image, but for blank ones, under its own random affine map near the identity."""
    flat = images.flatten(0, -3)
    is_drawn = flat.flatten(1).any(-1)
    drawn = flat[is_drawn]
    if not len(drawn):
        return images
    angle, shear, wide, high, right, down = (
        torch.rand(6, len(drawn), generator=generator, dtype=images.dtype, device=images.device) * 2 - 1
    )
    cos, sin = torch.cos(angle * ANGLE), torch.sin(angle * ANGLE)
    wide, high = 1 + STRETCH * wide, 1 + STRETCH * high
    skewed = SHEAR * shear
    first = torch.stack([wide * cos, wide * (skewed * cos - sin), SHIFT * right], -1)
    second = torch.stack([high * sin, high * (skewed * sin + cos), SHIFT * down], -1)
    grid = functional.affine_grid(
        torch.stack([first, second], -2), [len(drawn), 1, *images.shape[-2:]], align_corners=False
    )
    result = flat.clone()
    result[is_drawn] = functional.grid_sample(drawn.unsqueeze(1), grid, align_corners=False).squeeze(1)
    return result.view_as(images)
