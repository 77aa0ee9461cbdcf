"""Models and programs as a folder: ``weights.safetensors`` and a readable ``config.yaml``; nothing in it is run."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Mapping
from pathlib import Path

import safetensors
import safetensors.torch
import yaml
from torch import Tensor, nn

from neuralilp.description import Facts, NetworkError, describe, rebuild
from neuralilp.errors import FileFormatError, InputError, NeuralILPError
from neuralilp.files import folder_written_whole, plain, write_to_disk
from neuralilp.model import NeuralILP
from neuralilp.program import IntegerProgram

FORMAT = "neuralilp"
VERSION = 1
CONFIG_FILE = "config.yaml"
WEIGHTS_FILE = "weights.safetensors"


def save(model: NeuralILP | IntegerProgram, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write a model or a program to a folder, whole or not at all.

    Our own modules are described by their class and ``config()``. Of any other module (a network, or a constraint
    module of your own) only the weights are kept, and :func:`load` asks for it by its path, as ``"cost.network"``.

    With ``overwrite`` an earlier model gives way to the new one once that is complete. A folder that holds anything
    else is never replaced.
    """
    facts, tensors = describe(model)
    folder = Path(folder)
    _check_target(folder, overwrite)
    # Cloned, since safetensors refuses tensors that share memory, as tied weights and expanded ones do.
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    config = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": f"neuralilp {importlib.metadata.version('neuralilp')}",
        **facts,
        "tensors": _table(tensors),
    }
    text = yaml.safe_dump(plain(config), sort_keys=False, default_flow_style=None, width=160)
    with folder_written_whole(folder) as temporary:
        write_to_disk(temporary / CONFIG_FILE, text.encode())
        write_to_disk(temporary / WEIGHTS_FILE, safetensors.torch.save(tensors))
    return folder


def load(
    folder: str | os.PathLike[str], *, networks: Mapping[str, nn.Module] | None = None
) -> NeuralILP | IntegerProgram:
    """Read what :func:`save` wrote.

    ``networks`` holds, by module path, the modules that are not ours: ``{"cost.network": MyNetwork()}``. They get the
    saved weights and dtypes in place.
    """
    folder = Path(folder)
    config = _read_config(folder / CONFIG_FILE)
    tensors = _read_weights(folder / WEIGHTS_FILE, config["tensors"])
    try:
        return rebuild(config, tensors, networks or {})
    except NetworkError as error:
        raise NetworkError(f"{folder}: {error}") from None
    except (NeuralILPError, AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise FileFormatError(f"{folder / CONFIG_FILE} does not describe a model: {what}") from None


def _check_target(folder: Path, overwrite: bool) -> None:
    if not folder.parent.is_dir():
        raise InputError(f"folder must lie in a folder that exists, got {folder}")
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise InputError(f"folder must be a folder or a new name, but {folder} is a file or a link")
    if not folder.exists():
        return
    if not overwrite:
        raise InputError(f"{folder} exists already: pass overwrite=True to replace it, or take another name")
    others = sorted(path.name for path in folder.iterdir() if path.name not in (CONFIG_FILE, WEIGHTS_FILE))
    if others:
        raise InputError(f"{folder} holds more than a model ({', '.join(others[:3])}) and is not replaced")


def _read_config(path: Path) -> Facts:
    _check_file(path)
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise FileFormatError(f"{path} cannot be read as YAML: {' '.join(str(error).split())}") from None
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise FileFormatError(f"{path} has no line `format: {FORMAT}`: it does not belong to a saved model")
    if config.get("version") != VERSION:
        raise FileFormatError(
            f"{path} has the format version {config.get('version')!r}, and this neuralilp reads {VERSION}"
        )
    if not isinstance(config.get("tensors"), dict):
        raise FileFormatError(f"{path} is truncated: it does not end with the table of the tensors")
    return config


def _read_weights(path: Path, expected: Facts) -> dict[str, Tensor]:
    """The tensors, which must be those of the table in the configuration."""
    _check_file(path)
    try:
        tensors = safetensors.torch.load_file(path)
    except (OSError, KeyError, safetensors.SafetensorError) as error:
        raise FileFormatError(f"{path} is truncated or no safetensors file: {error}") from None
    found = _table(tensors)
    differing = sorted(str(name) for name in found | expected if found.get(name) != expected.get(name))
    if differing:
        name = differing[0]
        raise FileFormatError(
            f"{path} does not belong to {CONFIG_FILE}: {name} is {found.get(name, 'not there')}, "
            f"expected {expected.get(name, 'no such tensor')}"
        )
    return tensors


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise FileFormatError(f"there is no file {path}: is {path.parent} the folder of a saved model?")


def _table(tensors: Mapping[str, Tensor]) -> Facts:
    """The dtype and the shape of each, as ``[float32, 12, 2]``."""
    return {name: [str(t.dtype).removeprefix("torch."), *t.shape] for name, t in sorted(tensors.items())}
