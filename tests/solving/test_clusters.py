"""Solves and sweeps on a real cluster: two worker processes of Dask on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from neuralilp import Bounds, ConstraintBlock, InputError, IntegerProgram, ProgramLearner, solve, valid_cuts
from neuralilp.cli import app
from neuralilp.clusters import connected

pytestmark = pytest.mark.filterwarnings("default")  # those of Dask are its own


distributed = pytest.importorskip("distributed", reason="needs pip install 'dask[distributed]'")


@pytest.fixture(scope="module")
def local() -> Iterator[Any]:
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with distributed.LocalCluster(processes=True, **options) as local:
        yield local


@pytest.fixture
def cluster(local: Any) -> Iterator[str]:
    """The address of a scheduler, whose workers must have done something in the end."""
    before = local.scheduler.transition_counter
    yield local.scheduler_address
    assert local.scheduler.transition_counter > before


def programs(count: int) -> IntegerProgram:
    cost = torch.randn(count, 8, generator=torch.Generator().manual_seed(0))
    rows = ConstraintBlock(-torch.ones(1, 8), torch.tensor([3.0]))
    return IntegerProgram(cost, Bounds(torch.zeros(8), torch.ones(8)), (rows,))


def test_a_batch_is_solved_by_the_workers(cluster: str) -> None:
    program = programs(40)
    with connected(cluster):
        there = solve(program, workers=-1)
    assert there.counts() == {"optimal": 40}
    assert torch.equal(there.z, solve(program).z)


def test_cuts_travel_too(cluster: str) -> None:
    program = programs(20)
    cuts = valid_cuts(program.cost, solve(program).z)
    free = IntegerProgram(program.cost, program.bounds)
    with connected(cluster):
        there = solve(free, workers=2, cuts=cuts)
    assert torch.equal(there.z, solve(free, cuts=cuts).z)


def test_seeds_are_swept_by_the_workers(cluster: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, count in (("train", 160), ("test", 20)):
        vectors = rng.uniform(0, 1, (count, 3, 4))
        np.save(tmp_path / f"{name}_encodings.npy", vectors)
        np.save(tmp_path / f"{name}_sols.npy", (vectors[..., 0] > vectors[..., 1]).astype(np.int8))
    words: list[Any] = ["train", "knapsack", "--encodings", tmp_path, "--method", "mlp", "--time-limit", 1]
    words += ["--seeds", "0-1", "--out", tmp_path / "runs", "--cluster", cluster, "--json"]
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.stderr
    records = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    assert [record["seed"] for record in records] == [0, 1]
    assert (tmp_path / "runs" / "seed-1" / "record.json").exists()


def test_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neuralilp.clusters.PATIENCE", 1.0)
    with (
        pytest.raises(InputError, match="cluster must be the address of a Dask scheduler with workers, got 'tcp"),
        connected("tcp://127.0.0.1:9"),
    ):
        pass


def test_a_table_is_solved_by_the_workers(cluster: str, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    costs = generator.normal(size=(60, 4))
    decisions = (costs <= np.sort(costs)[:, 1:2]).astype(float)  # two of four
    ProgramLearner().fit(costs, decisions).save(tmp_path / "model")
    names = "z0,z1,z2,z3"
    np.savetxt(tmp_path / "new.csv", costs, delimiter=",", header=names, comments="")
    words = ["solve", tmp_path / "model", tmp_path / "new.csv", "--out", tmp_path / "answers.csv", "--cluster", cluster]
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.stderr
    assert "60 optimal" in result.stdout
    answers = np.loadtxt(tmp_path / "answers.csv", delimiter=",", skiprows=1, usecols=range(4))
    assert np.array_equal(answers, decisions)


def test_workers_that_share_a_process_do_not_train() -> None:
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0") as shared,
        pytest.raises(InputError, match=r"workers of one thread \(--nthreads 1\) for runs, got 2"),
        connected(shared.scheduler_address, is_training=True),
    ):
        pass
