"""``neuralilp data``: what is written, and what is refused."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from neuralilp.cli import app
from neuralilp.tasks.random_constraints.data import Dataset, load
from neuralilp.tasks.random_constraints.generate import generate

SMALL = ["--variables", "4", "--train", "20", "--test", "5", "--constraints", "2"]


def run(folder: Path, *options: str) -> Any:
    return CliRunner().invoke(app, ["data", "random-constraints", "--data", str(folder), *options])


def facts(result: Any) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


def small(seed: int = 0, **changes: Any) -> Dataset:
    options: dict[str, Any] = {"num_variables": 4, "num_train": 20, "num_test": 5, "num_constraints": 2}
    return generate("x", **({"lower": -5, "upper": 5, "seed": seed} | options | changes))


def test_a_new_dataset(tmp_path: Path) -> None:
    printed = facts(run(tmp_path / "new", *SMALL, "--dataset", "3", "--json"))
    dataset = load(tmp_path / "new", "dense", 2, 3)
    assert dataset.fingerprint == printed["fingerprint"] == small(seed=3).fingerprint
    assert dataset.num_train == printed["train"] == 20
    assert (printed["test"], printed["variables"], printed["constraints"], printed["seed"]) == (5, 4, 2, 3)
    assert Path(printed["file"]) == tmp_path / "new" / "random_constraints" / "dense" / "2" / "3.npz"


def test_seed_and_domain(tmp_path: Path) -> None:
    printed = facts(run(tmp_path, *SMALL, "--domain", "binary", "--seed", "7", "--json"))
    assert printed["fingerprint"] == small(seed=7, lower=0, upper=1).fingerprint
    box = ["--domain", "wide", "--lower", "-9", "--upper", "9"]
    printed = facts(run(tmp_path, *SMALL, *box, "--json"))
    assert load(tmp_path, "wide", 2, 0).upper.tolist() == [9] * 4


def test_the_variable_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURALILP_DATA", str(tmp_path))
    result = CliRunner().invoke(app, ["data", "random-constraints", *SMALL])
    assert result.exit_code == 0, result.output
    assert result.stdout.strip().endswith("dense/2/0.npz: 20 + 5 examples")
    assert (tmp_path / "random_constraints" / "dense" / "2" / "0.npz").is_file()


def test_nothing_is_replaced(tmp_path: Path) -> None:
    file = Path(facts(run(tmp_path, *SMALL, "--json"))["file"])
    before = file.read_bytes()
    result = run(tmp_path, *SMALL, "--seed", "1")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {file} exists already and is not replaced")
    assert file.read_bytes() == before


def published(folder: Path, **more: Any) -> Path:
    dataset = small()
    cost, solution = dataset.cost.numpy(), dataset.solution.numpy()
    content = {"train": (cost[:20], solution[:20]), "test": (cost[20:], solution[20:]), "metadata": more}
    path = folder / "dataset.p"
    path.write_bytes(pickle.dumps(content))
    return path


def test_a_converted_dataset(tmp_path: Path) -> None:
    dataset = small()
    assert dataset.true_a is not None
    assert dataset.true_b is not None
    rows = (-dataset.true_a.numpy(), -dataset.true_b.numpy())
    path = published(tmp_path, lb=-5, ub=5, constraints=rows)
    printed = facts(run(tmp_path, "--convert", str(path), "--constraints", "2", "--json"))
    assert printed["fingerprint"] == load(tmp_path, "dense", 2, 0).fingerprint == dataset.fingerprint
    assert printed["has_truth"]
    assert printed["seed"] is None


def test_a_converted_dataset_without_facts(tmp_path: Path) -> None:
    result = run(tmp_path, "--convert", str(published(tmp_path)), "--constraints", "2")
    assert result.exit_code == 0, result.output
    assert "20 + 5 examples, true constraints not recognised" in result.stdout
    assert load(tmp_path, "dense", 2, 0).fingerprint == small().fingerprint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--domain", "wide"], "wide is neither binary nor dense"),
        (["--domain", "a/b", "--lower", "0", "--upper", "1"], "domain must be a plain name"),
        (["--lower", "0"], "dense has bounds of its own"),
        (["--constraints", "0"], "--constraints"),
        (["--convert", "missing.p"], "missing.p cannot be read"),
        (["--convert", "missing.p", "--seed", "0"], "a converted dataset has its own"),
        (["--convert", "missing.p", "--time-limit", "1"], "a converted dataset has its own"),
    ],
)
def test_bad_options_are_named(tmp_path: Path, options: list[str], message: str) -> None:
    result = run(tmp_path, *options)
    assert result.exit_code != 0
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert not list(tmp_path.rglob("*.npz"))


def test_a_pickle_of_another_domain(tmp_path: Path) -> None:
    path = published(tmp_path, lb=-6, ub=6)
    result = run(tmp_path, "--convert", str(path), "--constraints", "2")
    assert result.exit_code == 1
    assert "the bounds of domain dense must be [-5, 5], got [-6, 6]" in result.stderr
