"""Two processes come to what one comes to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from problem import CASES, case, lasting, make_step

from neuralilp import InputError
from neuralilp.training.batches import Batches

SCRIPT = Path(__file__).with_name("two_processes.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes left behind."""
    folder = tmp_path_factory.mktemp("two")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def ranks(folder: Path) -> list[dict[str, Any]]:
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in (0, 1)]


@pytest.mark.parametrize("name", CASES)
def test_two_processes_take_the_steps_of_one(
    name: str, folder: Path, ranks: list[dict[str, Any]], tmp_path: Path
) -> None:
    outcome, step = case(name, tmp_path)
    for found in ranks:
        assert found[name]["best"] == outcome.best
        for start, own, other in zip(make_step().parameters(), step.parameters(), found[name]["weights"], strict=True):
            assert not torch.allclose(own, start.double(), atol=1e-3)
            torch.testing.assert_close(own.new_tensor(other), own.detach(), rtol=1e-9, atol=1e-9)
    for one, two in zip(lasting(tmp_path), lasting(folder / name), strict=True):
        assert two == pytest.approx(one, rel=1e-9, abs=1e-9)


def test_both_processes_have_the_same_weights(ranks: list[dict[str, Any]]) -> None:
    assert all(ranks[0][name] == ranks[1][name] for name in CASES)


def test_two_processes_resume(ranks: list[dict[str, Any]], folder: Path) -> None:
    assert ranks[0]["pieces"] == ranks[1]["pieces"] == ranks[0]["uneven"]
    assert lasting(folder / "pieces") == lasting(folder / "uneven")


def test_a_failure_of_the_first_is_one_of_all(ranks: list[dict[str, Any]]) -> None:
    assert ranks[0]["error"].startswith("InputError: validate must return")
    assert ranks[1]["error"].startswith(
        "NeuralILPError: the first process failed with InputError: validate must return"
    )


def test_a_run_of_two_processes_is_no_run_of_one(folder: Path) -> None:
    with pytest.raises(InputError, match=r"training\.processes is 2, and 1"):
        case("even", folder / "even", resume=True)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8])
def test_weights_of_shares_give_the_mean_over_the_batch(size: int) -> None:
    x, y = torch.arange(10.0).square().unsqueeze(-1), torch.zeros(10, 1)
    rows = torch.randperm(10)[:size]
    shares = [Batches((x, y), torch.device("cpu"), rank, 3).take(rows) for rank in range(3)]
    mean = sum(part.mean() * weight for part, _, weight in shares) / 3
    torch.testing.assert_close(mean, x[rows].mean())
