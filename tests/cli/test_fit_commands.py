"""``neuralilp fit``, ``solve``, ``explain`` and ``export``: from a table to rules, answers and an LP file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from neuralilp import read_program
from neuralilp.cli import app
from neuralilp.tables import read_table, write_table

NAMES = ["ant", "bee", "cat", "dog", "elk"]


def invoke(*words: Any) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def error_of(result: Any) -> str:
    assert isinstance(result.exception, SystemExit), result.exception  # no traceback
    return " ".join(result.stderr.replace("│", " ").split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two of five are chosen, the cheapest, and never ant with bee; a model of it."""
    folder = tmp_path_factory.mktemp("fit")
    rng = np.random.default_rng(0)
    costs, chosen = rng.normal(size=(150, 5)), []
    pairs = [(i, j) for i in range(5) for j in range(i + 1, 5) if (i, j) != (0, 1)]
    for cost in costs:
        i, j = min(pairs, key=lambda pair: cost[list(pair)].sum())
        chosen.append([float(k in (i, j)) for k in range(5)])
    dates = [f"2024-{1 + i // 28:02d}-{1 + i % 28:02d}" for i in range(150)]
    write_table(folder / "decisions.csv", ["date", *NAMES], [[d, *row] for d, row in zip(dates, chosen, strict=True)])
    write_table(folder / "costs.csv", NAMES[::-1], [row[::-1].tolist() for row in costs])
    result = invoke(
        "fit", folder / "decisions.csv", "--costs", folder / "costs.csv", "--ignore", "date", "--out", folder / "model"
    )
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert "ant + bee + cat + dog + elk = 2" in lines
    assert "ant + bee <= 1" in lines
    assert any(line.startswith("held out, 30 examples: 100.0% solved exactly") for line in lines)
    return folder


def test_explain(folder: Path) -> None:
    shown = invoke("explain", folder / "model").stdout.splitlines()
    assert shown[:2] == ["ant + bee + cat + dog + elk = 2", "ant + bee <= 1"]
    facts = json.loads(invoke("explain", folder / "model", "--json").stdout.splitlines()[-1])
    assert facts["report"]["contradictions"] == []
    assert facts["rules"][1] == "ant + bee <= 1"


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_solving_new_instances(folder: Path, tmp_path: Path, suffix: str) -> None:
    if suffix == "parquet":
        pytest.importorskip("pyarrow", reason="needs pip install 'neuralilp[parquet]'")
    new, out = tmp_path / f"new.{suffix}", tmp_path / f"z.{suffix}"
    write_table(new, ["elk", "ant", "bee", "cat", "dog"], [[0.0, -5.0, -4.0, -1.0, 2.0]])
    result = invoke("solve", folder / "model", new, "--out", out, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout.splitlines()[-1]) == {"file": str(out), "statuses": {"optimal": 1}}
    table = read_table(out, without=["status"])
    assert table.names == tuple(NAMES)
    assert table.values.tolist() == [[1, 0, 1, 0, 0]]
    assert "exists already" in error_of(invoke("solve", folder / "model", new, "--out", out))


def test_export(folder: Path, tmp_path: Path) -> None:
    result = invoke("export", folder / "model", tmp_path / "m.lp", "--costs", folder / "costs.csv")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.strip() == f"{tmp_path / 'm.lp'}: 5 variables, 2 rows"
    program, names = read_program(tmp_path / "m.lp")
    assert set(names.variables) == set(NAMES)
    assert sum(len(block.a) for block in program.blocks) == 2


def test_without_costs_there_is_a_warning(folder: Path, tmp_path: Path) -> None:
    result = invoke("fit", folder / "decisions.csv", "--ignore", "date", "--out", tmp_path / "model")
    assert result.exit_code == 0, result.stderr
    assert "ant + bee <= 1" in result.stdout.splitlines()
    assert "warning: no costs" in result.stderr


def test_costs_from_features(folder: Path, tmp_path: Path) -> None:
    options = ("--ignore", "date", "--features", folder / "costs.csv", "--out", tmp_path / "model", "--json")
    result = invoke("fit", folder / "decisions.csv", *options)
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout.splitlines()[-1])
    assert facts["report"]["held_out"]["accuracy"] >= 0.7
    solved = invoke("solve", tmp_path / "model", folder / "costs.csv", "--out", tmp_path / "z.csv")
    assert solved.exit_code == 0, solved.stderr


def test_what_is_refused(folder: Path, tmp_path: Path) -> None:
    decisions, costs = folder / "decisions.csv", folder / "costs.csv"
    short, wrong = tmp_path / "short.csv", tmp_path / "wrong.csv"
    short.write_text("\n".join(costs.read_text().splitlines()[:100]) + "\n")
    wrong.write_text(costs.read_text().replace("elk", "eel"))
    cases = {
        ("fit", decisions): "row 2, column 'date' must be a number, got '2024-01-01'",
        ("fit", decisions, "--ignore", "date", "--costs", short): "must have the 150 rows of",
        ("fit", decisions, "--ignore", "date", "--costs", wrong): "has no column 'elk'",
        ("fit", decisions, "--ignore", "date", "--costs", costs, "--features", costs): "either costs or features",
        ("fit", decisions, "--ignore", "date", "--axes", "x,y", "--costs", costs): "axes must be one for each part",
        ("fit", tmp_path / "none.csv"): "there is no file",
        ("fit", decisions, "--out", folder / "model"): "exists already",
        ("explain", tmp_path): "cannot be read as the record",
        ("solve", tmp_path, costs, "--out", tmp_path / "z.csv"): "learner.json",
        ("export", folder / "model", tmp_path / "m.txt"): "must end in",
    }
    for words, message in cases.items():
        result = invoke(*words)
        assert result.exit_code != 0, words
        assert message in error_of(result), words
    assert sorted(path.name for path in tmp_path.iterdir()) == ["short.csv", "wrong.csv"]
