"""Datasets of random constraints and their files."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from neuralilp.errors import FileFormatError, InputError
from neuralilp.tasks.random_constraints.data import BOXES, Dataset, check_optimal, load, load_npz, save_npz
from neuralilp.tasks.random_constraints.generate import generate

DATA = Path(os.environ.get("NEURALILP_DATA", "nowhere"))
needs_data = pytest.mark.skipif(
    not (DATA / "random_constraints" / "dense" / "8" / "0.npz").is_file(),
    reason="needs the published datasets: set NEURALILP_DATA to the folder that holds random_constraints",
)


def arrays(count: int = 12, n: int = 3) -> dict[str, Any]:
    """Over the box [0, 1] alone, the minimiser of a cost is 1 where it is negative."""
    cost = np.random.default_rng(0).uniform(-1, 1, (count, n)).astype(np.float32)
    return {
        "cost": cost,
        "solution": (cost < 0).astype(np.int8),
        "lower": np.int64(0),
        "upper": np.int64(1),
        "num_train": np.int64(8),
    }


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "some.npz"
    np.savez(path, **{name: value for name, value in (arrays() | changes).items() if value is not None})
    return path


def test_load_npz(tmp_path: Path) -> None:
    true_a, true_b = np.ones((2, 3), np.float32), np.full(2, 5, np.float32)
    dataset = load_npz(written(tmp_path, true_a=true_a, true_b=true_b))
    assert dataset.name == "some"
    assert dataset.num_variables == 3
    assert dataset.cost.dtype == dataset.solution.dtype == torch.float32
    assert torch.equal(dataset.solution, (dataset.cost < 0).float())
    assert (dataset.lower.tolist(), dataset.upper.tolist()) == ([0, 0, 0], [1, 1, 1])
    assert dataset.true_a is not None
    assert dataset.true_a.shape == (2, 3)


def test_split() -> None:
    cost = torch.arange(12.0).view(12, 1)
    dataset = Dataset("d", cost, torch.zeros(12, 1), torch.zeros(1), torch.ones(1), num_train=9)
    first = lambda split: [part.cost[:, 0].tolist() for part in split]  # noqa: E731
    assert first(dataset.split(validation=3)) == [[0, 1, 2, 3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert first(dataset.split(2, 1)) == [[0, 1], [2], [9, 10, 11]]  # the test is always the same
    for train, validation in ((7, 3), (0, 3), (3, 0), (None, 9)):
        with pytest.raises(InputError, match="train and validation must be positive and at most 9 together"):
            dataset.split(train, validation)


def test_fingerprint_tells_data_apart_but_not_names() -> None:
    one = generate("one", num_constraints=1, lower=0, upper=1, num_variables=3, num_train=5, num_test=2)
    changed = one.cost.clone()
    changed[0, 0] += 1e-6
    assert dataclasses.replace(one, name="two", true_a=None, true_b=None).fingerprint == one.fingerprint
    assert dataclasses.replace(one, cost=changed).fingerprint != one.fingerprint
    assert dataclasses.replace(one, num_train=4).fingerprint != one.fingerprint


@pytest.mark.parametrize(("lower", "upper"), [(0, 1), (-5, 5), (-0.5, 200)])
def test_what_is_saved_is_loaded(tmp_path: Path, lower: float, upper: float) -> None:
    dataset = generate("x", num_constraints=2, lower=lower, upper=upper, num_variables=4, num_train=6, num_test=3)
    path = save_npz(dataset, tmp_path / "new" / "7.npz")
    again = load_npz(path, name="x")
    assert again.fingerprint == dataset.fingerprint
    assert again.name == "x"
    for name in ("cost", "solution", "lower", "upper", "true_a", "true_b"):
        assert torch.equal(getattr(again, name), getattr(dataset, name)), name
    assert [file.name for file in path.parent.iterdir()] == ["7.npz"]


def test_layout_is_that_of_the_published_files(tmp_path: Path) -> None:
    dataset = generate("x", num_constraints=2, lower=-5, upper=5, num_variables=4, num_train=6, num_test=3)
    with np.load(save_npz(dataset, tmp_path / "0.npz"), allow_pickle=False) as file:
        kinds = {name: (str(file[name].dtype), file[name].shape) for name in file.files}
    assert kinds == {
        "cost": ("float32", (9, 4)),
        "solution": ("int8", (9, 4)),
        "lower": ("int64", ()),
        "upper": ("int64", ()),
        "num_train": ("int64", ()),
        "true_a": ("float32", (2, 4)),
        "true_b": ("float32", (2,)),
    }


def test_nothing_is_replaced(tmp_path: Path) -> None:
    dataset = load_npz(written(tmp_path))
    path = tmp_path / "mine.npz"
    path.write_text("mine")
    with pytest.raises(InputError, match=r"mine.npz exists already and is not replaced"):
        save_npz(dataset, path)
    assert path.read_text() == "mine"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["mine.npz", "some.npz"]


NAN = arrays()["cost"].copy()
NAN[3, 1] = np.nan


@pytest.mark.wrong_types
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cost": None, "lower": None}, "cost, lower is missing, it has num_train, solution, upper"),
        ({"cost": np.zeros(12, np.float32)}, r"cost must be `example var`, got shape \(12,\)"),
        ({"cost": np.zeros((12, 3), np.int64)}, "cost must hold floats, got dtype int64"),
        ({"cost": NAN}, r"cost must be finite, got NaN or infinity at \[3, 1\]"),
        ({"solution": np.zeros((11, 3), np.int8)}, r"solution must have shape \(12, 3\), got \(11, 3\)"),
        ({"solution": np.full((12, 3), "1")}, "solution must hold numbers, got dtype <U1"),
        ({"solution": np.full((12, 3), 0.5)}, r"solution must be integral: example 0 has z\[0\] = 0.5"),
        ({"solution": np.full((12, 3), 2)}, r"solution must be within its bounds: example 0 has z\[0\] = 2"),
        ({"solution": arrays()["solution"][::-1]}, "solution must minimise its cost: for .*% of the pairs"),
        ({"lower": np.zeros(2)}, r"lower must have shape \(3,\), got \(2,\)"),
        ({"upper": np.inf}, "upper must be finite"),
        ({"lower": 3}, "lower must not be above upper"),
        ({"true_a": np.ones((2, 3))}, "true_a and true_b must be given together"),
        ({"true_a": np.ones((2, 4)), "true_b": np.ones(2)}, r"true_a must have shape \(2, 3\), got \(2, 4\)"),
        ({"num_train": 12}, "num_train must leave examples for the test, got 12 of 12"),
        ({"num_train": None}, "num_train must leave examples for the test, got 1600 of 12"),
        ({"num_train": 8.0}, "num_train must hold integers, got dtype float64"),
        ({"num_train": [8]}, r"num_train must be one number, got shape \(1,\)"),
    ],
)
def test_bad_contents(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = written(tmp_path, **changes)
    with pytest.raises(FileFormatError, match=f"{path}.*{message}"):
        load_npz(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="there is no file"):
        load_npz(tmp_path / "missing.npz")
    whole = written(tmp_path).read_bytes()
    broken = tmp_path / "broken.npz"
    for content in (b"", b"text", whole[: len(whole) // 2], whole.replace(b"<f4", b"<f9")):
        broken.write_bytes(content)
        with pytest.raises(FileFormatError, match=r"broken.npz is truncated or no .npz file of plain arrays"):
            load_npz(broken)
    with broken.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(FileFormatError, match=r"broken.npz is truncated or no .npz file"):
        load_npz(broken)


def test_no_pickles_inside(tmp_path: Path) -> None:
    path = written(tmp_path, cost=np.array([{"a": 1}], dtype=object))
    with pytest.raises(FileFormatError, match=r"no .npz file of plain arrays: Object arrays cannot be loaded"):
        load_npz(path)


def test_load_checks_the_setting(tmp_path: Path) -> None:
    dataset = generate("x", num_constraints=2, lower=0, upper=1, num_variables=4, num_train=6, num_test=3)
    for place in ("binary/2/0", "binary/1/0", "dense/2/0", "mine/2/0"):
        save_npz(dataset, tmp_path / "random_constraints" / f"{place}.npz")
    loaded = load(tmp_path, "binary", 2, 0)
    assert (loaded.name, loaded.fingerprint) == ("binary/2/0", dataset.fingerprint)
    assert load(tmp_path, "mine", 2, 0).name == "mine/2/0"
    with pytest.raises(FileFormatError, match=r"binary/1/0.npz: true_a must have 1 rows, got 2"):
        load(tmp_path, "binary", 1, 0)
    with pytest.raises(FileFormatError, match=r"the bounds of domain dense must be \[-5, 5\], got \[0, 1\]"):
        load(tmp_path, "dense", 2, 0)
    with pytest.raises(
        FileFormatError, match=r"no dataset .*binary/2/1.npz.*--domain binary --constraints 2 --dataset"
    ):
        load(tmp_path, "binary", 2, 1)
    with pytest.raises(InputError, match=r"domain must be a plain name such as binary or dense, got '../secret'"):
        load(tmp_path, "../secret", 2, 1)
    with pytest.raises(InputError, match="constraints must be positive and dataset not negative, got 2 and -1"):
        load(tmp_path, "binary", 2, -1)


def test_a_few_slips_pass_as_optimal() -> None:
    cost = torch.rand(400, 3) * 2 - 1
    solution = (cost < 0).float()
    check_optimal(cost, solution)
    solution[0] = 1 - solution[0]
    check_optimal(cost, solution)
    with pytest.raises(InputError, match="solution must minimise its cost"):
        check_optimal(-cost, solution)


@needs_data
@pytest.mark.parametrize("domain", BOXES)
@pytest.mark.parametrize("constraints", [1, 2, 4, 8])
def test_published_datasets(domain: str, constraints: int) -> None:
    for number in range(5):
        dataset = load(DATA, domain, constraints, number)
        assert [tuple(part.cost.shape) for part in dataset.split()] == [(1500, 16), (100, 16), (1000, 16)]
        assert dataset.true_a is not None
        assert dataset.true_b is not None
        assert dataset.true_a.shape == (constraints, 16)
        is_true = (dataset.solution @ dataset.true_a.mT + dataset.true_b >= -1e-4).all(-1)
        assert (~is_true).sum() <= 2
