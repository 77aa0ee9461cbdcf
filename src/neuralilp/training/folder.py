"""The folder of a run: its configuration, curves, TensorBoard files, checkpoints and record."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from neuralilp.errors import FileFormatError, InputError
from neuralilp.files import part_of, plain, write_whole
from neuralilp.training.checkpoints import Checkpoints
from neuralilp.training.curves import Curves
from neuralilp.training.plan import CHANGEABLE
from neuralilp.training.record import read_record, write_record

CONFIG, RECORD, LOCK = "config.yaml", "record.json", ".lock"
LEFTOVERS = (LOCK, part_of(Path(CONFIG)).name)
"""What a run leaves that was killed before it began: such a folder counts as empty."""


class RunFolder:
    """One run's folder. Making the object touches nothing; :meth:`opened` does.

    ``config`` is what makes the run what it is: it is written to ``config.yaml``, and a resumed run must have the
    same, but for entries named ``epochs``, ``time_limit`` and ``checkpoint_every``, at any depth. TensorBoard's files
    and the picture of the curves take a second each; either can be left out.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        config: Mapping[str, Any] | None = None,
        *,
        tensorboard: bool = True,
        picture: bool = True,
    ) -> None:
        self.path = Path(path)
        self.config: dict[str, Any] = plain(config or {})
        self.checkpoints = Checkpoints(self.path / "checkpoints")
        self.curves = Curves(self.path, tensorboard=tensorboard, picture=picture)

    def check(self, *, resume: bool) -> None:
        """Whether a run may begin here, or go on: an InputError says why not. Reads only."""
        if self.path.is_symlink() and not self.path.exists():
            raise InputError(f"{self.path} is a link to nothing")
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file: the folder of a run is needed, or a new name")
        held = (
            sorted(path.name for path in self.path.iterdir() if path.name not in LEFTOVERS)
            if self.path.exists()
            else []
        )
        if not held:
            return
        if CONFIG not in held:
            raise InputError(f"{self.path} holds other files than a run's ({', '.join(held[:3])}): take another folder")
        if not resume:
            raise InputError(f"{self.path} holds a run already: resume it, or take another folder")
        differing = _difference(self._read_config(), self.config)
        if differing is not None:
            name, old, new = differing
            raise InputError(f"{self.path} holds another run: its {name} is {old}, and {new} was asked for")

    @contextlib.contextmanager
    def opened(self, more: Mapping[str, Any], *, resume: bool) -> Iterator[None]:
        """Begin the run, or open it to go on, for this process alone. ``more`` is added to the configuration."""
        self.config |= plain(more)
        self.check(resume=resume)
        self.path.mkdir(parents=True, exist_ok=True)
        with self.locked():
            self.check(resume=resume)
            text = yaml.safe_dump(self.config, sort_keys=False, width=120).encode()
            if not (self.path / CONFIG).exists() or self._read_config() != yaml.safe_load(text):
                write_whole(self.path / CONFIG, text)
            try:
                yield
            finally:
                self.curves.close()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """For this process alone."""
        with _locked(self.path / LOCK):
            yield

    def write_record(self, record: Mapping[str, Any]) -> None:
        write_record(record, self.path / RECORD)

    def read_record(self) -> dict[str, Any]:
        return read_record(self.path / RECORD)

    def has_record(self) -> bool:
        return (self.path / RECORD).exists()

    def _read_config(self) -> dict[str, Any]:
        path = self.path / CONFIG
        try:
            config = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise FileFormatError(f"{path} cannot be read as YAML: {' '.join(str(error).split())}") from None
        if not isinstance(config, dict):
            raise FileFormatError(f"{path} is no configuration of a run")
        return config


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time. The lock goes with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    with path.open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{path.parent} is in use: another process trains there") from None
        except OSError:
            pass  # a file system without locks
        yield


def _difference(old: Any, new: Any, name: str = "configuration") -> tuple[str, Any, Any] | None:
    """The first entry that differs and may not, as its name and both values."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return None if old == new else (name, old, new)
    for key in dict.fromkeys([*old, *new]):
        if key not in CHANGEABLE:
            inner = key if name == "configuration" else f"{name}.{key}"
            differing = _difference(old.get(key), new.get(key), inner)
            if differing is not None:
                return differing
    return None
