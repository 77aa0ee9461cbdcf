"""Files that are whole or not there: written under another name, and renamed."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PART = ".part"
"""Ends the name of a file that is being written. A killed run leaves one behind, and the next write replaces it."""


def part_of(path: Path) -> Path:
    return path.with_name(f".{path.name}{PART}")


def write_whole(path: Path, data: bytes) -> None:
    part = part_of(path)
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


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
