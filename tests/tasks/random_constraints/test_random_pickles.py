"""Published pickles: every layout that is understood, and that nothing in them runs."""

from __future__ import annotations

import collections
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from neuralilp.errors import FileFormatError
from neuralilp.pickles import read_pickle
from neuralilp.tasks.random_constraints.data import Dataset
from neuralilp.tasks.random_constraints.generate import generate
from neuralilp.tasks.random_constraints.pickles import load_pickle

DATA = generate("x", num_constraints=3, lower=-5, upper=5, num_variables=4, num_train=30, num_test=10)
COST, SOLUTION = DATA.cost.numpy(), DATA.solution.numpy()
RANGE = {"variable_range": {"lb": -5, "ub": 5}}


def true_rows(sign: int) -> tuple[Any, Any]:
    assert DATA.true_a is not None
    assert DATA.true_b is not None
    return sign * DATA.true_a.numpy(), sign * DATA.true_b.numpy()


def layout(kind: str) -> dict[str, Any]:
    def split(part: slice) -> Any:
        costs, solutions = COST[part], SOLUTION[part]
        pairs = list(zip(costs, solutions, strict=True))
        return {
            "arrays": (costs, solutions),
            "pairs": pairs,
            "lists": [[c.tolist(), y.astype(int).tolist()] for c, y in pairs],
            "stacked": np.stack([costs, solutions], axis=1),
            "objects": np.array([*pairs, None], dtype=object)[:-1],
            "dict of arrays": {"cost_vectors": costs, "y_true": solutions},
            "dicts": [collections.OrderedDict(c=c, y=y.astype(np.int64)) for c, y in pairs],
            "unrounded": (costs.astype(np.float64), solutions * (1 + 1e-7)),
        }[kind]

    return {"train": split(slice(30)), "test": split(slice(30, None)), "metadata": dict(RANGE)}


def write(folder: Path, content: Any, protocol: int | None = None) -> Path:
    path = folder / "dataset.p"
    path.write_bytes(pickle.dumps(content, protocol))
    return path


def assert_same(dataset: Dataset, *, has_truth: bool = False) -> None:
    assert dataset.fingerprint == DATA.fingerprint
    assert (dataset.true_a is not None) == has_truth
    if has_truth:
        assert dataset.true_a is not None
        assert dataset.true_b is not None
        assert DATA.true_a is not None
        assert DATA.true_b is not None
        assert torch.equal(dataset.true_a, DATA.true_a)
        assert torch.equal(dataset.true_b, DATA.true_b)


@pytest.mark.parametrize(
    "kind", ["arrays", "pairs", "lists", "stacked", "objects", "dict of arrays", "dicts", "unrounded"]
)
def test_layouts_of_examples(tmp_path: Path, kind: str) -> None:
    dataset = load_pickle(write(tmp_path, layout(kind)))
    assert_same(dataset)
    assert dataset.name == "dataset"
    assert dataset.num_train == 30


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_protocols(tmp_path: Path, protocol: int) -> None:
    content = layout("pairs") | {"seed": np.int64(3), "scale": np.float32(0.5), "name": "a name", "bytes": b"\x00\xff"}
    assert_same(load_pickle(write(tmp_path, content, protocol)))


def test_pickles_of_older_numpy(tmp_path: Path) -> None:
    """NumPy 1 wrote ``numpy.core`` where NumPy 2 writes ``numpy._core``."""
    path = write(tmp_path, layout("arrays"), protocol=2)
    content = path.read_bytes()
    older = content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    assert older != content or b"numpy.core.multiarray" in content
    path.write_bytes(older)
    assert_same(load_pickle(path))


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("shape", ["joined", "pair", "dict", "column"])
def test_true_constraints_come_out_in_our_sign(tmp_path: Path, sign: int, shape: str) -> None:
    a, b = true_rows(sign)
    rows = {
        "joined": np.concatenate([a, b[:, None]], axis=1),
        "pair": (a, b),
        "dict": {"a": a, "b": b},
        "column": (a, b[:, None]),
    }[shape]
    content = layout("arrays")
    content["metadata"]["true_constraints"] = rows
    content["metadata"]["num_constraints"] = 3
    assert_same(load_pickle(write(tmp_path, content)), has_truth=True)


def test_rows_that_the_solutions_violate_are_not_true(tmp_path: Path) -> None:
    a, _ = true_rows(1)
    content = layout("arrays") | {"constraints": (a, np.zeros(3, np.float32))}
    assert_same(load_pickle(write(tmp_path, content)))


def test_bounds_from_elsewhere(tmp_path: Path) -> None:
    content = layout("arrays")
    content["metadata"] = {"lb": np.full(4, -5), "ub": np.full(4, 5.0)}
    assert_same(load_pickle(write(tmp_path, content), box=(0, 1)))  # the file's own come first
    del content["metadata"]
    path = write(tmp_path, content)
    assert_same(load_pickle(path, box=(-5, 5), name="dense/3/0"))
    with pytest.raises(FileFormatError, match="bounds must be there as lb and ub, got the keys none beside the splits"):
        load_pickle(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": None}, "train must hold examples, got NoneType"),
        ({"train": []}, "train must hold examples, got list of length 0"),
        ({"test": {"inputs": COST, "labels": SOLUTION}}, "test must have one of cost, .*got the keys inputs, labels"),
        ({"test": [1, 2, 3]}, "test must be .* got list of length 3 of int"),
        ({"test": [(c, y, 0) for c, y in zip(COST, SOLUTION, strict=True)]}, "of tuple of length 3"),
        ({"train": (COST, SOLUTION[:, :3])}, r"must have one shape `example var`, got \(40, 4\) and \(40, 3\)"),
        (
            {"train": [(COST[0], SOLUTION[0]), (COST[1, :2], SOLUTION[1])]},
            "costs of train must be numbers of one shape",
        ),
        ({"train": (COST[:, :3], SOLUTION[:, :3])}, "train and test must have the same variables, got 3, 4"),
        ({"train": (COST, -SOLUTION)}, "solution must minimise its cost"),
        ({"train": (COST, SOLUTION + 0.5)}, "solution must be integral"),
        ({"metadata": {"variable_range": {"lb": 0, "ub": 1}}}, "solution must be within its bounds"),
        ({"metadata": {"variable_range": {"lb": "low", "ub": 1}}}, "the lower bound must be numbers"),
        ({"metadata": {"seed": 1}}, "bounds must be there as lb and ub, got the keys metadata, seed beside"),
    ],
)
def test_layouts_that_are_not_understood(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = write(tmp_path, layout("arrays") | changes)
    with pytest.raises(FileFormatError, match=f"{path}: .*{message}"):
        load_pickle(path)


def test_contents_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="a dict with train and test, got the keys train, valid"):
        load_pickle(write(tmp_path, {"train": 1, "valid": 2}))
    with pytest.raises(FileFormatError, match="a dict with train and test, got a list"):
        load_pickle(write(tmp_path, [1, 2]))


class Malicious:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_nothing_runs(tmp_path: Path, protocol: int) -> None:
    witness = tmp_path / "was here"
    content = layout("arrays") | {"metadata": Malicious(os.system, f"touch '{witness}'")}
    path = write(tmp_path, content, protocol)
    with pytest.raises(FileFormatError, match=r"asks for (posix|nt)\.system; nothing was run"):
        load_pickle(path)
    assert not witness.exists()
    pickle.loads(path.read_bytes())  # the pickle does what it is meant to where anything is allowed
    assert witness.exists()


@pytest.mark.parametrize(
    ("function", "name"), [(eval, "eval"), (getattr, "getattr"), (np.load, "load"), (np.fromfile, "fromfile")]
)
def test_other_functions_are_refused(tmp_path: Path, function: Any, name: str) -> None:
    path = write(tmp_path, Malicious(function, "1"))
    with pytest.raises(FileFormatError, match=rf"must hold NumPy arrays .* it asks for .*{name}; nothing was run"):
        read_pickle(path)


def test_only_the_encoding_of_bytes_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "dataset.p"
    path.write_bytes(b"c_codecs\nencode\n(Vtext\nVrot13\ntR.")
    with pytest.raises(FileFormatError, match=r"_codecs.encode to 'rot13'"):
        read_pickle(path)
    path.write_bytes(b"c_codecs\nencode\n(Vtext\nVlatin1\ntR.")
    assert read_pickle(path) == b"text"


def test_persistent_objects_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "dataset.p"
    path.write_bytes(b"Psomewhere\n.")
    with pytest.raises(FileFormatError, match="persistent object 'somewhere'"):
        read_pickle(path)


def test_damaged_files(tmp_path: Path) -> None:
    path = write(tmp_path, layout("arrays"))
    whole = path.read_bytes()
    for content in (b"", b"text", whole[: len(whole) // 2], whole[:-1], b"\x80\x04\x8e" + struct.pack("<Q", 2**62)):
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match=f"{path} is truncated or no pickle"):
            load_pickle(path)
    with pytest.raises(FileFormatError, match=r"missing.p cannot be read: No such file"):
        load_pickle(tmp_path / "missing.p")
