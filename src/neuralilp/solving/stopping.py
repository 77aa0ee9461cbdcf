"""Stopping solves that run in other threads, so that Ctrl-C ends a batch."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neuralilp.solving.backend import Model


class Stopped(Exception):
    """Raised inside a worker when the batch has been stopped; it never leaves ``solve``."""


class StopSignal:
    """Knows the models being solved, and interrupts them. In another process it starts afresh."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models: list[Model] = []
        self._is_set = False

    def __reduce__(self) -> tuple[type[StopSignal], tuple[()]]:
        return StopSignal, ()

    @contextlib.contextmanager
    def watching(self, model: Model) -> Iterator[None]:
        with self._lock:
            if self._is_set:
                raise Stopped
            self._models.append(model)
        try:
            yield
        finally:
            with self._lock:
                self._models.remove(model)
        if self._is_set:
            raise Stopped

    def stop(self, patience: float = 10.0) -> None:
        """Interrupt every model, again and again until all have returned or ``patience`` seconds have passed.

        A solver that has not quite started yet misses an interrupt, hence the repetition.
        """
        deadline = time.monotonic() + patience
        while True:
            with self._lock:
                self._is_set = True
                models = list(self._models)
            if not models or time.monotonic() > deadline:
                return
            for model in models:
                model.interrupt()
            time.sleep(0.02)
