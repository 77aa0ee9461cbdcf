"""How commands say things."""

from __future__ import annotations

from collections.abc import Mapping


def in_words(figures: Mapping[str, float | None]) -> str:
    """``vector accuracy 97.1%, variable accuracy 99.8%``: shares by name, without those that are not known."""
    known = {name: value for name, value in figures.items() if value is not None}
    return ", ".join(f"{name.replace('_', ' ')} {value:.1%}" for name, value in known.items())
