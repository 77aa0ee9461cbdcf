"""Annotated images: SPair's layout, Willow's, samples of them, and files that do not fit."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat

from neuralilp.errors import FileFormatError, InputError
from neuralilp.tasks.keypoints.images import load_spair, load_willow, read_image, sample_matches
from neuralilp.tasks.keypoints.synthetic import IMAGES, SIDE, write_synthetic


@pytest.fixture
def spair(tmp_path: Path) -> Path:
    return write_synthetic(tmp_path / "spair")


@pytest.fixture
def willow(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for category, count in (("Car", 8), ("Duck", 9)):
        folder = tmp_path / "willow" / category
        folder.mkdir(parents=True)
        for i in range(count):
            Image.new("RGB", (40, 30), (i, 0, 0)).save(folder / f"{i}.png")
            savemat(folder / f"{i}.mat", {"pts_coord": np.stack([rng.uniform(1, 40, 10), rng.uniform(1, 30, 10)])})
    return tmp_path / "willow"


def test_the_synthetic_set(spair: Path) -> None:
    collection = load_spair(spair)
    assert len(collection.images) == 2 * sum(IMAGES.values())
    counts = [len(pairs) for pairs in (collection.train, collection.validation, collection.test)]
    assert counts == [2 * n * (n - 1) for n in IMAGES.values()]
    seen = [{i for pair in pairs for i in pair} for pairs in (collection.train, collection.validation, collection.test)]
    assert not seen[2] & (seen[0] | seen[1])
    for left, right in collection.train:
        assert collection.images[left].category == collection.images[right].category
    image = collection.images[0]
    pixels = read_image(image.path)
    assert pixels.shape == (3, SIDE, SIDE)
    assert 0 <= pixels.min() < pixels.max() <= 1
    assert collection.source == "spair, large"
    with pytest.raises(InputError, match="exists already"):
        write_synthetic(spair)
    assert list(spair.parent.iterdir()) == [spair]  # nothing unfinished beside it


def test_a_keypoint_looks_alike_in_all_images(spair: Path) -> None:
    collection = load_spair(spair)
    colours = []
    for image in collection.images[:6]:
        x, y = image.point.round().long().unbind(-1)
        colours.append(read_image(image.path)[:, y, x].mT)
    spread = torch.stack(colours).std(0).mean()
    assert spread < 0.5 * torch.stack(colours).flatten(0, 1).std(0).mean()


def test_willow(willow: Path) -> None:
    collection = load_willow(willow, train=6, validation=2)
    assert [len(pairs) for pairs in (collection.train, collection.validation, collection.test)] == [12, 2, 1 + 3]
    assert {image.category for image in collection.images} == {"Car", "Duck"}
    assert load_willow(willow, train=6, validation=2).train == collection.train
    assert load_willow(willow, train=6, validation=2, seed=1).train != collection.train
    first = collection.images[0]
    assert (first.point.shape, first.number.tolist()) == ((10, 2), list(range(10)))


def test_samples(spair: Path) -> None:
    collection = load_spair(spair)
    matches = sample_matches(collection.images, collection.train, 5, 200, torch.Generator().manual_seed(0))
    assert bool((matches.target.sum(1) == 1).all() & (matches.target.sum(2) == 1).all())
    for (left, right), first, second, target in zip(*matches, strict=True):
        ours, theirs = collection.images[left].number[first], collection.images[right].number[second]
        assert len(set(ours.tolist())) == 5
        assert torch.equal(target, (ours[:, None] == theirs).float())
    assert not bool((matches.target == torch.eye(5)).all())
    assert set(map(tuple, matches.image.tolist())) <= set(collection.train)


def test_categories_take_turns(willow: Path) -> None:
    """One with more images, and so more pairs, has no more samples."""
    collection = load_willow(willow, train=6, validation=2)
    pairs = Counter(collection.images[left].category for left, _ in collection.test)
    assert pairs["Car"] != pairs["Duck"]
    matches = sample_matches(collection.images, collection.test, 4, 20, torch.Generator().manual_seed(0))
    drawn = [collection.images[left].category for left in matches.image[:, 0].tolist()]
    assert Counter(drawn) == {"Car": 10, "Duck": 10}
    assert len(set(drawn[:2])) == 2
    assert {tuple(sorted(pair)) for pair in matches.image.tolist()} == {tuple(sorted(pair)) for pair in collection.test}


def test_points_that_are_not_on_both(spair: Path) -> None:
    """A point without a place in one image is never asked for there."""
    for path in (spair / "ImageAnnotation" / "figure0").glob("trn_000.json"):
        facts = json.loads(path.read_text())
        facts["kps"]["3"] = None
        path.write_text(json.dumps(facts))
    collection = load_spair(spair)
    (bare,) = (i for i, image in enumerate(collection.images) if len(image.number) == 7)
    pairs = [pair for pair in collection.train if bare in pair]
    matches = sample_matches(collection.images, pairs, 7, 20, torch.Generator().manual_seed(0))
    assert bool((matches.target.sum(2) == 1).all())
    with pytest.raises(InputError, match=r"k must be at most 7, .*trn_000\.jpg.* no others share more, got 8"):
        sample_matches(collection.images, pairs, 8, 1, torch.Generator())
    with pytest.raises(InputError, match="k must be at least 2 and pairs not be empty, got 1 and 10 pairs"):
        sample_matches(collection.images, pairs, 1, 3, torch.Generator())
    with pytest.raises(InputError, match="k must be at least 2 and pairs not be empty, got 4 and 0 pairs"):
        sample_matches(collection.images, [], 4, 3, torch.Generator())
    with pytest.raises(InputError, match="count must be positive, got 0"):
        sample_matches(collection.images, pairs, 4, 0, torch.Generator())


def edit(path: Path, **changed: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))


def test_spair_files_that_do_not_fit(spair: Path) -> None:
    annotation = spair / "ImageAnnotation" / "figure0" / "trn_000.json"
    whole = annotation.read_text()
    edit(annotation, kps={"0": [SIDE, 3]})
    with pytest.raises(FileFormatError, match=r"trn_000\.json: keypoint 0 must lie on trn_000\.jpg, 96 by 96 pixels"):
        load_spair(spair)
    edit(annotation, kps={"0": None})
    with pytest.raises(FileFormatError, match=r"trn_000\.json must name at least one keypoint"):
        load_spair(spair)
    edit(annotation, kps=[1, 2])
    with pytest.raises(FileFormatError, match=r"trn_000\.json must have kps"):
        load_spair(spair)
    annotation.write_text("{")
    with pytest.raises(FileFormatError, match=r"trn_000\.json cannot be read as JSON"):
        load_spair(spair)
    annotation.write_text("[]")
    with pytest.raises(FileFormatError, match=r"trn_000\.json must hold a JSON object, got list"):
        load_spair(spair)
    annotation.write_text(whole)
    image = spair / "JPEGImages" / "figure0" / "trn_000.jpg"
    picture = image.read_bytes()
    image.write_bytes(b"no picture")
    with pytest.raises(FileFormatError, match=r"trn_000\.jpg cannot be read as an image"):
        load_spair(spair)
    image.write_bytes(picture[:600])
    with pytest.raises(FileFormatError, match=r"trn_000\.jpg cannot be read as an image"):
        read_image(load_spair(spair).images[0].path)
    image.write_bytes(picture)
    (spair / "Layout" / "large" / "val.txt").unlink()
    with pytest.raises(FileFormatError, match=r"val\.txt cannot be read"):
        load_spair(spair)
    with pytest.raises(FileFormatError, match=r"must hold the folders .*: PairAnnotation is missing"):
        load_spair(spair / "Layout")


def test_an_image_in_training_and_test(spair: Path) -> None:
    pairs = spair / "PairAnnotation" / "test"
    edit(next(iter(sorted(pairs.iterdir()))), src_imname="trn_001.jpg")
    with pytest.raises(FileFormatError, match=r"trn_001\.jpg must not be in both training and test"):
        load_spair(spair)


def test_willow_files_that_do_not_fit(willow: Path) -> None:
    with pytest.raises(FileFormatError, match=r"Car must have 8 images for training and two for the test, got 8"):
        load_willow(willow, train=8, validation=2)
    with pytest.raises(InputError, match="validation must be from 2 to train - 2 = 4, got 5"):
        load_willow(willow, train=6, validation=5)
    with pytest.raises(FileFormatError, match=r"must hold a folder of \.png and \.mat files for each category"):
        load_willow(willow / "Car")
    points = willow / "Car" / "0.mat"
    savemat(points, {"pts_coord": np.ones((3, 4))})
    with pytest.raises(FileFormatError, match=r"0\.mat: pts_coord must have two rows, x and y, got shape \(3, 4\)"):
        load_willow(willow, train=6, validation=2)
    points.write_bytes(b"nothing")
    with pytest.raises(FileFormatError, match=r"0\.mat must be a \.mat file with pts_coord"):
        load_willow(willow, train=6, validation=2)
    (willow / "Car" / "0.png").unlink()
    with pytest.raises(FileFormatError, match=r"0\.mat must have an image 0\.png beside it"):
        load_willow(willow, train=6, validation=2)


def test_the_real_willow() -> None:
    folder = Path(os.environ.get("NEURALILP_DATA", "")) / "willow" / "WILLOW-ObjectClass"
    if not folder.is_dir():
        pytest.skip("NEURALILP_DATA has no willow/WILLOW-ObjectClass")
    collection = load_willow(folder)
    assert len(collection.images) == 305
    assert len(collection.train) == 5 * 16 * 15 // 2
