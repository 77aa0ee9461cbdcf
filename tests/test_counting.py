"""How far counted work is, in lines."""

from __future__ import annotations

import pytest

from neuralilp import counting


def test_a_line_at_the_end_and_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with counting.counted("done", 3) as advance:
        advance(1)
        assert capsys.readouterr().err == ""
        monkeypatch.setattr(counting, "SECONDS_BETWEEN_LINES", 0.0)
        advance(1, "all good")
        assert capsys.readouterr().err.startswith("done 2 of 3 in ")
        advance(1)
    assert capsys.readouterr().err.startswith("done 3 of 3 in ")
