"""The sets of images by name, where they lie, and samples of them with features."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import stat
from pathlib import Path

import platformdirs

from neuralilp.errors import BackendMissingError, FileFormatError
from neuralilp.tasks.keypoints.features import cached_features, source_of
from neuralilp.tasks.keypoints.images import Collection, load_spair, load_willow, shared_points
from neuralilp.tasks.keypoints.job import SAMPLES, KeypointData, prepared
from neuralilp.tasks.keypoints.synthetic import write_synthetic

WILLOW, SPAIR, SYNTHETIC = "willow", "spair", "synthetic"
PLACES = {WILLOW: Path("willow/WILLOW-ObjectClass"), SPAIR: Path("spair/SPair-71k")}
"""In the data folder."""

ADDRESSES = {
    WILLOW: "https://www.di.ens.fr/willow/research/graphlearning",
    SPAIR: "https://cvlab.postech.ac.kr/research/SPair-71k",
}


def made_folder(folder: Path) -> Path:
    """Where what is made here goes: below the data folder, or below the cache folder if that one is read-only."""
    is_read_only = not os.access(folder, os.W_OK) or not stat.S_IMODE(folder.stat().st_mode) & 0o222
    return (platformdirs.user_cache_path("neuralilp") if is_read_only else folder) / "keypoints"


def images_folder(folder: Path, images: str) -> Path:
    """Where the images are, by a name or by their folder."""
    if images == SYNTHETIC:
        return made_folder(folder) / SYNTHETIC
    return folder / PLACES[images] if images in PLACES else Path(images)


def load_images(folder: Path, images: str) -> Collection:
    """``images`` is willow, spair, synthetic, or a folder in the layout of either; synthetic ones are made if need be.

    ``folder`` is the data folder.
    """
    place = images_folder(folder, images)
    if images == SYNTHETIC and not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        write_synthetic(place)
    if not place.is_dir():
        raise FileFormatError(
            f"there are no images {place}: images must be {', '.join((*PLACES, SYNTHETIC))} or a folder"
            + (f"; those of {images} are at {ADDRESSES[images]}" if images in ADDRESSES else "")
        )
    if images == WILLOW:
        return load_willow(place)
    is_spair = images in (SPAIR, SYNTHETIC) or (place / "Layout").exists()
    return load_spair(place) if is_spair else load_willow(place)


def load(
    folder: Path,
    images: str,
    k: int,
    *,
    weights: Path | None = None,
    counts: tuple[int, int, int] = SAMPLES,
    progress: bool = False,
) -> KeypointData:
    """Samples of k points, with features by VGG16: of ``weights``, a torchvision file, or of the installed package."""
    require_scipy()
    collection = load_images(folder, images)
    for pairs in (collection.train, collection.validation, collection.test):
        shared_points(collection.images, pairs, k)  # before the long work
    features = cached_features(collection.images, made_folder(folder), weights=weights, progress=progress)
    return dataclasses.replace(prepared(collection, features, k, counts), encoder=f"VGG16, {source_of(weights)}")


def require_scipy() -> None:
    if importlib.util.find_spec("scipy") is None:
        raise BackendMissingError("keypoints need the package scipy: pip install 'neuralilp[keypoints]'")
