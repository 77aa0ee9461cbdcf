"""Ctrl-C and SIGTERM while a run is under way."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Takes note of SIGINT and SIGTERM, to be looked at between steps; a second one raises KeyboardInterrupt at once.

    Signals that are ignored stay so, and the handlers from before come back. Outside the main thread, where Python
    takes no handlers, nothing is noted.
    """

    def __init__(self) -> None:
        self.is_set = False
        self._raises = False

    @contextlib.contextmanager
    def heeded(self) -> Iterator[None]:
        earlier = {}
        if threading.current_thread() is threading.main_thread():
            handled = [number for number in SIGNALS if signal.getsignal(number) not in (signal.SIG_IGN, None)]
            earlier = {number: signal.signal(number, self._handle) for number in handled}
        try:
            yield
        finally:
            for number, handler in earlier.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """Inside, even the first signal raises KeyboardInterrupt: for what takes long and can be done again."""
        self._raises = True
        try:
            if self.is_set:
                raise KeyboardInterrupt
            yield
        finally:
            self._raises = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        is_second, self.is_set = self.is_set, True
        if self._raises or is_second:
            raise KeyboardInterrupt
