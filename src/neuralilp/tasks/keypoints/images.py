"""Annotated images, and which pairs of them are for training, validation and test: SPair-71k's layout, and Willow's."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from neuralilp.errors import FileFormatError, InputError

SPAIR_FOLDERS = ("PairAnnotation", "ImageAnnotation", "JPEGImages", "Layout")
SPAIR_SPLITS = ("trn", "val", "test")
WILLOW_POINTS = "pts_coord"
WILLOW_TRAIN, WILLOW_VALIDATION = 20, 4
"""Images of a category for training, as is common, and how many of these are kept for validation."""


@dataclasses.dataclass(frozen=True, eq=False)
class AnnotatedImage:
    """An image file, and points on it, by numbers that mean the same in every image of its category."""

    path: Path
    category: str
    number: Int[Tensor, " point"]
    point: Float[Tensor, "point 2"]
    """x to the right and y down, in pixels from the upper left corner."""


Pair = tuple[int, int]


class Collection(NamedTuple):
    """Images, and pairs of them by their positions; no image of the test is in a pair of the others."""

    images: list[AnnotatedImage]
    train: list[Pair]
    validation: list[Pair]
    test: list[Pair]
    source: str


def image_size(path: Path) -> tuple[int, int]:
    """Width and height, without reading the picture."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            width, height = image.size
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise FileFormatError(f"{path} cannot be read as an image: {error}") from None
    return width, height


def read_image(path: Path) -> Float[Tensor, "3 height width"]:
    """Red, green and blue, from 0 to 1."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            rgb = image.convert("RGB")
            width, height = rgb.size
            data = torch.frombuffer(bytearray(rgb.tobytes()), dtype=torch.uint8)
    except (OSError, SyntaxError, ValueError) as error:  # what a damaged file raises
        raise FileFormatError(f"{path} cannot be read as an image: {error}") from None
    return data.view(height, width, 3).permute(2, 0, 1).float() / 255


def annotated(path: Path, category: str, points: dict[int, tuple[float, float]], source: Path) -> AnnotatedImage:
    """Checked: there are points, and all of them lie on the image. ``source`` is the file that they are from."""
    if not points:
        raise FileFormatError(f"{source} must name at least one keypoint, got none")
    width, height = image_size(path)
    for number, (x, y) in points.items():
        if not (0 <= x < width and 0 <= y < height):
            raise FileFormatError(
                f"{source}: keypoint {number} must lie on {path.name}, {width} by {height} pixels, got ({x:g}, {y:g})"
            )
    return AnnotatedImage(path, category, torch.tensor(list(points)), torch.tensor(list(points.values())).float())


# -- SPair-71k ---------------------------------------------------------------------------------------------------------


def load_spair(folder: Path, layout: str = "large") -> Collection:
    """The pairs of ``Layout/large`` (or another layout) with the points that their ``ImageAnnotation`` has."""
    missing = [name for name in SPAIR_FOLDERS if not (folder / name).is_dir()]
    if missing:
        raise FileFormatError(f"{folder} must hold the folders {', '.join(SPAIR_FOLDERS)}: {missing[0]} is missing")
    images: list[AnnotatedImage] = []
    positions: dict[tuple[str, str], int] = {}

    def position(category: str, name: str) -> int:
        key = (category, Path(name).stem)
        if key not in positions:
            positions[key] = len(images)
            images.append(_spair_image(folder, *key))
        return positions[key]

    splits: list[list[Pair]] = []
    for split in SPAIR_SPLITS:
        listing = folder / "Layout" / layout / f"{split}.txt"
        pairs = []
        for line in _lines(listing):
            annotation = folder / "PairAnnotation" / split / f"{line}.json"
            facts = _json(annotation)
            try:
                category, left, right = (str(facts[key]) for key in ("category", "src_imname", "trg_imname"))
            except KeyError as error:
                raise FileFormatError(f"{annotation} must have the entry {error}") from None
            pairs.append((position(category, left), position(category, right)))
        splits.append(pairs)
    train, validation, test = splits
    shared = {i for pair in test for i in pair} & {i for pair in train + validation for i in pair}
    if shared:
        raise FileFormatError(f"{folder}: {images[min(shared)].path.name} must not be in both training and test")
    return Collection(images, train, validation, test, source=f"{folder.absolute().name}, {layout}")


def _spair_image(folder: Path, category: str, name: str) -> AnnotatedImage:
    annotation = folder / "ImageAnnotation" / category / f"{name}.json"
    facts = _json(annotation)
    try:
        points = {int(number): (float(xy[0]), float(xy[1])) for number, xy in facts["kps"].items() if xy is not None}
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise FileFormatError(f"{annotation} must have kps, a number for each keypoint with x and y or null") from None
    return annotated(folder / "JPEGImages" / category / f"{name}.jpg", category, points, annotation)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split()
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path} cannot be read: {error}") from None


def _json(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(facts, dict):
        raise FileFormatError(f"{path} must hold a JSON object, got {type(facts).__name__}")
    return facts


# -- Willow-ObjectClass ------------------------------------------------------------------------------------------------


def load_willow(
    folder: Path, *, train: int = WILLOW_TRAIN, validation: int = WILLOW_VALIDATION, seed: int = 0
) -> Collection:
    """A folder of images for each category, each with a ``.mat`` file of its points.

    ``train`` images of a category, drawn by ``seed``, are for training, the last ``validation`` of them for validation;
    all others are for the test. Pairs are all those within a category and a split.
    """
    if not 2 <= validation <= train - 2:
        raise InputError(f"validation must be from 2 to train - 2 = {train - 2}, got {validation}")
    images: list[AnnotatedImage] = []
    by_category: dict[str, list[int]] = defaultdict(list)
    for points in sorted(folder.glob("*/*.mat")):
        by_category[points.parent.name].append(len(images))
        images.append(_willow_image(points))
    if not images:
        raise FileFormatError(f"{folder} must hold a folder of .png and .mat files for each category, got none")
    generator = torch.Generator().manual_seed(seed)
    splits: tuple[list[Pair], list[Pair], list[Pair]] = ([], [], [])
    for category, members in by_category.items():
        if len(members) < train + 2:
            raise FileFormatError(
                f"{folder / category} must have {train} images for training and two for the test, got {len(members)}"
            )
        order = [members[i] for i in torch.randperm(len(members), generator=generator).tolist()]
        parts = (order[: train - validation], order[train - validation : train], order[train:])
        for pairs, part in zip(splits, parts, strict=True):
            pairs += itertools.combinations(part, 2)
    return Collection(images, *splits, source=f"Willow, seed {seed}")


def _willow_image(points: Path) -> AnnotatedImage:
    from scipy.io import loadmat  # type: ignore[import-untyped]

    image = points.with_suffix(".png")
    if not image.is_file():
        raise FileFormatError(f"{points} must have an image {image.name} beside it")
    try:
        coordinates = loadmat(points)[WILLOW_POINTS]
    except Exception as error:  # a damaged file can raise anything
        raise FileFormatError(f"{points} must be a .mat file with {WILLOW_POINTS}: {error}") from None
    if coordinates.ndim != 2 or coordinates.shape[0] != 2:
        raise FileFormatError(f"{points}: {WILLOW_POINTS} must have two rows, x and y, got shape {coordinates.shape}")
    xs, ys = (coordinates - 1).tolist()  # counted from 1 there
    return annotated(image, points.parent.name, dict(enumerate(zip(xs, ys, strict=True))), points)


# -- samples -----------------------------------------------------------------------------------------------------------


class Matches(NamedTuple):
    """For each sample two images and k of the points that both have, in an order of its own for each of them.

    ``left_point[s, i]`` is the i-th point of the left image, by its position there; the true partner of i is the j with
    ``target[s, i, j]`` = 1.
    """

    image: Int[Tensor, "sample 2"]
    left_point: Int[Tensor, "sample k"]
    right_point: Int[Tensor, "sample k"]
    target: Float[Tensor, "sample k k"]

    def take(self, samples: list[int]) -> Matches:
        return Matches(*(tensor[samples] for tensor in self))


def sample_matches(
    images: Sequence[AnnotatedImage], pairs: Sequence[Pair], k: int, count: int, generator: torch.Generator
) -> Matches:
    """``count`` samples of random pairs that share at least k points, either way round.

    Categories take turns, so that one with many images does not count for more than another.
    """
    if count < 1:
        raise InputError(f"count must be positive, got {count}")
    shared = shared_points(images, pairs, k)
    usable: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        if pair in shared:
            usable[images[pair[0]].category].append(pair)
    rows = []
    for members in itertools.islice(itertools.cycle(usable.values()), count):
        pair = members[int(torch.randint(len(members), (), generator=generator))]
        left, right = pair if torch.rand((), generator=generator) < 0.5 else pair[::-1]
        numbers = shared[pair]
        chosen = numbers[torch.randperm(len(numbers), generator=generator)[:k]]
        orders = [torch.randperm(k, generator=generator) for _ in range(2)]
        places = [
            (images[image].number[:, None] == chosen[order]).int().argmax(0)
            for image, order in zip((left, right), orders, strict=True)
        ]
        target = (chosen[orders[0]][:, None] == chosen[orders[1]]).float()
        rows.append((torch.tensor([left, right]), *places, target))
    return Matches(*(torch.stack(column) for column in zip(*rows, strict=True)))


def shared_points(images: Sequence[AnnotatedImage], pairs: Sequence[Pair], k: int) -> dict[Pair, Int[Tensor, " point"]]:
    """The pairs whose images have at least k points in common, and the numbers of these; an error if there is none."""
    if k < 2 or not pairs:
        raise InputError(f"k must be at least 2 and pairs not be empty, got {k} and {len(pairs)} pairs")
    shared = {pair: _shared(images[pair[0]], images[pair[1]]) for pair in dict.fromkeys(pairs)}
    usable = {pair: numbers for pair, numbers in shared.items() if len(numbers) >= k}
    if not usable:
        best = max(shared, key=lambda pair: len(shared[pair]))
        left, right = (images[i].path for i in best)
        raise InputError(
            f"k must be at most {len(shared[best])}, the points that {left} and {right} share: no others share more, "
            f"got {k}"
        )
    return usable


def _shared(left: AnnotatedImage, right: AnnotatedImage) -> Int[Tensor, " point"]:
    return left.number[torch.isin(left.number, right.number)]
