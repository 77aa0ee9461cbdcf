"""Visual boards: images of the right class, and blanks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from neuralilp.errors import InputError, ShapeError
from neuralilp.tasks.sudoku.visual import VisualBoards, draw_boards

LABELS = (torch.arange(200) * 7 % 10).to(torch.uint8)
IMAGES = torch.arange(200, dtype=torch.uint8).view(-1, 1, 1).repeat(1, 28, 28)
"""Image i is grey i all over, so that an image tells its number; it shows the digit 7 i mod 10. Image 0 shows a 0."""


def visual_boards(*arguments: Tensor | torch.Generator) -> Tensor:
    """All images of some boards, in the greys of the table."""
    return (draw_boards(*arguments).take(slice(None)) * 255).round().to(torch.uint8)


def test_givens_show_their_digit_and_blanks_nothing(generator: torch.Generator) -> None:
    quizzes = torch.randint(10, (30, 9, 9), generator=generator).to(torch.int8)
    images = visual_boards(quizzes, IMAGES, LABELS, generator)
    assert images.shape == (30, 81, 28, 28)
    assert images.dtype == torch.uint8
    number = images[:, :, 3, 4].long()
    digits = quizzes.flatten(1).long()
    assert torch.equal(LABELS[number].long()[digits > 0], digits[digits > 0])
    assert not images[digits == 0].any()
    assert torch.equal(images.amax((2, 3)), images.amin((2, 3)))


def test_all_images_of_a_class_are_about_equally_frequent(generator: torch.Generator) -> None:
    """20 images of 8 in 8,100 cells: 405 each, give or take 20."""
    boards = draw_boards(torch.full((100, 9, 9), 8), IMAGES, LABELS, generator)
    numbers, counts = boards.image.unique(return_counts=True)
    assert numbers.tolist() == [number for number in range(200) if LABELS[number] == 8]
    assert 300 < int(counts.min()) <= int(counts.max()) < 510


@pytest.mark.parametrize("size", [4, 6, 9])
def test_boards_hold_numbers_and_give_images(size: int, generator: torch.Generator) -> None:
    quizzes = torch.randint(size + 1, (6, size, size), generator=generator)
    generator.manual_seed(1)
    boards = draw_boards(quizzes, IMAGES, LABELS, generator)
    generator.manual_seed(1)
    images = visual_boards(quizzes, IMAGES, LABELS, generator)
    assert isinstance(boards, VisualBoards)
    assert len(boards) == 6
    assert boards.table is IMAGES
    assert torch.equal(boards.image == -1, quizzes.flatten(1) == 0)
    some = torch.tensor([4, 0, 4])
    taken = boards.take(some)
    assert taken.dtype == torch.float32
    assert torch.allclose(taken * 255, images[some].float())
    assert float(taken.max()) <= 1
    assert torch.equal(boards.take(slice(2, 4)), boards.take(torch.tensor([2, 3])))
    assert bool((IMAGES[1:] != 0).all())  # taking leaves the table as it is


def test_digits_beyond_the_size_are_not_needed(generator: torch.Generator) -> None:
    few = LABELS[(LABELS > 0) & (LABELS <= 4)]
    images = visual_boards(torch.full((1, 4, 4), 4), IMAGES[: len(few)], few, generator)
    assert (few[images[0, :, 0, 0].long()] == 4).all()
    assert visual_boards(torch.zeros(0, 4, 4, dtype=torch.int8), IMAGES, LABELS, generator).shape == (0, 16, 28, 28)


@pytest.mark.wrong_types
@pytest.mark.parametrize(
    ("quizzes", "images", "labels", "kind", "message"),
    [
        (torch.ones(1, 12, 12), IMAGES, LABELS, InputError, "at most 9 digits, since images show one each, got 12"),
        (torch.full((1, 4, 4), 5), IMAGES, LABELS, InputError, "quizzes must hold digits from 1 to 4.*board 0 has 5"),
        (torch.ones(1, 4, 6), IMAGES, LABELS, ShapeError, r"quizzes must be `board 6 6`, got shape \(1, 4, 6\)"),
        (
            torch.ones(1, 4, 4),
            IMAGES[:, 1:],
            LABELS,
            ShapeError,
            r"digit_images must be `image 28 28` .*\(200, 27, 28\)",
        ),
        (torch.ones(1, 4, 4), IMAGES.float(), LABELS, ShapeError, "digit_images .* of uint8, got torch.float32"),
        (torch.ones(1, 4, 4), IMAGES, LABELS[1:], ShapeError, r"one label for each of 200 images, got \(199,\)"),
        (torch.ones(1, 4, 4), IMAGES, LABELS.clamp(max=3), InputError, "every digit from 1 to 4, got none of 4"),
    ],
)
def test_bad_input_is_named(
    quizzes: Tensor, images: Tensor, labels: Tensor, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        visual_boards(quizzes, images, labels, torch.Generator())
