"""Checkpoints: ``best.safetensors`` and ``last.pt``, which belong together whenever a run is killed."""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from neuralilp.errors import FileFormatError, InputError
from neuralilp.files import part_of, write_whole

VERSION = 1
BEST = "best.safetensors"
LAST = "last.pt"


class Checkpoints:
    """The folder ``checkpoints`` of a run.

    ``last.pt`` says at which step the best validation was. New best weights wait under another name until the
    ``last.pt`` that knows of them is there, and take their place then: a kill in between is mended by :meth:`read`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.best = folder / BEST
        self.last = folder / LAST
        self._next = folder / f"next-{BEST}"
        self._is_proven = False

    def write(self, content: Mapping[str, Any], best_steps: int | None) -> None:
        self.folder.mkdir(exist_ok=True)
        buffer = io.BytesIO()
        try:
            torch.save({"version": VERSION, "best_steps": best_steps, **content}, buffer)
            if not self._is_proven:  # to see now, not at the resume, whether it can be read without running code
                buffer.seek(0)
                torch.load(buffer, weights_only=True)
                self._is_proven = True
        except (AttributeError, TypeError, pickle.PickleError) as error:
            raise InputError(
                "the states of step, optimiser, scheduler and temperature must be tensors, numbers, strings and plain "
                f"containers to be checkpointed: {' '.join(str(error).split())[:300]}"
            ) from None
        write_whole(self.last, buffer.getvalue())
        if self._next.exists():
            os.replace(self._next, self.best)

    def write_best(self, weights: Mapping[str, Any], steps: int, facts: Mapping[str, Any]) -> None:
        """Weights that become ``best.safetensors`` at the next :meth:`write` that names their step."""
        self.folder.mkdir(exist_ok=True)
        others = [name for name, value in weights.items() if not isinstance(value, Tensor)]
        if others:
            raise InputError(f"the state of step must hold tensors only, but {others[0]} is none")
        # Cloned, since safetensors refuses tensors that share memory, as tied weights and expanded ones do.
        tensors = {name: value.detach().cpu().contiguous().clone() for name, value in weights.items()}
        metadata = {"steps": str(steps), **{name: json.dumps(value) for name, value in facts.items()}}
        write_whole(self._next, safetensors.torch.save(tensors, metadata))

    def read(self) -> dict[str, Any] | None:
        """What :meth:`write` wrote last, with the best weights of that moment in place; None where nothing was."""
        if not self.last.exists():
            return None
        try:
            content = torch.load(self.last, map_location="cpu", weights_only=True)
        except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
            raise FileFormatError(f"{self.last} is no checkpoint: {' '.join(str(error).split())[:200]}") from None
        if not isinstance(content, dict) or content.get("version") != VERSION:
            raise FileFormatError(f"{self.last} is no checkpoint of a version that this neuralilp reads ({VERSION})")
        self._settle(content["best_steps"])
        return content

    def read_best(self) -> dict[str, Tensor]:
        try:
            return safetensors.torch.load_file(self.best)
        except (OSError, safetensors.SafetensorError) as error:
            raise FileFormatError(f"{self.best} cannot be read: {error}") from None

    def _settle(self, steps: int | None) -> None:
        if self._next.exists() and _steps_of(self._next) == steps:
            os.replace(self._next, self.best)
        for path in (self._next, part_of(self._next), part_of(self.last)):
            path.unlink(missing_ok=True)
        if steps is not None and _steps_of(self.best) != steps:
            raise FileFormatError(f"{self.best} should hold the weights after {steps} steps, as {self.last} says")


def _steps_of(path: Path) -> int | None:
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            return int((file.metadata() or {})["steps"])
    except (OSError, KeyError, ValueError, safetensors.SafetensorError):
        return None
