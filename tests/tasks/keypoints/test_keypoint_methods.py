"""Runs of the methods on made pictures, from the points to the record."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from neuralilp.distill import same_row_space
from neuralilp.errors import FileFormatError, InputError, ShapeError
from neuralilp.solving import solve
from neuralilp.storage import load
from neuralilp.tasks.keypoints import learners, methods
from neuralilp.tasks.keypoints.images import AnnotatedImage, Collection
from neuralilp.tasks.keypoints.job import (
    Job,
    KeypointData,
    bijection,
    look_up,
    permutation_rate,
    pointwise_accuracy,
    prepared,
)
from neuralilp.tasks.keypoints.networks import MatchingCost
from neuralilp.training import RunFolder, Standing
from neuralilp.training.progress import Silence

BIJECTION = {
    "for every left keypoint, exactly one right keypoint (3 rows)",
    "for every right keypoint, exactly one left keypoint (3 rows)",
}


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> KeypointData:
    """Points on grey pictures, whose features are their own with some noise; pairs of twelve images."""
    folder = tmp_path_factory.mktemp("toy")
    generator = torch.Generator().manual_seed(0)
    own = torch.randn(6, 12, generator=generator)
    images, features = [], []
    for i in range(12):
        point = 50 * torch.rand(6, 2, generator=generator)
        images.append(AnnotatedImage(folder / f"{i}.png", "toy", torch.arange(6), point))
        Image.new("RGB", (50, 50), (128, 128, 128)).save(images[-1].path)
        features.append(own + 0.3 * torch.randn(own.shape, generator=generator))
    pairs = [[(i, j) for i in part for j in part if i < j] for part in (range(5), range(5, 8), range(8, 12))]
    return prepared(Collection(images, *pairs, source="toy, seed 0"), features, 3, (120, 20, 30))


def finished(data: KeypointData, method: str, out: Path, **options: Any) -> dict[str, Any]:
    record = methods.run(data, method, out=out, **{"time_limit": 1.0, **options})
    assert record is not None
    return record


def test_samples_hold_together(toy: KeypointData) -> None:
    data = toy
    for part in (data.train, data.validation, data.test):
        pair = look_up(data.table, part.x)
        assert pair.left.feature.shape == (len(part), 3, 12)
        assert pair.left.place.abs().amax() <= 1
        target = part.solution.view(-1, 3, 3)
        alike = (pair.left.feature @ pair.right.feature.mT).argmax(-1)
        assert (alike == target.argmax(-1)).float().mean() > 0.9
    with pytest.raises(ShapeError, match="features must be one tensor for each of 12 images, got 1"):
        prepared(data.collection, [data.table], 3)
    with pytest.raises(ShapeError, match=r"0\.png must be one for each of 6 points"):
        prepared(data.collection, [data.table[:2]] * 12, 3)


def test_the_fingerprint_is_that_of_the_data_and_not_of_the_processor(toy: KeypointData, tmp_path: Path) -> None:
    assert dataclasses.replace(toy, table=toy.table + 1e-6).fingerprint == toy.fingerprint
    assert dataclasses.replace(toy, train=toy.test).fingerprint != toy.fingerprint
    assert dataclasses.replace(toy, encoder="another").fingerprint != toy.fingerprint
    first, *others = toy.collection.images
    Image.new("RGB", (9, 9)).save(tmp_path / "other.png")
    changed = [dataclasses.replace(first, path=tmp_path / "other.png"), *others]
    assert dataclasses.replace(toy, collection=toy.collection._replace(images=changed)).fingerprint != toy.fingerprint


@pytest.mark.parametrize("method", methods.METHODS)
def test_the_record(toy: KeypointData, method: str, tmp_path: Path) -> None:
    record = finished(toy, method, tmp_path / "run")
    assert (record["task"], record["method"]) == ("keypoints", method)
    assert record["setting"] == {"points": 3}
    assert record["by_category"] == {"pointwise_accuracy": {"toy": record["test"]["pointwise_accuracy"]}}
    assert (record["start"], list(record["starts"]), record["also_from"]) == ("scratch", ["scratch"], None)
    assert record["starts"]["scratch"]["pointwise_accuracy"] == record["validation"]["pointwise_accuracy"]
    assert set(record["test"]) == {"pointwise_accuracy", "permutation_rate", "vector_accuracy", "variable_accuracy"}
    assert sum(record["statuses"].values()) == 30
    assert ("rules" in record) == (not method.startswith("neural"))
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"config.yaml", "record.json", "curves.csv", "matches.png", "cost.safetensors", "checkpoints"} <= names
    assert ("model" in names) == (not method.startswith("neural"))
    assert methods.run(toy, method, out=tmp_path / "run", resume=True) == record
    if method in ("neural-ci", "ilploss-plus"):
        assert record["test"]["permutation_rate"] == 1.0


def test_features_and_places_drop_out_while_the_cost_is_learnt_by_rules(toy: KeypointData, tmp_path: Path) -> None:
    training = finished(toy, "ilploss-plus", tmp_path / "run", time_limit=1.0)["training"]
    assert (training["dropout"], training["place_dropout"]) == (0.7, 0.5)
    pair = look_up(toy.table, toy.test.x)
    for name in ("dropout", "place_dropout"):
        network = MatchingCost(toy.table.shape[1])
        getattr(network, name).p = 0.5
        assert not network(pair).equal(network(pair))
        network.eval()
        assert network(pair).equal(network(pair))


def test_rows_are_kept_where_they_touch_the_solutions(toy: KeypointData, tmp_path: Path) -> None:
    record = finished(toy, "ilploss-solver", tmp_path / "run", time_limit=3.0)
    network = methods.cost_of_run(tmp_path / "run", toy)
    model = load(tmp_path / "run" / "model", networks={"cost.network": network}).eval()
    program = model(look_up(toy.table, toy.test.x))
    (block,) = program.blocks
    orders = torch.tensor(list(itertools.permutations(range(3))))  # all of them occur among random ones
    every = torch.eye(3)[orders].flatten(1)
    assert block.room(every).amin(0).tolist() == pytest.approx([0.0] * 6, abs=2e-5)
    assert record["training"]["dropout"] == learners.DROPOUT > 0
    assert pointwise_accuracy(solve(program).z, toy.test.solution) == pytest.approx(
        record["test"]["pointwise_accuracy"]
    )


def test_plus_reads_the_bijection_and_matches(toy: KeypointData, tmp_path: Path) -> None:
    record = finished(toy, "ilploss-plus", tmp_path / "run", time_limit=15.0)
    assert set(record["rules"][:2]) == BIJECTION
    assert record["has_true_rules"]
    assert record["test"]["pointwise_accuracy"] > 0.85


# -- two starts --------------------------------------------------------------------------------------------------------


def accuracy(network: MatchingCost, data: KeypointData) -> float:
    """Of each left point with the right one of the least cost, as the method neural answers."""
    with torch.no_grad():
        cost = network(look_up(data.table, data.test.x)).unflatten(-1, (3, 3))
    return (cost.argmin(-1) == data.test.solution.view(-1, 3, 3).argmax(-1)).double().mean().item()


def test_the_better_start_is_kept(toy: KeypointData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With steps that are as good as none, a trained network is better than a new one, and its opposite is worse."""
    finished(toy, "neural", tmp_path / "first", time_limit=None)
    good = methods.cost_of_run(tmp_path / "first", toy)
    bad = copy.deepcopy(good)
    bad.scale.data.neg_()
    monkeypatch.setattr(learners, "EPOCHS", 1)
    monkeypatch.setattr(learners, "PEAK", 1e-7)
    for start, picked in ((good, "other-run"), (bad, "scratch")):
        folder = tmp_path / picked
        record = finished(toy, "neural", folder, start=start, time_limit=600.0)
        figures = {name: entry["pointwise_accuracy"] for name, entry in record["starts"].items()}
        assert record["start"] == picked == max(figures, key=lambda name: figures[name])
        assert record["validation"]["pointwise_accuracy"] == figures[picked]
        assert record["training"]["time_limit"] == 300.0
        assert record["total_seconds"] >= sum(entry["train_seconds"] for entry in record["starts"].values())
        assert {path.name for path in folder.iterdir()} >= {"scratch", "other-run", "matches.png", "record.json"}
        assert accuracy(methods.cost_of_run(folder, toy), toy) == pytest.approx(record["test"]["pointwise_accuracy"])
        assert methods.run(toy, "neural", out=folder, start=start, resume=True) == record
    with pytest.raises(InputError, match="also_from is"):
        methods.run(toy, "neural", out=tmp_path / "scratch", start=good, resume=True)


@pytest.mark.parametrize(
    ("scratch", "other", "expected"),
    [(0.9, 0.8, "scratch"), (0.8, 0.9, "other-run"), (0.9, 0.9, "other-run"), (0.9, None, "scratch")],
)
def test_of_equal_starts_the_one_with_more_training_is_kept(
    scratch: float, other: float | None, expected: str, toy: KeypointData, tmp_path: Path
) -> None:
    job = Job(RunFolder(tmp_path / "run"), 0, 0.0, False, False, None, toy)
    trial = methods.trained(job, "neural")
    trials = {
        name: trial._replace(outcome=dataclasses.replace(trial.outcome, best=best))
        for name, best in (("scratch", scratch), ("other-run", other))
    }
    assert methods.picked(trials) == expected


def test_a_run_of_two_starts_goes_on(toy: KeypointData, tmp_path: Path) -> None:
    """Stopped in the second training, it keeps the first one, and comes to what it would have come to."""
    start = MatchingCost(12, generator=torch.Generator().manual_seed(5))

    class Stop(Silence):
        def validated(self, standing: Standing) -> None:
            if (tmp_path / "run" / "other-run").exists():
                signal.raise_signal(signal.SIGTERM)

    options: dict[str, Any] = {"start": start, "time_limit": None}
    whole = finished(toy, "neural", tmp_path / "whole", **options)
    assert methods.run(toy, "neural", out=tmp_path / "run", report=Stop(), **options) is None
    assert not (tmp_path / "run" / "record.json").exists()
    resumed = finished(toy, "neural", tmp_path / "run", resume=True, **options)
    assert resumed["test"] == whole["test"]
    assert resumed["start"] == whole["start"]
    assert {k: v["pointwise_accuracy"] for k, v in resumed["starts"].items()} == {
        k: v["pointwise_accuracy"] for k, v in whole["starts"].items()
    }


def test_starts_that_do_not_fit(toy: KeypointData, tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"nothing/record\.json cannot be read"):
        methods.cost_of_run(tmp_path / "nothing", toy)
    record = finished(toy, "neural", tmp_path / "run", time_limit=0.0)
    (tmp_path / "run" / "record.json").write_text(json.dumps({**record, "images": "Willow, seed 0"}))
    with pytest.raises(InputError, match="must be a run of keypoints on toy, seed 0, got keypoints on Willow, seed 0"):
        methods.cost_of_run(tmp_path / "run", toy)
    (tmp_path / "run" / "record.json").write_text(json.dumps(record))
    wide = dataclasses.replace(toy, table=torch.zeros(len(toy.table), 13))
    with pytest.raises(FileFormatError, match=r"cost\.safetensors must be the cost network .* 13 wide: .*enter"):
        methods.cost_of_run(tmp_path / "run", wide)
    (tmp_path / "run" / "cost.safetensors").write_bytes(b"nothing")
    with pytest.raises(FileFormatError, match=r"cost\.safetensors must be the cost network"):
        methods.cost_of_run(tmp_path / "run", toy)


def test_pointwise_accuracy_and_permutations() -> None:
    """Right; two points swapped; a point with two partners; one with none; no answer."""
    right = torch.eye(3)
    swapped, double, none = right[[1, 0, 2]], right.clone(), right.clone()
    double[0, 1] = 1
    none[2, 2] = 0
    z = torch.stack([right, swapped, double, none, torch.full((3, 3), torch.nan)]).flatten(1)
    target = right.flatten().expand(5, 9)
    assert [pointwise_accuracy(one, target[0]) for one in z] == pytest.approx([1, 1 / 3, 2 / 3, 2 / 3, 0])
    assert [permutation_rate(one) for one in z] == [1, 1, 0, 0, 0]
    with pytest.raises(InputError, match="answers must have k·k entries, got 8"):
        permutation_rate(torch.zeros(2, 8))


def test_the_bijection_holds_for_permutations_alone() -> None:
    a, b = bijection(3)
    points = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 9)
    holds = (points @ a.mT + b == 0).all(-1)
    assert int(holds.sum()) == 6
    assert same_row_space(a, b, a.flip(0), b)


def test_what_a_run_refuses(toy: KeypointData, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="method must be one of neural, neural-ci"):
        methods.run(toy, "guess", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
