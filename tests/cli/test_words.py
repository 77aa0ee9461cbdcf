"""What every command says the same way."""

from __future__ import annotations

from typer.testing import CliRunner

import neuralilp
from neuralilp.cli import app
from neuralilp.cli.words import in_words


def test_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"{neuralilp.__version__}\n")


def test_figures_that_are_known() -> None:
    assert in_words({"board_accuracy": 1.0, "cost_gap": None, "feasibility": 0.0625}) == (
        "board accuracy 100.0%, feasibility 6.2%"
    )
