"""Pictures of matched pairs: that they show what they are given."""

from __future__ import annotations

from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import torch
from PIL import Image

from neuralilp.errors import ShapeError
from neuralilp.tasks.keypoints.images import AnnotatedImage, Matches
from neuralilp.tasks.keypoints.pictures import draw_matches

GREEN, RED = (0x1F / 255, 0x8A / 255, 0x4C / 255), (0xD6 / 255, 0x45 / 255, 0x45 / 255)


@pytest.fixture
def images(tmp_path: Path) -> list[AnnotatedImage]:
    """Two grey images of different shapes, with three points each, one below the other."""
    found = []
    for name, width in (("left", 60), ("right", 90)):
        path = tmp_path / f"{name}.png"
        Image.new("RGB", (width, 60), (128, 128, 128)).save(path)
        point = torch.tensor([[width / 2, y] for y in (10.0, 30.0, 50.0)])
        found.append(AnnotatedImage(path, "car", torch.arange(3), point))
    return found


def matches(samples: int = 1) -> Matches:
    order = torch.arange(3).expand(samples, 3)
    return Matches(torch.tensor([[0, 1]]).expand(samples, 2), order, order, torch.eye(3).expand(samples, 3, 3))


def shown(path: Path, color: tuple[float, float, float]) -> np.ndarray:
    """How many pixels of each row have the color."""
    picture = matplotlib.image.imread(path)[..., :3]
    return (np.abs(picture - color).max(-1) < 0.05).sum(1)


def test_lines_have_the_color_of_what_they_are(images: list[AnnotatedImage], tmp_path: Path) -> None:
    right, swapped = torch.eye(3), torch.eye(3)[[0, 2, 1]]
    for name, answer in (("right", right), ("wrong", swapped), ("none", torch.full((3, 3), torch.nan))):
        draw_matches(tmp_path / f"{name}-answer.png", images, matches(), answer.view(1, 9))
    found = {
        name: (shown(tmp_path / f"{name}-answer.png", GREEN).sum(), shown(tmp_path / f"{name}-answer.png", RED).sum())
        for name in ("right", "wrong", "none")
    }
    assert found["right"][0] > 500
    assert found["right"][1] == 0
    assert 0 < found["wrong"][0] < found["right"][0] / 2  # one line of three
    assert found["wrong"][1] > found["wrong"][0]
    assert found["none"][0] == 0
    assert 0 < found["none"][1] < found["wrong"][1]  # rings alone


def test_a_line_joins_the_points_that_it_matches(images: list[AnnotatedImage], tmp_path: Path) -> None:
    """One match, of the uppermost points: its line is level and above the middle of the picture."""
    answer = torch.zeros(3, 3)
    answer[0, 0] = 1
    draw_matches(tmp_path / "one.png", images, matches(), answer.view(1, 9))
    rows = shown(tmp_path / "one.png", GREEN)
    places = rows.nonzero()[0]
    assert places.max() - places.min() <= 3
    assert places.max() < len(rows) / 2
    assert len(np.unique(places)) <= 4


def test_several_pairs(images: list[AnnotatedImage], tmp_path: Path) -> None:
    """Three pairs are two rows: more picture, and three times the lines."""
    for count in (1, 3):
        draw_matches(tmp_path / f"{count}.png", images, matches(count), torch.eye(3).view(1, 9).expand(count, 9))
    one, three = (shown(tmp_path / f"{count}.png", GREEN) for count in (1, 3))
    assert len(three) > 1.8 * len(one)
    assert 2 * one.sum() < three.sum() < 4 * one.sum()


@pytest.mark.wrong_types
def test_answers_of_another_shape(images: list[AnnotatedImage], tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match=r"answers must be `sample k·k` for 2 samples, got \(1, 9\)"):
        draw_matches(tmp_path / "no.png", images, matches(2), torch.zeros(1, 9))
    assert not (tmp_path / "no.png").exists()
