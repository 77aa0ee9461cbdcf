"""Starts of PyTorch's own layers from a generator, which their constructors do not take."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def drawn_from(generator: torch.Generator | None) -> Iterator[None]:
    """Layers made here start from ``generator``, and PyTorch's global one stays as it was; with None, from that."""
    with torch.random.fork_rng(devices=[], enabled=generator is not None):
        if generator is not None:
            torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        yield
