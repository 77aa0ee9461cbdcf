"""For the documentation site: links to files of the repository, which the site does not hold, become their paths."""

from __future__ import annotations

import re
from typing import Any

OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)]+)\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """``[loss.py](../src/neuralilp/loss.py)`` is shown as ``src/neuralilp/loss.py``, other words before the path."""

    def shown(match: re.Match[str]) -> str:
        words, path = match.groups()
        return f"`{path}`" if words.strip("`") in path else f"{words} (`{path}`)"

    return OUTSIDE.sub(shown, markdown)
