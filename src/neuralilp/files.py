"""Files that are whole or not there: written under another name, and renamed."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from neuralilp.errors import InputError


def part_of(path: Path, token: str = "") -> Path:
    """Where ``path`` is being written; the suffix stays.

    Without a ``token`` it is one name, for files that one process alone writes: a killed one leaves it behind, and the
    next write replaces it.
    """
    return path.with_name(f".{path.stem}{token}.part{path.suffix}")


@contextlib.contextmanager
def written_whole(path: Path, part: Path | None = None) -> Iterator[Path]:
    """A name in the same folder to write to, one's own if not given, which becomes ``path`` if nothing is raised."""
    part = part or part_of(path, f"-{secrets.token_hex(4)}")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_whole(path: Path, data: bytes) -> None:
    """For files that one process alone writes."""
    with written_whole(path, part_of(path)) as part:
        write_to_disk(part, data)


@contextlib.contextmanager
def folder_written_whole(folder: Path) -> Iterator[Path]:
    """A new folder beside ``folder``, which takes its place if nothing is raised; what was there stays until then."""
    token = secrets.token_hex(4)
    temporary, old = (folder.with_name(f".{folder.name}-{token}{end}") for end in ("", "-old"))
    try:
        temporary.mkdir()
        yield temporary
        if folder.exists():
            os.rename(folder, old)
        os.rename(temporary, folder)
    finally:
        if old.exists() and not folder.exists():
            os.rename(old, folder)
        for path in (temporary, old):
            shutil.rmtree(path, ignore_errors=True)


def check_new(path: Path) -> None:
    """Raise if there is something at ``path`` already."""
    if path.exists() or path.is_symlink():
        raise InputError(f"{path} exists already and is not replaced: remove it, or choose another place")


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
