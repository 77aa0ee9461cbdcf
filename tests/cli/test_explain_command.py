"""``neuralilp explain``: the rules of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from records import write_run
from typer.testing import CliRunner

from neuralilp.cli import app

RULES = ["for every worker, exactly one task (3 rows)", "3 rows in 1 sentence, 0 rows unexplained"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    figures = {"rules": RULES, "test_raw": {"board_accuracy": 0.25}, "statuses_raw": {"optimal": 3, "infeasible": 1}}
    write_run(tmp_path, **figures, has_true_rules=True)
    return tmp_path


def test_rules_and_both_accuracies_are_printed(run: Path) -> None:
    for place in (run, run / "record.json"):
        result = CliRunner().invoke(app, ["explain", str(place)])
        assert result.exit_code == 0
        lines = result.stdout.splitlines()
        assert lines[:3] == [*RULES, "these are the true rules: they have the same row space"]
        assert lines[4] == "by these rules: vector accuracy 50.0%, variable accuracy 75.0% on 1000 instances"
        assert lines[5] == "by the learnt rows as they are: board accuracy 25.0% on 4 instances"


def test_rows_that_say_too_little_are_not_called_rules(tmp_path: Path) -> None:
    write_run(tmp_path, rules=["0 rows in 0 sentences, 32 rows unexplained"], solved_by="rows", has_true_rules=False)
    lines = CliRunner().invoke(app, ["explain", str(tmp_path)]).stdout.splitlines()
    assert lines[2].startswith("these say too little, so by the learnt rows: vector accuracy 50.0%")


def test_json(run: Path) -> None:
    found = json.loads(CliRunner().invoke(app, ["explain", str(run), "--json"]).stdout.splitlines()[-1])
    assert found["rules"] == RULES
    assert found["has_true_rules"] is True


def test_a_run_without_rules_and_no_run_at_all(tmp_path: Path) -> None:
    write_run(tmp_path)
    result = CliRunner().invoke(app, ["explain", str(tmp_path)])
    assert result.exit_code == 1
    assert "has no rules: random-constraints by ilploss does not read any" in result.stderr
    result = CliRunner().invoke(app, ["explain", str(tmp_path / "nothing")])
    assert result.exit_code == 1
    assert "cannot be read as the record of a run" in result.stderr
