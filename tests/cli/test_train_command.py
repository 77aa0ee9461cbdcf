"""``neuralilp train``: what a run leaves behind, what is refused, and that a killed process goes on."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import yaml
from processes import heed_interrupts
from typer.testing import CliRunner

from neuralilp import NeuralILP, load
from neuralilp.cli import app
from neuralilp.cli.train import Method
from neuralilp.evidence import valid_cuts
from neuralilp.metrics import variable_accuracy, vector_accuracy
from neuralilp.solving import CutPool, solve
from neuralilp.tasks.random_constraints.data import Dataset, dataset_path, save_npz
from neuralilp.tasks.random_constraints.generate import generate
from neuralilp.tasks.random_constraints.methods import METHODS
from neuralilp.training import read_curves

COMMAND = ["train", "random-constraints"]
SMALL = ["--domain", "small", "--constraints", "2"]
SECONDS = "1.5"
METHOD_NAMES = [method.value for method in Method]


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    box = {"lower": -3, "upper": 3}
    return generate("small/2/0", num_constraints=2, num_variables=5, num_train=160, num_test=40, seed=1, **box)


@pytest.fixture(scope="module")
def data(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with two datasets of the same sizes."""
    folder = tmp_path_factory.mktemp("data")
    save_npz(dataset, dataset_path(folder, "small", 2, 0))
    other = Dataset(dataset.name, 2 * dataset.cost, dataset.solution, dataset.lower, dataset.upper, num_train=160)
    save_npz(other, dataset_path(folder, "small", 2, 1))
    return folder


def invoke(*options: Any) -> Any:
    return CliRunner().invoke(app, [*COMMAND, *SMALL, *(str(option) for option in options)])


@pytest.fixture(scope="module")
def runs(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, list[str]]]:
    """A run of every method: its folder, and the lines that it printed."""
    result = {}
    for method in METHOD_NAMES:
        folder = tmp_path_factory.mktemp("runs") / method
        limit = [] if method == "ilploss-plus" else ["--time-limit", SECONDS, "--no-compile"]
        printed = invoke("--method", method, "--data", data, "--out", folder, "--json", *limit)
        assert printed.exit_code == 0, printed.output
        result[method] = folder, printed.stdout.splitlines()
    return result


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def error_of(result: Any) -> str:
    assert isinstance(result.exception, SystemExit), result.exception  # no traceback
    return " ".join(result.stderr.replace("│", " ").split())


# -- what a run leaves -------------------------------------------------------------------------------------------------


def test_datasets_and_seeds_at_once(data: Path, tmp_path: Path) -> None:
    options = ("--method", "comboptnet", "--data", data, "--time-limit", 1, "--json")
    result = invoke(*options, "--dataset", "0-1", "--seeds", "0,2", "--jobs", 2, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    records = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    found = [(record["setting"]["dataset"], record["seed"]) for record in records]
    assert found == [(0, 0), (0, 2), (1, 0), (1, 2)]
    for dataset, seed in found:
        assert (tmp_path / f"dataset-{dataset}" / f"seed-{seed}" / "record.json").exists()


def test_the_methods_are_the_command_s() -> None:
    assert list(METHODS) == METHOD_NAMES


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_the_record(runs: dict[str, tuple[Path, list[str]]], dataset: Dataset, method: str) -> None:
    folder, printed = runs[method]
    record = json.loads(printed[-1])
    assert record == json.loads((folder / "record.json").read_text())
    assert (record["task"], record["method"], record["seed"]) == ("random-constraints", method, 0)
    assert record["setting"] == {"domain": "small", "constraints": 2, "dataset": 0}
    assert record["rows"] == 4
    assert record["data_fingerprint"] == dataset.fingerprint
    settings = yaml.safe_load((folder / "config.yaml").read_text())["training"]
    assert record["training"] == settings
    assert ("steering" in settings) == (method in ("ilploss", "solver-negatives"))
    assert 0 <= record["train_seconds"] <= record["total_seconds"] < 60
    assert record["epochs"] > 0 or method in ("comboptnet", "solver-negatives")  # which take long over an epoch
    assert record["steps"] > 0
    assert set(record["test"]) == {"vector_accuracy", "variable_accuracy"} == set(record["validation"]) - {"restart"}
    assert ("restart" in record["validation"]) == (method == "ilploss")
    assert sum(record["statuses"].values()) == 40
    assert {"neuralilp", "torch", "numpy", "highspy", "python"} <= set(record["versions"])
    assert record["machine"]["threads"] == 1
    has_cuts = method == "ilploss-plus"
    assert ("test_without_cuts" in record) == ("statuses_without_cuts" in record) == has_cuts
    assert record["stopped"] == ("epochs" if has_cuts else "time limit")
    assert any(line.startswith(f"test: vector accuracy {record['test']['vector_accuracy']:.1%}") for line in printed)
    assert f"written: {folder}" in printed


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_the_folder(runs: dict[str, tuple[Path, list[str]]], method: str) -> None:
    folder, printed = runs[method]
    record = json.loads(printed[-1])
    names = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    assert {"config.yaml", "curves.png", "checkpoints/last.pt", "checkpoints/best.safetensors", "tensorboard"} <= names
    assert not [name for name in names if ".part" in name or "/." in name]
    config = yaml.safe_load((folder / "config.yaml").read_text())
    for name in ("task", "method", "seed", "setting", "rows", "data_fingerprint"):
        assert config[name] == record[name], name
    assert config["training"]
    rows = read_curves(folder / "curves.csv")
    at_best = [row for row in rows if row["epoch"] == record["best_epoch"]]
    assert at_best[-1]["validation/vector_accuracy"] == record["validation"]["vector_accuracy"]


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_the_model_gives_the_recorded_figures_again(
    runs: dict[str, tuple[Path, list[str]]], dataset: Dataset, method: str
) -> None:
    folder, printed = runs[method]
    record = json.loads(printed[-1])
    model = load(folder / "model")
    assert isinstance(model, NeuralILP)
    expected = {"test": None}
    if method == "ilploss-plus":
        cuts = valid_cuts(dataset.cost[:160], dataset.solution[:160])
        expected = {"test": cuts, "test_without_cuts": None}
    for name, cuts in expected.items():
        assert figures(model, dataset, cuts) == record[name]


def figures(model: NeuralILP, dataset: Dataset, cuts: CutPool | None) -> dict[str, float]:
    cost, solution = dataset.cost[160:], dataset.solution[160:]
    with torch.no_grad():
        z = solve(model(cost), cuts=cuts).z
    return {"vector_accuracy": vector_accuracy(z, solution), "variable_accuracy": variable_accuracy(z, solution)}


def test_plus_is_nearly_always_right(runs: dict[str, tuple[Path, list[str]]], dataset: Dataset) -> None:
    records = {method: json.loads(printed[-1]) for method, (_, printed) in runs.items()}
    ours = records["ilploss-plus"]
    assert ours["test"]["vector_accuracy"] >= 0.92
    assert ours["test_without_cuts"]["vector_accuracy"] >= 0.85
    assert ours["test"]["vector_accuracy"] == max(record["test"]["vector_accuracy"] for record in records.values())
    # The rows that are left are few, and two of them are the true ones.
    folder, _ = runs["ilploss-plus"]
    learnt = safetensors.torch.load_file(folder / "model" / "weights.safetensors")["constraints.0.a"]
    learnt = torch.nn.functional.normalize(learnt, dim=-1)
    assert len(learnt) <= 4
    assert dataset.true_a is not None
    assert (learnt @ dataset.true_a.mT).amax(0).min() > 0.95


def test_the_table_reads_the_records(runs: dict[str, tuple[Path, list[str]]]) -> None:
    folders = [str(folder) for folder, _ in runs.values()]
    result = CliRunner().invoke(app, ["table", "random-constraints", "--json", *folders])
    assert result.exit_code == 0, result.output
    table = json.loads(result.stdout.splitlines()[-1])
    assert table["records"] == 4
    ours = {row["method"]: row for row in table["rows"] if row["is_ours"]}
    assert set(ours) == {*METHOD_NAMES, "ilploss-plus, no cuts"}
    for method, (_, printed) in runs.items():
        record = json.loads(printed[-1])
        assert ours[method]["domain"] == "small"
        shown = ours[method]["vector_accuracy_percent"]["2"]["mean"]
        assert shown == pytest.approx(100 * record["test"]["vector_accuracy"])
        assert ours[method]["train_minutes"]["2"]["mean"] == pytest.approx(record["train_seconds"] / 60)


def test_the_default_folder(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEURALILP_DATA", str(data))
    for options in ([], ["--seed", "3", "--rows", "1"]):
        result = invoke("--time-limit", "0", "--no-compile", *options)
        assert result.exit_code == 0, result.output
        assert not result.stdout.splitlines()[-1].startswith("{")
    parent = Path("runs", "random-constraints", "ilploss", "small", "2")
    assert sorted(path.name for path in parent.iterdir()) == ["0", "0-seed3"]
    assert json.loads((parent / "0-seed3" / "record.json").read_text())["rows"] == 1


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_a_folder_with_a_run_is_left_alone(runs: dict[str, tuple[Path, list[str]]], data: Path) -> None:
    folder, _ = runs["ilploss"]
    before = content(folder)
    for method in METHOD_NAMES:
        result = invoke("--method", method, "--data", data, "--out", folder)
        assert result.exit_code == 1
        assert error_of(result) == f"error: {folder} holds a run already: resume it, or take another folder"
    assert content(folder) == before


def test_a_folder_with_other_files_is_left_alone(data: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    for options in ([], ["--resume"]):
        result = invoke("--data", data, "--out", tmp_path, *options)
        assert result.exit_code == 1
        assert "holds other files than a run's (thesis.tex)" in error_of(result)
    assert content(tmp_path) == {"thesis.tex": b"x"}


@pytest.mark.parametrize("has_record", [True, False])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seed", "1"], "its seed is 0, and 1 was asked for"),
        (["--method", "ilploss"], "its method is comboptnet, and ilploss was asked for"),
        (["--dataset", "1"], "holds another run: its setting"),
        (["--rows", "5"], "its rows is 4, and 5 was asked for"),
    ],
)
def test_another_run_is_not_resumed(
    runs: dict[str, tuple[Path, list[str]]],
    data: Path,
    tmp_path: Path,
    has_record: bool,
    options: list[str],
    message: str,
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(runs["comboptnet"][0], folder)
    if not has_record:
        (folder / "record.json").unlink()
    before = content(folder)
    result = invoke("--method", "comboptnet", "--data", data, "--out", folder, "--resume", *options)
    assert result.exit_code == 1
    assert message in error_of(result)
    assert content(folder) == before


@pytest.mark.parametrize("method", ["ilploss-plus", "ilploss"])
def test_a_run_that_is_over_is_told_again(runs: dict[str, tuple[Path, list[str]]], data: Path, method: str) -> None:
    folder, printed = runs[method]
    before = content(folder)
    result = invoke("--method", method, "--data", data, "--out", folder, "--resume", "--json")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == printed[-len(result.stdout.splitlines()) :]
    assert content(folder) == before


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--method", "magic"], 2, "--method"),
        (["--domain", "nowhere"], 1, "error: there is no dataset"),
        (["--domain", "../up"], 1, "error: domain must be a plain name"),
        (["--domain", "dense"], 1, "--domain dense --constraints 2 --dataset 0` makes one"),
        (["--dataset", "7"], 1, "2/7.npz"),
        (["--data", "missing"], 1, "error: there is no data folder missing (--data)"),
        (["--constraints", "0"], 2, "--constraints"),
        (["--rows", "0"], 2, "--rows"),
        (["--threads", "0"], 2, "--threads"),
        (["--jobs", "0"], 2, "--jobs"),
        (["--time-limit", "-1"], 2, "--time-limit"),
        (["--time-limit", "nan"], 2, "--time-limit"),
        (["--seed", "-1"], 2, "--seeds"),
        (["--seed", str(2**70)], 1, "error: seed must be between 0 and"),
        (["--epochs", "3"], 2, "--epochs"),
    ],
)
def test_bad_options_are_named(data: Path, tmp_path: Path, options: list[str], code: int, message: str) -> None:
    result = invoke("--data", data, "--out", tmp_path / "run", *options)
    assert result.exit_code == code
    assert message in error_of(result)
    assert not (tmp_path / "run").exists()


def test_a_damaged_dataset(data: Path, tmp_path: Path) -> None:
    path = dataset_path(tmp_path, "small", 2, 0)
    path.parent.mkdir(parents=True)
    path.write_bytes(dataset_path(data, "small", 2, 0).read_bytes()[:300])
    result = invoke("--data", tmp_path, "--out", tmp_path / "run")
    assert result.exit_code == 1
    assert "0.npz is truncated or no .npz file" in error_of(result)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_made(data: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for out, message in ((tmp_path / "file", "is a file"), (tmp_path / "file" / "run", "cannot go on: ")):
        result = invoke("--data", data, "--out", out, "--no-compile")
        assert result.exit_code == 1
        assert message in error_of(result)


def test_an_unknown_task() -> None:
    result = CliRunner().invoke(app, ["train", "chess"])
    assert result.exit_code == 2
    assert "chess" in error_of(result)


def test_help_shows_every_option_with_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = CliRunner().invoke(app, [*COMMAND, "--help"])
    assert result.exit_code == 0
    assert "…" not in result.output
    text = " ".join(result.output.replace("│", " ").split())
    defaults = {
        "--domain": "dense",
        "--constraints": "8",
        "--dataset": "0",
        "--method": "ilploss",
        "--rows": "(twice the true ones)",
        "--seed,--seeds": "0",
        "--time-limit": "600.0",
        "--out": "(below runs, by task, method, setting and seed)",
        "--data": "(variable NEURALILP_DATA, else the cache folder)",
        "--resume": "(off)",
        "--threads": "1",
        "--jobs": "1",
        "--cluster": "(none: work here)",
        "--compile": "(where a C++ compiler is found)",
        "--json": "(off)",
    }
    at = -1
    for option, default in defaults.items():
        begins = text.index(f" {option} ", at + 1)
        ends = text.index("[default:", begins)
        assert text[ends:].startswith(f"[default: {default}]"), option
        assert text.count(" --", begins + 1, ends) == text.count(" --no-", begins + 1, ends), option
        at = ends


# -- killed processes --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def started(data: Path, folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    code = "from neuralilp.cli import app; app()"
    with subprocess.Popen(
        [sys.executable, "-c", code, *COMMAND, *SMALL, "--data", str(data), "--out", str(folder), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        preexec_fn=heed_interrupts,
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def wait_for(child: subprocess.Popen[str], path: Path, after: int = 0) -> None:
    """Until a file is there that was written later than at ``after``, in nanoseconds."""
    give_up = time.monotonic() + 60
    while not (path.exists() and path.stat().st_mtime_ns > after):
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < give_up
        time.sleep(0.002)


def test_plus_killed_and_interrupted_is_the_same_run(
    runs: dict[str, tuple[Path, list[str]]], data: Path, tmp_path: Path
) -> None:
    folder, last = tmp_path / "run", tmp_path / "run" / "checkpoints" / "last.pt"
    options = ["--method", "ilploss-plus", "--json"]
    with started(data, folder, *options) as child:
        wait_for(child, last)
        child.kill()
        assert child.wait() == -signal.SIGKILL
    before = torch.load(last, weights_only=True)["state"]["round"]
    with started(data, folder, *options, "--resume") as child:
        wait_for(child, last, after=last.stat().st_mtime_ns)
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=60)
        assert child.returncode == 130
        assert errors.strip() == f"interrupted; the same command goes on with --resume --out {folder}"
    assert torch.load(last, weights_only=True)["state"]["round"] > before
    assert not (folder / "record.json").exists()

    result = invoke("--data", data, "--out", folder, *options, "--resume")
    assert result.exit_code == 0, result.output
    record, (whole_folder, printed) = json.loads(result.stdout.splitlines()[-1]), runs["ilploss-plus"]
    whole = json.loads(printed[-1])
    for name in set(whole) - {"train_seconds", "total_seconds"}:
        assert record[name] == whole[name], name
    for name in ("model/weights.safetensors", "checkpoints/best.safetensors"):
        one, two = (safetensors.torch.load_file(path / name) for path in (folder, whole_folder))
        assert one.keys() == two.keys()
        assert all(torch.equal(one[key], two[key]) for key in one)


def test_ilploss_interrupted_goes_on(data: Path, tmp_path: Path) -> None:
    folder, last = tmp_path / "run", tmp_path / "run" / "checkpoints" / "last.pt"
    with started(data, folder, "--method", "ilploss", "--no-compile", "--time-limit", "600") as child:
        wait_for(child, folder / "curves.csv")
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 130
    before = torch.load(last, weights_only=True)["state"]
    assert before["steps"] >= 480  # 80 epochs of 6 steps, then the first validation
    limit = str(before["seconds"] + 2)  # seconds, a part of which is kept for the last validation
    result = invoke("--data", data, "--out", folder, "--no-compile", "--resume", "--json", "--time-limit", limit)
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout.splitlines()[-1])
    assert record["stopped"] == "time limit"
    assert record["steps"] > before["steps"]
    assert record["total_seconds"] > before["seconds"]
