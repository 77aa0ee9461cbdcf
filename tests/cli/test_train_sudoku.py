"""``neuralilp train sudoku``: from a file of boards to the rules and the tables, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from neuralilp.cli import app
from neuralilp.tasks.sudoku.boards import Boxes
from neuralilp.tasks.sudoku.data import generate, write_csv

SIZE = ["--size", "4"]


def invoke(*words: Any) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def train(*options: Any) -> Any:
    return invoke("train", "sudoku", *options)


def error_of(result: Any) -> str:
    assert isinstance(result.exception, SystemExit), result.exception  # no traceback
    return " ".join(result.stderr.replace("│", " ").split())


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_csv(generate(Boxes(2, 2), 330), tmp_path_factory.mktemp("boards") / "mine.csv")


@pytest.fixture(scope="module")
def runs(boards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run on all boards, one on 60 of them."""
    folder = tmp_path_factory.mktemp("runs")
    for name, options in (("whole", []), ("part", ["--grids", "60"])):
        result = train(
            *SIZE,
            "--method",
            "ilploss-plus",
            "--boards",
            boards,
            "--data",
            folder / "data",
            "--out",
            folder / name,
            *options,
        )
        assert result.exit_code == 0, result.output
        assert "board accuracy 100.0%" in result.stdout
    return folder


def test_a_run_and_what_is_told_of_it(runs: Path, boards: Path) -> None:
    record = json.loads((runs / "whole" / "record.json").read_text())
    assert record["boards"] == "file mine.csv"
    assert record["has_true_rules"] is True
    told = invoke("explain", runs / "whole")
    assert "for every row and digit, exactly one column (16 rows)" in told.stdout
    assert "by these rules: board accuracy 100.0%" in told.stdout
    again = train(
        *SIZE, "--method", "ilploss-plus", "--boards", boards, "--data", runs / "data", "--out", runs / "whole"
    )
    assert again.exit_code == 1
    assert "holds a run" in error_of(again)


def test_tables(runs: Path) -> None:
    rows = json.loads(invoke("table", "sudoku", runs, "--json").stdout)["rows"]
    ours = [row for row in rows if row["is_ours"]]
    assert [(row["method"], list(row["board_accuracy_percent"])) for row in ours] == [("ilploss-plus", ["4x4"])]
    rows = json.loads(invoke("table", "sudoku-curve", runs, "--json").stdout)["rows"]
    assert rows[0]["board_accuracy_percent"]["60"]["mean"] == 100.0
    assert "60" in invoke("table", "sudoku-curve", runs).stdout
    without = invoke("table", "sudoku-curve", runs / "whole")
    assert without.exit_code == 1
    assert "no record.json of sudoku for this table" in error_of(without)


def test_what_is_refused(boards: Path, tmp_path: Path) -> None:
    place = ["--data", tmp_path, "--out", tmp_path / "run"]
    cases = [
        (["--size", "7"], "size must be a product of two numbers from 2 on"),
        (["--size", "6", "--boards", boards], "mine.csv, line 2:"),
        ([*SIZE, "--boards", tmp_path / "none.csv"], "none.csv"),
        ([*SIZE, "--boards", boards, "--grids", "400"], "train, validation and test must be positive and at most 330"),
        ([*SIZE, "--boards", boards, "--method", "neural"], "method neural reads images"),
        ([*SIZE, "--method", "guess"], "'guess' is not one of"),
    ]
    for options, message in cases:
        result = train(*options, *place)
        assert result.exit_code in (1, 2), options
        assert message in error_of(result), options
    lines = boards.read_text().splitlines()
    for line, message in (
        (lines[1].replace("0", "5", 1), "has '5' in row"),
        (lines[1][:-1], "bad.csv, line 2:"),
        (lines[1][:17] + lines[2][17:], "bad.csv, line 2:"),
    ):
        bad = tmp_path / "bad.csv"
        bad.write_text("\n".join([lines[0], line, *lines[2:]]) + "\n")
        assert message in error_of(train(*SIZE, "--boards", bad, *place)), message
    assert not (tmp_path / "run").exists()
