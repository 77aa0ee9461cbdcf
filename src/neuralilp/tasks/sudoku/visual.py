"""Visual boards: every given a handwritten digit of its class, and every blank an empty image.

The paper does not say what a blank looks like. Here it is an image of zeros, which a network sees as any
other: it learns what scores a blank should have.
"""

from __future__ import annotations

import dataclasses

import torch
from jaxtyping import Float, Int32, Integer, UInt8
from torch import Tensor

from neuralilp.errors import InputError, ShapeError
from neuralilp.tasks.sudoku.boards import Boxes, as_boards
from neuralilp.tasks.sudoku.digits import SIDE

BLANK = -1
"""In place of the number of an image."""


@dataclasses.dataclass(frozen=True, eq=False)
class VisualBoards:
    """Boards that share a table of images and know them by their numbers: 81 numbers a board, not 81 · 784 bytes."""

    table: UInt8[Tensor, "image 28 28"]
    image: Int32[Tensor, "board cell"]
    """The number of the image in each cell; -1 for a blank."""

    def __len__(self) -> int:
        return len(self.image)

    def take(self, index: Tensor | slice) -> Float[Tensor, "board cell 28 28"]:
        """The images of some boards."""
        return images_of(self.table, self.image[index])


def images_of(table: UInt8[Tensor, "image 28 28"], image: Integer[Tensor, "*cell"]) -> Float[Tensor, "*cell 28 28"]:
    """The images with these numbers, from 0 for paper to 1 for ink."""
    images = table[image.clamp(min=0).long()].float() / 255
    images[image == BLANK] = 0
    return images


def draw_boards(
    quizzes: Integer[Tensor, "board row column"], digit_images: Tensor, digit_labels: Tensor, generator: torch.Generator
) -> VisualBoards:
    """A random image of its class for each given of quizzes, without writing the images out."""
    k = quizzes.shape[-1]
    if k > 9:
        raise InputError(f"visual boards must have at most 9 digits, since images show one each, got {k}")
    if digit_images.ndim != 3 or digit_images.shape[1:] != (SIDE, SIDE) or digit_images.dtype != torch.uint8:
        raise ShapeError(
            f"digit_images must be `image {SIDE} {SIDE}` of uint8, got {digit_images.dtype} of shape "
            f"{tuple(digit_images.shape)}"
        )
    if digit_labels.shape != digit_images.shape[:1]:
        raise ShapeError(
            f"digit_labels must have one label for each of {len(digit_images)} images, got {tuple(digit_labels.shape)}"
        )
    labels, by_label = digit_labels.long().sort(stable=True)
    starts = torch.searchsorted(labels, torch.arange(k + 2))
    available = starts.diff()
    absent = [digit for digit in range(1, k + 1) if not available[digit]]
    if absent:
        raise InputError(f"digit_labels must have every digit from 1 to {k}, got none of {absent[0]}")
    digits = as_boards(quizzes, Boxes.of_size(k), "quizzes").flatten(1).long()
    chance = torch.rand(digits.shape, generator=generator, dtype=torch.float64)
    place = starts[digits] + (chance * available[digits]).long()
    image = by_label[place.clamp(max=len(labels) - 1)]
    return VisualBoards(digit_images, torch.where(digits == 0, BLANK, image).to(torch.int32))
