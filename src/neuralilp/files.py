"""Files that are whole or not there: written under another name, and renamed."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def part_of(path: Path) -> Path:
    """Where ``path`` is being written. A killed process leaves one behind, and the next write replaces it."""
    return path.with_name(f".{path.stem}.part{path.suffix}")


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A name in the same folder and with the same suffix to write to, which becomes ``path`` if nothing is raised."""
    part = part_of(path)
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_whole(path: Path, data: bytes) -> None:
    with written_whole(path) as part:
        write_to_disk(part, data)


def write_to_disk(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def plain(value: Any) -> Any:
    """Mappings, sequences, paths and numbers of any library as Python's own, for YAML and JSON."""
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value


def without_nan(value: Any) -> Any:
    """Null in place of what JSON has no number for: NaN and the infinities."""
    if isinstance(value, dict):
        return {name: without_nan(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
