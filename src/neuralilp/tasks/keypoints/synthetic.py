"""A small set of pictures made here, in SPair's layout: for tests, and for a run that needs no data.

Each category is a figure of coloured blobs on a textured ground; an image shows it bent by a smooth random map, with
colours and ground of its own, and its keypoints are the blobs' centres.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from neuralilp.errors import InputError
from neuralilp.files import check_new, part_of

SIDE = 96
IMAGES = {"trn": 6, "val": 3, "test": 4}
"""Of each category, in each split."""


def write_synthetic(
    folder: Path, *, categories: int = 2, points: int = 8, images: dict[str, int] | None = None, seed: int = 0
) -> Path:
    """Write the set to a new folder, whole or not at all."""
    images = IMAGES if images is None else images
    if categories < 1 or points < 2 or min(images.values()) < 2:
        raise InputError(
            f"categories must be positive, points and images of a split at least 2, got {categories}, {points} "
            f"and {images}"
        )
    check_new(folder)
    generator = torch.Generator().manual_seed(seed)
    part = part_of(folder, f"-{secrets.token_hex(4)}")
    try:
        for i in range(categories):
            _write_category(part, f"figure{i}", points, images, generator)
        os.rename(part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def _write_category(
    folder: Path, category: str, points: int, images: Mapping[str, int], generator: torch.Generator
) -> None:
    home = 0.15 + 0.7 * torch.rand(points, 2, generator=generator)
    colour = torch.rand(points, 3, generator=generator)
    number = itertools.count()
    for split, count in images.items():
        names = [f"{split}_{next(number):03d}" for _ in range(count)]
        kept = {name: _write_image(folder, category, name, home, colour, generator) for name in names}
        for left, right in itertools.permutations(names, 2):
            _write_pair(folder, split, category, left, right, kept)


def _write_image(
    folder: Path, category: str, name: str, home: Tensor, colour: Tensor, generator: torch.Generator
) -> dict[str, list[int]]:
    from PIL import Image

    centre = _bent(home, generator)
    pixels = _drawn(centre, colour, generator)
    path = folder / "JPEGImages" / category / f"{name}.jpg"
    path.parent.mkdir(parents=True, exist_ok=True)
    data = (255 * pixels).round().to(torch.uint8).permute(1, 2, 0).contiguous()
    Image.frombytes("RGB", (SIDE, SIDE), bytes(data.flatten().tolist())).save(path, quality=92)
    points = {str(i): [int(x), int(y)] for i, (x, y) in enumerate((SIDE * centre).tolist())}
    facts = {"filename": path.name, "category": category, "image_width": SIDE, "image_height": SIDE, "kps": points}
    _write_json(folder / "ImageAnnotation" / category / f"{name}.json", facts)
    return points


def _write_pair(
    folder: Path, split: str, category: str, left: str, right: str, points: dict[str, dict[str, list[int]]]
) -> None:
    listing = folder / "Layout" / "large" / f"{split}.txt"
    listing.parent.mkdir(parents=True, exist_ok=True)
    name = f"{left}-{right}-{category}"
    facts = {
        "category": category,
        "src_imname": f"{left}.jpg",
        "trg_imname": f"{right}.jpg",
        "kps_ids": list(points[left]),
        "src_kps": list(points[left].values()),
        "trg_kps": list(points[right].values()),
    }
    _write_json(folder / "PairAnnotation" / split / f"{name}.json", facts)
    with listing.open("a", encoding="utf-8") as file:
        file.write(f"{name}\n")


def _write_json(path: Path, facts: Mapping[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(facts), encoding="utf-8")


def _bent(home: Float[Tensor, "point 2"], generator: torch.Generator) -> Float[Tensor, "point 2"]:
    """Turned, stretched and bent a little, and kept on the picture."""
    angle = 0.5 * (torch.rand((), generator=generator).item() - 0.5)
    turn = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    stretch = 0.85 + 0.3 * torch.rand(2, generator=generator)
    wave = 0.04 * torch.randn(2, 2, generator=generator)
    moved = (home - 0.5) * stretch @ turn.mT
    return (moved + torch.sin(2 * math.pi * home) @ wave + 0.5).clamp(0.05, 0.95)


def _drawn(
    centre: Float[Tensor, "point 2"], colour: Float[Tensor, "point 3"], generator: torch.Generator
) -> Float[Tensor, "3 height width"]:
    """Blobs, each with a ring of another colour, on a ground of soft noise."""
    coarse = torch.rand(1, 3, 6, 6, generator=generator)
    pixels = torch.nn.functional.interpolate(coarse, (SIDE, SIDE), mode="bicubic")[0].clamp(0, 1) * 0.5
    y, x = torch.meshgrid(*(torch.arange(SIDE) / SIDE for _ in range(2)), indexing="ij")
    for (u, v), tint in zip(centre.tolist(), colour, strict=True):
        distance = ((x - u).square() + (y - v).square()).sqrt()
        own = (tint + 0.08 * torch.randn(3, generator=generator)).clamp(0, 1)
        for radius, shade in ((0.06, own.flip(0)), (0.04, own)):
            cover = ((radius - distance) * SIDE).clamp(0, 1)
            pixels = pixels + cover * (shade[:, None, None] - pixels)
    return (pixels + 0.02 * torch.randn(pixels.shape, generator=generator)).clamp(0, 1)
