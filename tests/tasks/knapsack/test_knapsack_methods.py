"""Runs of the methods on a small knapsack, from the vectors to the record."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from toys import toy

from neuralilp.errors import InputError, ShapeError
from neuralilp.storage import load
from neuralilp.tasks.knapsack import methods
from neuralilp.tasks.knapsack.data import in_principal_axes
from neuralilp.tasks.knapsack.job import Answers, judged
from neuralilp.tasks.knapsack.networks import (
    FilledAtFirst,
    ItemNetwork,
    LinearReader,
    PriceHead,
    SubsetNetwork,
    WeightHead,
    new_model,
)


def finished(method: str, out: Path, **options: Any) -> dict[str, Any]:
    record = methods.run(toy(), method, out=out, **{"time_limit": 5.0, **options})
    assert record is not None
    return record


@pytest.mark.parametrize("method", methods.METHODS)
def test_the_record(method: str, tmp_path: Path) -> None:
    record = finished(method, tmp_path / "run", time_limit=1.0)
    assert (record["task"], record["method"], record["setting"]) == ("knapsack", method, {"items": 4})
    assert (record["sentences"], record["encoder"]) == ("generated, toy", "toy")
    assert set(record["test"]) == {"vector_accuracy", "variable_accuracy", "feasibility", "cost_gap"}
    assert all(0 <= figure <= 1 for figure in record["test"].values())
    assert sum(record["statuses"].values()) == 30
    assert methods.run(toy(), method, out=tmp_path / "run", resume=True) == record
    assert (tmp_path / "run" / "model").exists() == (method not in ("mlp", "two-stage"))


def test_full_supervision_reads_prices_and_weights(tmp_path: Path) -> None:
    record = methods.run(toy(train=2000), "two-stage", out=tmp_path / "run")
    assert record is not None
    assert record["test"]["vector_accuracy"] >= 0.95
    assert record["test"]["feasibility"] >= 0.95


def test_solver_free_learning_beats_a_network_without_a_program(tmp_path: Path) -> None:
    data, accuracy = toy(train=800), {}
    for method, seconds in (("ilploss", 90.0), ("mlp", 2.0)):
        record = methods.run(data, method, out=tmp_path / method, time_limit=seconds)
        assert record is not None
        accuracy[method] = record["test"]["vector_accuracy"]
    assert accuracy["ilploss"] >= 0.5
    assert accuracy["ilploss"] > accuracy["mlp"]


def test_a_learnt_model_is_loaded_with_its_networks(tmp_path: Path) -> None:
    finished("ilploss", tmp_path / "run", time_limit=0.5)
    networks = {
        "encoder": FilledAtFirst(ItemNetwork(3, 5), 4, 1.0),
        "cost.network": PriceHead(4),
        "constraints.0.network": WeightHead(),
    }
    model = load(tmp_path / "run" / "model", networks=networks)
    data = toy()
    program = model(data.table[data.test.item])
    assert program.cost.shape == (30, 4)


def test_judging_by_true_weights_and_prices() -> None:
    """The best choice; nothing; everything, which does not fit; and no answer at all."""
    data = toy()
    solution = data.test.solution

    def figures(z: torch.Tensor) -> dict[str, float]:
        return judged(lambda x: Answers(z, {"optimal": len(z)}), data, data.test)[0]

    assert figures(solution) == {"vector_accuracy": 1, "variable_accuracy": 1, "feasibility": 1, "cost_gap": 0}
    nothing = figures(torch.zeros_like(solution))
    assert (nothing["feasibility"], nothing["cost_gap"]) == (1, 1)
    everything = figures(torch.ones_like(solution))
    assert (everything["feasibility"], everything["cost_gap"]) == (0, 1)
    missing = figures(torch.full_like(solution, torch.nan))
    assert set(missing.values()) == {0.0, 1.0}
    assert (missing["feasibility"], missing["cost_gap"]) == (0, 1)


def test_ranges_hold() -> None:
    network = ItemNetwork(3, 2, ranges=[(-10.0, -45.0), (0.1, 0.2)], generator=torch.Generator().manual_seed(0))
    price, weight = network(100 * torch.randn(50, 4, 3)).unbind(-1)
    assert bool(((price <= -10) & (price >= -45)).all())
    assert bool(((weight >= 0.1) & (weight <= 0.2)).all())


def test_rows_are_one_for_each_output() -> None:
    x = torch.randn(2, 6, 3)
    program = new_model(ItemNetwork(3, 3), 6)(x)
    block = program.learned[0]
    assert block.a.shape == (2, 2, 6)
    assert bool((block.b == 1).all())
    assert program.bounds.is_binary


@pytest.mark.wrong_types
def test_vectors_that_do_not_fit() -> None:
    model = new_model(ItemNetwork(3, 2), 4)
    with pytest.raises(
        ShapeError, match=r"x must be `\*batch item 3`, vectors as wide as those of training, got \(2, 4, 5\)"
    ):
        model(torch.zeros(2, 4, 5))
    with pytest.raises(ShapeError, match="x must have the 4 items of training, got 6"):
        model(torch.zeros(2, 6, 3))
    with pytest.raises(ShapeError, match="x must have at least one item"):
        model(torch.zeros(2, 0, 3))
    with pytest.raises(ShapeError, match="x must have the 4 items of training, got 5"):
        SubsetNetwork(3, 4)(torch.zeros(2, 5, 3))
    with pytest.raises(InputError, match="ranges must be one for each of 2 outputs, got 1"):
        ItemNetwork(3, 2, ranges=[(0.0, 1.0)])
    with pytest.raises(InputError, match="width, outputs and hidden must be positive, got 0, 1 and 512"):
        ItemNetwork(0, 1)


def test_what_a_run_refuses(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="method must be one of ilploss, ilploss-plus"):
        methods.run(toy(), "guess", out=tmp_path / "run")
    with pytest.raises(InputError, match="method two-stage needs true prices and weights"):
        methods.run(dataclasses.replace(toy(), truth=None), "two-stage", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_items_are_alike_at_first() -> None:
    """Four of them fill the knapsack, whatever the vectors say."""
    network = FilledAtFirst(LinearReader(3, 3), 2, 4.0)
    x = torch.randn(2, 6, 3)
    assert network(x).tolist() == torch.tensor([-1.0, -0.25, -0.25]).expand(2, 6, 3).tolist()
    network.network.linear.bias.data.fill_(0.5)
    assert network(x)[0, 0].tolist() == [-1.5, -0.375, -0.375]
    with pytest.raises(InputError, match="chosen must be positive, got 0"):
        FilledAtFirst(LinearReader(3, 2), 1, 0.0)
    with pytest.raises(InputError, match="width and outputs must be positive, got 0 and 2"):
        LinearReader(0, 2)


def test_ours_learns_the_toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "PLUS_EPOCHS", 40)
    data = toy(sentences=100, train=400)
    data = dataclasses.replace(data, table=in_principal_axes(data.table, 100))
    record = methods.run(data, "ilploss-plus", out=tmp_path / "run", time_limit=20.0)
    assert record is not None
    assert record["test"]["vector_accuracy"] >= 0.95
    assert record["test"]["feasibility"] >= 0.95
