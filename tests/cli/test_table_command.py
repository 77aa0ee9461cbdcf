"""``neuralilp table``: what is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from records import write_run
from typer.testing import CliRunner

from neuralilp.cli import app

COMMAND = ["table", "random-constraints"]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Accuracies 50 % and 60 %: 55 ± 5. Times 1 and 3 minutes: 2 ± 1."""
    write_run(tmp_path / "runs" / "0", dataset=0, accuracy=0.5, seconds=60)
    write_run(tmp_path / "runs" / "1", dataset=1, accuracy=0.6, seconds=180)
    return tmp_path / "runs"


def lines(*options: str) -> list[str]:
    result = CliRunner().invoke(app, [*COMMAND, *options])
    assert result.exit_code == 0, result.output
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def test_plain(runs: Path) -> None:
    printed = lines(str(runs))
    assert printed[0].startswith("Random constraints (Table 2)")
    assert "ilploss – – – 55.0 ± 5.0 – – – 2.0 ± 1.0" in printed
    paper = "89.3 ± 1.1 74.8 ± 1.9 34.3 ± 5.6 2.0 ± 0.6 9.9 ± 1.4 16.8 ± 1.3 24.7 ± 2.0 48.2 ± 2.3"
    assert f"dense CombOptNet (paper) {paper}" in printed
    assert printed[-1] == "Ours: mean ± standard error over datasets, 2 a cell."


def test_markdown(runs: Path) -> None:
    printed = lines(str(runs), "--markdown")
    assert "| | ilploss | – | – | – | 55.0 ± 5.0 | – | – | – | 2.0 ± 1.0 |" in printed
    assert len({line.count("|") for line in printed if line.startswith("|")}) == 1


def test_json_is_the_last_line(runs: Path) -> None:
    result = json.loads(lines(str(runs), "--json")[-1])
    assert result["records"] == 2
    ours = [row for row in result["rows"] if row["is_ours"]]
    assert len(ours) == 1
    assert ours[0]["vector_accuracy_percent"]["8"]["mean"] == pytest.approx(55)


def test_results_are_looked_for_by_default(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs)
    result = CliRunner().invoke(app, COMMAND)
    assert result.exit_code == 1
    assert result.stderr == "error: there is no run, record or folder results/random-constraints\n"
    write_run(runs / "results" / "random-constraints" / "run", accuracy=0.25)
    assert "ilploss – – – 25.0 – – – 1.0" in lines()


def test_contradictions_are_errors(runs: Path) -> None:
    write_run(runs / "again", dataset=0, accuracy=0.75)
    result = CliRunner().invoke(app, [*COMMAND, str(runs)])
    assert result.exit_code == 1
    assert "RUNS must hold each run once" in result.stderr
