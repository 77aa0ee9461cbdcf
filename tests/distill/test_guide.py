"""The guide's Python runs, and prints what the guide says."""

from __future__ import annotations

import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "distill.md"


def test_guide_reads_the_assignment_rules() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    names: dict[str, object] = {}
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    exec(compile(snippet, str(GUIDE), "exec"), names)
    lines, plain = names["lines"], names["plain"]
    assert isinstance(lines, list)
    assert isinstance(plain, list)
    assert lines == re.findall(r"^# (for every .*|6 rows .*)$", text, re.MULTILINE)
    assert plain[0] == "z0 + z1 + z2 = 1"
    assert names["answer"].z.tolist() == names["solutions"][:1].tolist()  # type: ignore[attr-defined, index]
