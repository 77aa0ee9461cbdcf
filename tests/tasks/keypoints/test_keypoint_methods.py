"""Runs of the methods on made pictures, from the points to the record."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import torch

from neuralilp.distill import same_row_space
from neuralilp.errors import InputError, ShapeError
from neuralilp.tasks.keypoints import methods
from neuralilp.tasks.keypoints.images import AnnotatedImage, Collection
from neuralilp.tasks.keypoints.job import (
    KeypointData,
    bijection,
    look_up,
    permutation_rate,
    pointwise_accuracy,
    prepared,
)
from neuralilp.tasks.keypoints.networks import MatchingCost

BIJECTION = {
    "for every left keypoint, exactly one right keypoint (3 rows)",
    "for every right keypoint, exactly one left keypoint (3 rows)",
}


@functools.cache
def toy() -> KeypointData:
    """Points on no picture, whose features are their own with some noise; pairs of twelve images."""
    generator = torch.Generator().manual_seed(0)
    own = torch.randn(6, 12, generator=generator)
    images, features = [], []
    for i in range(12):
        point = 50 * torch.rand(6, 2, generator=generator)
        images.append(AnnotatedImage(Path(f"{i}.png"), "toy", torch.arange(6), point))
        features.append(own + 0.3 * torch.randn(own.shape, generator=generator))
    pairs = [[(i, j) for i in part for j in part if i < j] for part in (range(5), range(5, 8), range(8, 12))]
    return prepared(Collection(images, *pairs, source="toy, seed 0"), features, 3, (120, 20, 30))


def finished(method: str, out: Path, **options: Any) -> dict[str, Any]:
    record = methods.run(toy(), method, out=out, **{"time_limit": 2.0, **options})
    assert record is not None
    return record


def test_samples_hold_together() -> None:
    data = toy()
    for part in (data.train, data.validation, data.test):
        pair = look_up(data.table, part.x)
        assert pair.left.feature.shape == (len(part), 3, 12)
        assert pair.left.place.abs().amax() <= 1
        target = part.solution.view(-1, 3, 3)
        alike = (pair.left.feature @ pair.right.feature.mT).argmax(-1)
        assert (alike == target.argmax(-1)).float().mean() > 0.9
    with pytest.raises(ShapeError, match="features must be one tensor for each of 12 images, got 1"):
        prepared(data.collection, [data.table], 3)
    with pytest.raises(ShapeError, match=r"features of 0\.png must be one for each of 6 points"):
        prepared(data.collection, [data.table[:2]] * 12, 3)


@pytest.mark.parametrize("method", methods.METHODS)
def test_the_record(method: str, tmp_path: Path) -> None:
    record = finished(method, tmp_path / "run")
    assert (record["task"], record["method"]) == ("keypoints", method)
    assert record["setting"] == {"points": 3, "start": "scratch"}
    assert set(record["test"]) == {"pointwise_accuracy", "permutation_rate", "vector_accuracy", "variable_accuracy"}
    assert sum(record["statuses"].values()) == 30
    assert ("rules" in record) == (not method.startswith("neural"))
    assert methods.run(toy(), method, out=tmp_path / "run", resume=True) == record
    if method in ("neural-ci", "ilploss-plus"):
        assert record["test"]["permutation_rate"] == 1.0


def test_plus_reads_the_bijection_and_matches(tmp_path: Path) -> None:
    record = finished("ilploss-plus", tmp_path / "run", time_limit=15.0)
    assert set(record["rules"][:2]) == BIJECTION
    assert record["has_true_rules"]
    assert record["test"]["pointwise_accuracy"] > 0.85


def test_a_start_from_another_run(tmp_path: Path) -> None:
    start = MatchingCost(12, generator=torch.Generator().manual_seed(5))
    record = finished("neural", tmp_path / "run", start=start, time_limit=0.0)
    other = finished("neural", tmp_path / "other", time_limit=0.0)
    assert record["setting"]["start"] != other["setting"]["start"] == "scratch"
    data = toy()
    cost = start(look_up(data.table, data.test.x)).unflatten(-1, (3, 3))
    right = (cost.argmin(-1) == data.test.solution.view(-1, 3, 3).argmax(-1)).double().mean().item()
    assert record["test"]["pointwise_accuracy"] == pytest.approx(right)


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


def test_what_a_run_refuses(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="method must be one of neural, neural-ci"):
        methods.run(toy(), "guess", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
