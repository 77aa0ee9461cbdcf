"""What several processes of one run agree on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from lightning_fabric import Fabric

from neuralilp.errors import NeuralILPError

T = TypeVar("T")


def on_rank_zero(fabric: Fabric, function: Callable[[], T]) -> T:
    """What the first process gets from calling ``function``, on every process; where it fails, all fail."""
    if fabric.world_size == 1:
        return function()
    answer: Any = None
    error: BaseException | None = None
    if fabric.is_global_zero:
        try:
            answer = function()
        except BaseException as caught:
            error = caught
    answer, message = fabric.broadcast((answer, error and f"{type(error).__name__}: {error}"))
    if error is not None:
        raise error
    if message is not None:
        raise NeuralILPError(f"the first process failed with {message}")
    return answer
