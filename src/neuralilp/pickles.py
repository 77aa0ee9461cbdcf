"""Pickles of NumPy arrays and plain containers, read without running what they might hold."""

from __future__ import annotations

import collections
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from neuralilp.errors import FileFormatError


def read_pickle(path: Path) -> Any:
    """What a pickle of NumPy arrays, numbers, strings and plain containers holds; anything else in it is an error."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read: {error.strerror}") from None
    try:
        return _Unpickler(io.BytesIO(content)).load()
    except _Forbidden as error:
        raise FileFormatError(
            f"{path} must hold NumPy arrays and plain containers only, but it asks for {error}; nothing was run"
        ) from None
    except Exception as error:  # a damaged pickle can raise anything
        raise FileFormatError(f"{path} is truncated or no pickle: {type(error).__name__}: {error}") from None


class _Forbidden(Exception):
    """The global that a pickle asked for."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy.core.", "numpy._core.")  # as NumPy 1 wrote it
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise _Forbidden(f"{module}.{name}") from None

    def persistent_load(self, pid: Any) -> Any:
        raise _Forbidden(f"persistent object {pid!r}")


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """Stands in for ``_codecs.encode``, by which bytes are written in old protocols: always in this encoding."""
    if encoding not in ("latin1", "latin-1"):
        raise _Forbidden(f"_codecs.encode to {encoding!r}")
    return text.encode("latin1")


def _how_numpy_pickles(value: Any, protocol: int) -> Callable[..., Any]:
    """The function by which NumPy rebuilds ``value``; it has moved between versions."""
    return value.__reduce_ex__(protocol)[0]


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy._core.multiarray", "_reconstruct"): _how_numpy_pickles(np.zeros(1), 2),
    ("numpy._core.multiarray", "scalar"): _how_numpy_pickles(np.float32(0), 2),
    ("numpy._core.numeric", "_frombuffer"): _how_numpy_pickles(np.zeros(1), 5),
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _encode,
    ("collections", "OrderedDict"): collections.OrderedDict,
}
