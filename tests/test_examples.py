"""The scripts in examples/ recover what they hide."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from neuralilp.distill import implied_rows

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize(("name", "options"), [("product_mix", {"days": 200}), ("assignment", {"days": 400})])
def test_hidden_rules_are_recovered(name: str, options: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    script = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    learner = script["main"](**options)
    assert bool(implied_rows(learner.program_, script["hidden_block"]()).all())
    assert learner.report_.held_out["accuracy"] >= 0.9
    assert "hidden rules that the learnt ones imply" in capsys.readouterr().out


def test_wrong_decisions_among_right_ones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    script = runpy.run_path(str(EXAMPLES / "noise.py"))
    found = script["main"](tmp_path / "curve.png", (0.05,))
    assert set(found) == {"assignment", "product mix"}
    for ((right, implied),) in found.values():
        assert right >= 0.95
        assert implied == 1
    assert (tmp_path / "curve.png").stat().st_size > 1000
