"""``neuralilp bench``: what is printed."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from neuralilp.cli import app

QUICK = ["bench", "step", "--task", "sudoku", "--size", "4", "--batch", "2", "--repeats", "1", "--no-compile"]


def test_json_is_the_last_line() -> None:
    result = CliRunner().invoke(app, [*QUICK, "--json"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout.strip().splitlines()[-1])
    names = "dense_ms fast_ms speedup dense_peak_mb fast_peak_mb loss_difference gradient_difference"
    assert set(names.split()) <= set(figures)
    assert figures["compiled"] == "no"


def test_plain_output_names_both_sides() -> None:
    result = CliRunner().invoke(app, QUICK)
    assert result.exit_code == 0, result.output
    for word in ("sudoku 4×4", "dense", "fast", "compiled: no", "speed-up", "relative difference"):
        assert word in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--size", "5"], "size must be one of [4, 6, 9], got 5"), (["--task", "chess"], "chess")],
)
def test_bad_options_are_named(options: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["bench", "step", *options])
    assert result.exit_code != 0
    assert message in result.stderr
