"""Solving on a real cluster: two worker processes of Dask on this machine, by naming the backend."""

from __future__ import annotations

from collections.abc import Iterator

import joblib  # type: ignore[import-untyped]
import pytest
import torch

from neuralilp import Bounds, ConstraintBlock, IntegerProgram, solve, valid_cuts

distributed = pytest.importorskip("distributed", reason="needs pip install 'dask[distributed]'")


@pytest.fixture(scope="module")
def client() -> Iterator[object]:
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def programs(count: int) -> IntegerProgram:
    cost = torch.randn(count, 8, generator=torch.Generator().manual_seed(0))
    rows = ConstraintBlock(-torch.ones(1, 8), torch.tensor([3.0]))
    return IntegerProgram(cost, Bounds(torch.zeros(8), torch.ones(8)), (rows,))


@pytest.mark.filterwarnings("default")  # those of Dask are its own
def test_a_batch_is_solved_by_the_workers(client: object) -> None:
    program = programs(40)
    here = solve(program)
    with joblib.parallel_config(backend="dask"):
        there = solve(program, workers=2)
    assert there.counts() == {"optimal": 40}
    assert torch.equal(there.z, here.z)


@pytest.mark.filterwarnings("default")
def test_cuts_travel_too(client: object) -> None:
    program = programs(20)
    cuts = valid_cuts(program.cost, solve(program).z)
    free = IntegerProgram(program.cost, program.bounds)
    with joblib.parallel_config(backend="dask"):
        there = solve(free, workers=2, cuts=cuts)
    assert torch.equal(there.z, solve(free, cuts=cuts).z)
