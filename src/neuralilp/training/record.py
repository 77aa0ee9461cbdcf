"""The record of a run: what was trained on what, how long it took and what came of it, for tables of results."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from neuralilp.errors import FileFormatError, InputError
from neuralilp.files import plain, without_nan, write_whole
from neuralilp.training.plan import Outcome

VERSION = 1
PACKAGES = ("neuralilp", "torch", "numpy", "highspy")
NUMBER = (int, float)
FIELDS: dict[str, tuple[type, ...]] = {
    "record": (int,),
    "task": (str,),
    "method": (str,),
    "seed": (int,),
    "setting": (dict,),
    "data_fingerprint": (str,),
    "stopped": (str,),
    "epochs": (int,),
    "steps": (int,),
    "train_seconds": NUMBER,
    "total_seconds": NUMBER,
    "validation": (dict,),
    "test": (dict,),
    "statuses": (dict,),
    "versions": (dict,),
    "machine": (dict,),
}


def make_record(
    task: str,
    method: str,
    seed: int,
    *,
    setting: Mapping[str, Any],
    data_fingerprint: str,
    outcome: Outcome,
    test: Mapping[str, float],
    statuses: Mapping[str, int],
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The content of ``record.json``. ``test`` holds fractions between 0 and 1; NaN becomes null, everywhere.

    ``extra`` adds entries of the task's own. It holds nothing that tells one's machine by name.
    """
    record = {
        "record": VERSION,
        "task": task,
        "method": method,
        "seed": seed,
        "setting": setting,
        "data_fingerprint": data_fingerprint,
        "stopped": outcome.stopped,
        "epochs": outcome.epochs,
        "steps": outcome.steps,
        "best_epoch": outcome.best_epoch,
        "train_seconds": round(outcome.train_seconds, 3),
        "total_seconds": round(outcome.total_seconds, 3),
        "validation": outcome.figures,
        "test": test,
        "statuses": statuses,
        "versions": versions(),
        "machine": machine(),
    }
    taken = sorted(set(record) & set(extra or {}))
    if taken:
        raise InputError(f"extra must not have the names of the record's own entries, got {', '.join(taken)}")
    result: dict[str, Any] = without_nan(plain({**record, **(extra or {})}))
    for name, value in result["test"].items():
        if value is not None and not 0 <= value <= 1:
            raise InputError(f"test must hold fractions between 0 and 1, got {name} = {value}")
    return result


def write_record(record: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Whole or not at all; an earlier record gives way."""
    text = json.dumps(without_nan(plain(record)), indent=2, allow_nan=False, ensure_ascii=False)
    write_whole(Path(path), (text + "\n").encode())


def read_record(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What :func:`write_record` wrote; a FileFormatError says what is missing or wrong."""
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_refuse)
    except (OSError, ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} cannot be read as the record of a run: {error}") from None
    if not isinstance(record, dict) or record.get("record") != VERSION:
        raise FileFormatError(f"{path} is no record of a version that this neuralilp reads ({VERSION})")
    for name, types in FIELDS.items():
        value = record.get(name)
        if not isinstance(value, types) or isinstance(value, bool):
            expected = " or ".join(kind.__name__ for kind in types)
            raise FileFormatError(f"{path}: {name} must be {expected}, got {json.dumps(value)[:80]}")
    for name, value in record["test"].items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, NUMBER) or not 0 <= value <= 1):
            raise FileFormatError(f"{path}: test.{name} must be between 0 and 1, or null, got {json.dumps(value)[:80]}")
    return record


def fingerprint(tensors: Iterable[Tensor]) -> str:
    """SHA-256 over the shapes, dtypes and bytes of tensors, in their order."""
    digest = hashlib.sha256()
    for tensor in tensors:
        tensor = tensor.detach().cpu().contiguous()
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in PACKAGES} | {"python": platform.python_version()}


def machine() -> dict[str, Any]:
    """What matters for timings. No names of hosts or people."""
    return {"cpu": _cpu_model(), "cores": os.cpu_count(), "threads": torch.get_num_threads()}


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number that JSON has")
