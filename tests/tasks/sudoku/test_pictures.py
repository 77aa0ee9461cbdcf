"""Pictures of boards: that they show what they are given."""

from __future__ import annotations

from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import torch

from neuralilp.errors import ShapeError
from neuralilp.tasks.sudoku.boards import Boxes, rules
from neuralilp.tasks.sudoku.pictures import draw_answers, draw_matrices

BOXES = Boxes(2, 2)
SOLUTION = torch.tensor([[[1, 2, 3, 4], [3, 4, 1, 2], [2, 1, 4, 3], [4, 3, 2, 1]]], dtype=torch.int8)


def pixels(path: Path) -> np.ndarray:
    return matplotlib.image.imread(path)[..., :3]


def has_color(picture: np.ndarray, red: float, green: float, blue: float) -> bool:
    return bool((np.abs(picture - [red, green, blue]).max(-1) < 0.05).any())


def test_answers_have_the_color_of_what_they_are(tmp_path: Path) -> None:
    quiz, wrong = SOLUTION.clone(), SOLUTION.clone()
    quiz[0, 1:] = 0
    wrong[0, 2, 2] = 1
    paths = [tmp_path / name for name in ("quiz.png", "right.png", "wrong.png")]
    for path, answer in zip(paths, (quiz, SOLUTION, wrong), strict=True):
        draw_answers(path, quiz, answer, SOLUTION, BOXES)
    green, red = (0x1F / 255, 0x8A / 255, 0x4C / 255), (0xD6 / 255, 0x45 / 255, 0x45 / 255)
    assert [has_color(pixels(path), *green) for path in paths] == [False, True, True]
    assert [has_color(pixels(path), *red) for path in paths] == [False, False, True]


def test_images_stand_where_their_digits_would(tmp_path: Path) -> None:
    """One cell is a black image: a black square in its place, and in no other."""
    quiz = torch.zeros_like(SOLUTION)
    quiz[0, 3, 0] = 4
    images = torch.zeros(1, 16, 28, 28)
    images[0, 12] = 1
    draw_answers(tmp_path / "board.png", quiz, quiz, SOLUTION, BOXES, images=images)
    picture = pixels(tmp_path / "board.png").mean(-1)
    height, width = picture.shape
    quarters = {
        (i, j): picture[i * height // 2 : (i + 1) * height // 2, j * width // 2 : (j + 1) * width // 2].mean()
        for i in (0, 1)
        for j in (0, 1)
    }
    assert min(quarters, key=lambda quarter: quarters[quarter]) == (1, 0)


def test_matrices(tmp_path: Path) -> None:
    a, _ = rules(BOXES)
    draw_matrices(tmp_path / "matrices.png", {"learnt": torch.randn(3, 64), "true": a, "none": torch.zeros(0, 64)})
    assert pixels(tmp_path / "matrices.png").shape[0] > 100


@pytest.mark.wrong_types
def test_boards_of_different_shapes(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match=r"one shape, got \(1, 4, 4\), \(1, 4, 4\), \(2, 4, 4\)"):
        draw_answers(tmp_path / "board.png", SOLUTION, SOLUTION, SOLUTION.repeat(2, 1, 1), BOXES)
    assert not list(tmp_path.iterdir())
