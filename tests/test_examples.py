"""The scripts in examples/ recover what they hide."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from neuralilp.distill import implied_rows

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize(
    ("name", "options"),
    [("product_mix", {"days": 200}), ("assignment", {"days": 400}), ("rostering", {"rosters": 400})],
)
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


def test_illustration(tmp_path: Path) -> None:
    script = runpy.run_path(str(EXAMPLES / "illustration.py"))
    after, terms = script["main"](tmp_path / "illustration.png")
    before = script["LEARNT"]
    assert after[:2].equal(before[:2])  # rows that neither y* nor the negative is nearest to stay
    d_solution, d_negative = (after[:, :2] @ script[name] + after[:, 2] for name in ("Y", "NEGATIVE"))
    assert (d_solution >= 0).all()
    assert d_negative.min() < 0
    # By hand: y* = (2, 3) is 0.45/√1.01 outside one of four rows, and (4, 2) lies 0.3/√1.01 inside the nearest.
    assert terms.positive.item() == pytest.approx(0.45 / 1.01**0.5 / 4)
    assert terms.negative.item() == pytest.approx(0.3 / 1.01**0.5)
    assert (tmp_path / "illustration.png").stat().st_size > 1000
