"""Sets of images by name, and where what is made for them goes."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import matplotlib.image
import numpy as np
import platformdirs
import pytest
import torch

from neuralilp.errors import BackendMissingError, FileFormatError, InputError
from neuralilp.tasks.keypoints import data
from neuralilp.tasks.keypoints.data import images_folder, load, load_images, made_folder
from neuralilp.tasks.keypoints.images import sample_matches
from neuralilp.tasks.keypoints.pictures import draw_matches
from neuralilp.tasks.keypoints.synthetic import write_synthetic


def test_synthetic_images_are_made_once(tmp_path: Path) -> None:
    first = load_images(tmp_path, "synthetic")
    place = images_folder(tmp_path, "synthetic")
    assert place == tmp_path / "keypoints" / "synthetic"
    assert all(image.path.is_relative_to(place) for image in first.images)
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    second = load_images(tmp_path, "synthetic")
    assert second.source == first.source == "synthetic, large"
    assert before == {path: path.stat().st_mtime_ns for path in place.rglob("*")}


def test_spair_and_folders(tmp_path: Path) -> None:
    place = tmp_path / "spair" / "SPair-71k"
    place.parent.mkdir()
    write_synthetic(place, categories=1)
    assert load_images(tmp_path, "spair").source == "SPair-71k, large"
    assert len(load_images(tmp_path, str(place)).images) == len(load_images(tmp_path, "spair").images)
    with pytest.raises(FileFormatError, match=r"must hold a folder of \.png and \.mat files for each category"):
        load_images(tmp_path, str(place / "JPEGImages"))  # no Layout in it: read as Willow's


def test_images_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"no images .*WILLOW-ObjectClass: .*those of willow are at https://"):
        load_images(tmp_path, "willow")
    with pytest.raises(FileFormatError, match="no images elsewhere: images must be willow, spair, synthetic or a fol"):
        load_images(tmp_path, "elsewhere")


def test_what_is_made_does_not_go_to_a_folder_that_is_read_only(tmp_path: Path) -> None:
    assert made_folder(tmp_path) == tmp_path / "keypoints"
    tmp_path.chmod(0o555)
    assert made_folder(tmp_path) == platformdirs.user_cache_path("neuralilp") / "keypoints"
    tmp_path.chmod(0o755)


def test_too_few_points_are_told_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "cached_features", lambda *_, **__: pytest.fail("computed"))
    with pytest.raises(InputError, match=r"k must be at most 8, the points that .*\.jpg and .*\.jpg share: .*got 9"):
        load(tmp_path, "synthetic", 9)


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BackendMissingError, match=r"scipy: pip install 'neuralilp\[keypoints\]'"):
        load(tmp_path, "synthetic", 4)


def test_the_real_willow(tmp_path: Path) -> None:
    """Pairs of all five categories with 7 points, drawn with the true matches."""
    folder = Path(os.environ.get("NEURALILP_DATA", ""))
    if not images_folder(folder, "willow").is_dir():
        pytest.skip("NEURALILP_DATA has no willow/WILLOW-ObjectClass")
    collection = load_images(folder, "willow")
    assert collection.source == "Willow, seed 0"
    matches = sample_matches(collection.images, collection.test, 7, 60, torch.Generator().manual_seed(0))
    shown = matches.take(list(range(5)))
    assert len({collection.images[i].category for i in shown.image[:, 0].tolist()}) == 5
    draw_matches(tmp_path / "matches.png", collection.images, shown, shown.target.flatten(1))
    picture = matplotlib.image.imread(tmp_path / "matches.png")[..., :3]
    green = (np.abs(picture - [0x1F / 255, 0x8A / 255, 0x4C / 255]).max(-1) < 0.03).sum()
    assert green > 5 * 7 * 100
