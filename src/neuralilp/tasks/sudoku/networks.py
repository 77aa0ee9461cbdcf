"""Perception for visual sudoku: a small convolutional network for digits, and the cost made from its scores.

A cell without a digit is an image of zeros. As in the paper, each cell's image is decoded into k real numbers: a blank
is not one of the classes, but an image like the others, whose k scores are learnt (good ones are all alike).
"""

from __future__ import annotations

import itertools

import torch
from jaxtyping import Float
from torch import Tensor, nn

from neuralilp.errors import InputError, ShapeError
from neuralilp.starts import drawn_from

IMAGE = (28, 28)


class LeNet(nn.Module):
    """Images, one a cell, -> logits `*batch cell class`: two 5×5 convolutions, each with a pool, and linear layers.

    Wider than the LeNet of 1998 by default, which misreads half as many digits more. Channels come last in memory,
    which halves the time on a CPU.

    Most cells of a board are blank, and blank images (zero everywhere) all have the same logits: these are computed
    once a call.
    """

    def __init__(
        self,
        classes: int,
        *,
        channels: tuple[int, int] = (16, 32),
        hidden: tuple[int, ...] = (128,),
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if classes < 1:
            raise InputError(f"classes must be positive, got {classes}")
        self.classes = classes
        widths = (channels[1] * 4 * 4, *hidden)
        with drawn_from(generator):
            self.layers = nn.Sequential(
                nn.Conv2d(1, channels[0], 5),
                nn.MaxPool2d(2),
                nn.ReLU(inplace=True),
                nn.Conv2d(channels[0], channels[1], 5),
                nn.MaxPool2d(2),
                nn.ReLU(inplace=True),
                nn.Flatten(),
            )
            for inputs, outputs in itertools.pairwise(widths):
                self.layers.append(nn.Linear(inputs, outputs)).append(nn.ReLU(inplace=True))
            self.layers.append(nn.Linear(widths[-1], classes))
        self.layers.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Float[Tensor, "*batch cell height width"]) -> Float[Tensor, "*batch cell class"]:
        if images.ndim < 3 or images.shape[-2:] != IMAGE:
            raise ShapeError(f"images must be `*batch cell 28 28`, got {tuple(images.shape)}")
        if not images.is_floating_point():
            raise InputError(f"images must be floating-point numbers from 0 for paper to 1 for ink, got {images.dtype}")
        flat = images.reshape(-1, *IMAGE)
        is_drawn = flat.flatten(1).any(-1)
        drawn = flat[is_drawn]
        shown = torch.cat([drawn, flat.new_zeros(1, *IMAGE)]).unsqueeze(1)
        logits = self.layers(shown.to(memory_format=torch.channels_last))
        place = torch.where(is_drawn, is_drawn.cumsum(0) - 1, len(drawn))
        return logits.index_select(0, place).view(*images.shape[:-2], self.classes)


class Reader(nn.Module):
    """Digits of cells by their images alone: what is not shown is guessed."""

    def __init__(self, network: LeNet) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Float[Tensor, "*batch cell height width"]) -> Float[Tensor, "*batch cell class"]:
        return self.network(images)

    @torch.no_grad()
    def predict(self, images: Float[Tensor, "*batch cell height width"]) -> Float[Tensor, "*batch var"]:
        """A one-hot a cell: its digit with the highest score."""
        logits = self(images)
        return nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).flatten(-2).to(logits.dtype)


class VisualCost(nn.Module):
    """Images `*batch cell 28 28` -> c = -scores, `*batch var`, for :class:`~neuralilp.NetworkCost`.

    The program minimises c·z: with one digit a cell, it maximises the sum of their scores.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Float[Tensor, "*batch cell height width"]) -> Float[Tensor, "*batch var"]:
        return -self.network(images).flatten(-2)
