"""``neuralilp data sudoku``: what is written, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from neuralilp.cli import app
from neuralilp.tasks.sudoku.boards import Boxes
from neuralilp.tasks.sudoku.data import generate, read_csv
from neuralilp.tasks.sudoku.digits import FILES


def run(*options: str) -> Any:
    return CliRunner().invoke(app, ["data", "sudoku", *options])


def facts(result: Any) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


def test_new_boards(tmp_path: Path) -> None:
    printed = facts(run("--size", "4", "--count", "30", "--seed", "7", "--data", str(tmp_path / "new"), "--json"))
    path = tmp_path / "new" / "sudoku" / "4x4.csv"
    assert printed["file"] == str(path)
    assert read_csv(path).fingerprint == printed["fingerprint"] == generate(Boxes(2, 2), 30, seed=7).fingerprint
    assert (printed["boards"], printed["givens"], printed["boxes"]) == (30, [6, 7], "2x2")
    assert "seed 7" in printed["source"]
    assert "text" not in printed


def test_a_file_of_ones_own_and_its_boxes(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    result = run("--box", "3x2", "--count", "5", "--out", str(path))
    assert result.exit_code == 0, result.output
    assert f"{path}: 5 boards with 1" in result.stdout
    assert "givens, 3x2 boxes, in " in result.stdout
    assert read_csv(path, Boxes(3, 2)).fingerprint == generate(Boxes(3, 2), 5).fingerprint


def test_nine_by_default_in_the_folder_of_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURALILP_DATA", str(tmp_path))
    assert run("--count", "2").exit_code == 0
    assert len(read_csv(tmp_path / "sudoku" / "9x9.csv", Boxes(3, 3))) == 2


def test_nothing_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("mine")
    result = run("--size", "4", "--count", "5", "--out", str(path))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {path} exists already and is not replaced")
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--size", "7"], "size must be a product of two numbers"),
        (["--size", "4", "--box", "2x3"], "a board of 4 digits has no boxes of 2x3"),
        (["--box", "2"], "boxes must look like 2x3"),
        (["--count", "0"], "--count"),
        (["--out", "x.csv"], "give either a file or a data folder"),
        (["--digits", "--size", "4"], "digits are the same for all boards"),
    ],
)
def test_bad_options_are_named(tmp_path: Path, options: list[str], message: str) -> None:
    result = run("--data", str(tmp_path), *options)
    assert result.exit_code != 0
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert not list(tmp_path.rglob("*.csv"))


def test_digits_do_not_replace_others(tmp_path: Path) -> None:
    pytest.importorskip("pooch")
    path = tmp_path / "mnist" / next(iter(FILES))
    path.parent.mkdir()
    path.write_bytes(b"mine")
    result = run("--data", str(tmp_path), "--digits")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {path} is not the file of MNIST, and is not replaced")
