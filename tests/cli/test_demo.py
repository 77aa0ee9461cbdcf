"""``neuralilp demo``: one real run, and its manners on a smaller one."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from processes import heed_interrupts
from typer.testing import CliRunner

from neuralilp.blocks import ConstraintBlock
from neuralilp.cli import app, boards_tour, tour
from neuralilp.export import read_program
from neuralilp.model import NeuralILP
from neuralilp.storage import load
from neuralilp.tasks.sudoku import reading


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A demo that is over in a moment, whatever it learns."""
    for name, value in {"TRAIN": 40, "VALIDATION": 20, "TEST": 20, "STARTS": 2, "EPOCHS": 2}.items():
        monkeypatch.setattr(tour, name, value)
    monkeypatch.setenv("NEURALILP_DATA", str(tmp_path_factory.mktemp("data")))
    monkeypatch.setattr(boards_tour, "BOARDS", 300)
    monkeypatch.setattr(reading, "MOST", 8)


PICTURES = ("boards", "curves", "handwritten", "matrices", "polyhedron")
FILES = sorted(["learnt.lp", "model", "notes.txt", *(f"{name}.png" for name in PICTURES)])
COMMAND = [sys.executable, "-c", "from neuralilp.cli import app; app()", "demo", "--out"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def test_real_run(tmp_path: Path) -> None:
    result = subprocess.run(
        [*COMMAND, str(tmp_path), "--json"], capture_output=True, text=True, env=ENVIRONMENT, check=False
    )
    assert result.returncode == 0, result.stderr
    record = json.loads(result.stdout.splitlines()[-1])
    assert record["accuracy"] >= 0.95
    assert record["agreed_points"] >= record["points"] - 2
    assert record["seed"] == 0
    assert "without calling a solver" in result.stdout
    assert ">= 0" in result.stdout
    assert "for every row and column, exactly one digit (16 rows)" in record["rules"]
    assert all(rule in result.stdout for rule in record["rules"])
    assert record["board_accuracy"] == 1
    assert record["visual_board_accuracy"] >= 0.9
    for name in ("picture", "boards", "matrices", "handwritten", "curves"):
        assert Path(record["files"][name]).read_bytes().startswith(b"\x89PNG")
    lp, folder = (Path(record["files"][name]) for name in ("lp", "model"))
    model = load(folder)
    assert isinstance(model, NeuralILP)
    program, _ = read_program(lp, dtype=torch.float32)
    points = tour.integer_points()
    with torch.no_grad():
        assert torch.equal(model(torch.ones(2)).is_feasible(points), program.is_feasible(points))


@pytest.mark.usefixtures("hasty")
def test_running_again_replaces_its_own_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    outputs = []
    for _ in range(2):
        result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path), "--seed", "3"])
        assert result.exit_code == 0, result.output
        outputs.append([line for line in result.stdout.splitlines() if "earnt in " not in line])
        assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    assert outputs[0] == outputs[1]  # the same seed gives the same run


@pytest.mark.usefixtures("hasty")
def test_without_digits_the_rest_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "mlxtend" else find(name, *rest)
    )
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "out"), "--json"])
    assert result.exit_code == 0, result.output
    assert "Handwritten boards are left out: there are no handwritten digits in" in result.stdout
    record = json.loads(result.stdout.splitlines()[-1])
    assert record["visual_board_accuracy"] is None
    assert (tmp_path / "out" / "boards.png").exists()
    assert not (tmp_path / "out" / "handwritten.png").exists()


@pytest.mark.usefixtures("hasty")
def test_errors_are_messages(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "file")])
    assert result.exit_code == 2
    assert "is a file" in " ".join(result.output.replace("│", " ").split())  # however the box breaks the lines
    (tmp_path / "demo" / "model").mkdir(parents=True)
    (tmp_path / "demo" / "model" / "thesis.tex").touch()
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "demo")])
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert "holds more than a model (thesis.tex)" in result.stderr


@pytest.mark.usefixtures("hasty")
def test_bar_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    assert "learning" in result.stdout
    assert json.loads(result.stdout.splitlines()[-1])["seed"] == 0


def test_interrupt_leaves_cleanly(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        preexec_fn=heed_interrupts,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "Wanted" in line:
                break
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert not list(tmp_path.iterdir())


def test_help_needs_no_plotting() -> None:
    code = "import neuralilp.cli, sys; sys.exit(any(m in sys.modules for m in ('matplotlib', 'neuralilp.cli.tour')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    assert "demo" in result.output


def test_hidden_programs_are_slanted_and_leave_points() -> None:
    for seed in range(20):
        truth = tour.hidden_program(torch.Generator().manual_seed(seed))
        assert torch.allclose(truth.blocks[0].a.norm(dim=-1), torch.ones(4))
        count = int(truth.is_feasible(tour.integer_points()).sum())
        assert 10 <= count < 110, seed


def test_needed_rows() -> None:
    # In [-5, 5]²: z0 <= 2.5 cuts off what z0 <= 3.5 does and more; z0 >= -9 cuts off nothing; z1 <= 0.5 is needed.
    a = torch.tensor([[-1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [0.0, -1.0]])
    block = ConstraintBlock(a, torch.tensor([3.5, 2.5, 9.0, 0.5]))
    assert tour.needed_rows(block).tolist() == [False, True, False, True]
    assert tour.readable(block, 1) == "-1.00 z0 + 0.00 z1 + 2.50 >= 0"
