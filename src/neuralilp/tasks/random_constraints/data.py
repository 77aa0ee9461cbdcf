"""The datasets of random constraints: costs with optimal solutions, in one ``.npz`` file each."""

from __future__ import annotations

import dataclasses
import functools
import re
import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from neuralilp.blocks import Bounds
from neuralilp.errors import FileFormatError, InputError, ShapeError
from neuralilp.evidence import contradictions
from neuralilp.files import check_new, written_whole
from neuralilp.training.record import fingerprint

BOXES = {"binary": (0.0, 1.0), "dense": (-5.0, 5.0)}
"""The bounds of every variable in the two domains of the paper."""

NUM_TRAIN = 1600
"""Examples for training and validation in the published datasets; the rest are for the test."""

NUMBERS, FLOATS, INTEGERS = ("iuf", "numbers"), ("f", "floats"), ("iu", "integers")
ENTRIES = {
    "cost": FLOATS,
    "solution": NUMBERS,
    "lower": NUMBERS,
    "upper": NUMBERS,
    "true_a": FLOATS,
    "true_b": FLOATS,
    "num_train": INTEGERS,
}
"""The entries of a file, and the kinds of NumPy dtypes that each may have."""

CHEAPER_PAIRS = 0.01
"""Share of pairs of examples that may contradict each other: published labels hold a few slips of a solver."""


class Examples(NamedTuple):
    cost: Float[Tensor, "example var"]
    solution: Float[Tensor, "example var"]


class Split(NamedTuple):
    train: Examples
    validation: Examples
    test: Examples


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """Costs, the solutions that minimise them over one hidden program, and the box of its variables.

    The hidden rows ``true_a z + true_b >= 0`` are for checking what was learnt, never for training.
    """

    name: str
    cost: Float[Tensor, "example var"]
    solution: Float[Tensor, "example var"]
    lower: Float[Tensor, " var"]
    upper: Float[Tensor, " var"]
    true_a: Float[Tensor, "constr var"] | None = None
    true_b: Float[Tensor, " constr"] | None = None
    num_train: int = NUM_TRAIN
    """The first so many examples are for training and validation, the rest for the test."""

    def __post_init__(self) -> None:
        if self.cost.ndim != 2 or not self.cost.shape[1]:
            raise ShapeError(f"cost must be `example var`, got shape {tuple(self.cost.shape)}")
        count, n = self.cost.shape
        rows = 0 if self.true_b is None else len(self.true_b)
        expected = {"solution": (count, n), "lower": (n,), "upper": (n,), "true_a": (rows, n), "true_b": (rows,)}
        if (self.true_a is None) != (self.true_b is None):
            raise InputError("true_a and true_b must be given together, got one of them")
        for name in ("cost", *expected):
            tensor = getattr(self, name)
            if tensor is None:
                continue
            if tensor.dtype != torch.float32:
                raise ShapeError(f"{name} must be float32, got {tensor.dtype}")
            if name in expected and tensor.shape != expected[name]:
                raise ShapeError(f"{name} must have shape {expected[name]}, got {tuple(tensor.shape)}")
            if not bool(tensor.isfinite().all()):
                raise InputError(f"{name} must be finite, got NaN or infinity at {_first(~tensor.isfinite())}")
        if not 0 < self.num_train < count:
            raise InputError(f"num_train must leave examples for the test, got {self.num_train} of {count}")
        inside = Bounds(self.lower, self.upper).contain(self.solution)
        for is_bad, rule in ((self.solution != self.solution.round(), "integral"), (~inside, "within its bounds")):
            if bool(is_bad.any()):
                where = _first(is_bad)
                value = self.solution[tuple(where)].item()
                raise InputError(f"solution must be {rule}: example {where[0]} has z[{where[1]}] = {value:g}")

    @property
    def num_variables(self) -> int:
        return self.cost.shape[1]

    @functools.cached_property
    def fingerprint(self) -> str:
        """Depends on what is learnt from and tested on, not on the name, the file or the hidden rows."""
        tensors = (self.cost, self.solution, self.lower, self.upper, torch.tensor([self.num_train]))
        return fingerprint(tensor + 0 for tensor in tensors)  # -0.0 is 0.0, which integers in files cannot tell apart

    def split(self, train: int | None = None, validation: int = 100) -> Split:
        """The first ``train`` examples, the next ``validation``, and all those from ``num_train`` on as the test.

        By default training takes all that validation leaves: 1500 / 100 / 1000 of a published dataset.
        """
        if train is None:
            train = self.num_train - validation
        if train < 1 or validation < 1 or train + validation > self.num_train:
            raise InputError(
                f"train and validation must be positive and at most {self.num_train} together, "
                f"got {train} and {validation}"
            )
        parts = (slice(train), slice(train, train + validation), slice(self.num_train, None))
        return Split(*(Examples(self.cost[part], self.solution[part]) for part in parts))


def check_optimal(cost: Tensor, solution: Tensor) -> None:
    """Raise unless solutions look optimal: hardly ever may another example's solution be cheaper than one's own.

    All share their constraints, so every solution is feasible for every cost. A thousand examples are compared.
    """
    share = contradictions(cost[:1000], solution[:1000]).double().mean().item()
    if share > CHEAPER_PAIRS:
        raise InputError(
            f"solution must minimise its cost: for {share:.0%} of the pairs of examples, the solution of the other "
            f"is cheaper"
        )


def dataset_path(folder: Path, domain: str, constraints: int, dataset: int) -> Path:
    """``folder/random_constraints/dense/8/0.npz``"""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", domain):
        raise InputError(f"domain must be a plain name such as {' or '.join(BOXES)}, got {domain!r}")
    if constraints < 1 or dataset < 0:
        raise InputError(f"constraints must be positive and dataset not negative, got {constraints} and {dataset}")
    return folder / "random_constraints" / domain / str(constraints) / f"{dataset}.npz"


def load(folder: Path, domain: str, constraints: int, dataset: int) -> Dataset:
    """A dataset out of the data folder; named ``dense/8/0``."""
    path = dataset_path(folder, domain, constraints, dataset)
    if not path.is_file():
        raise FileFormatError(
            f"there is no dataset {path}: is {folder} the data folder? `neuralilp data random-constraints "
            f"--domain {domain} --constraints {constraints} --dataset {dataset}` makes one"
        )
    loaded = load_npz(path, name=f"{domain}/{constraints}/{dataset}")
    check_setting(loaded, path, domain, constraints)
    return loaded


def check_setting(dataset: Dataset, path: Path, domain: str, constraints: int) -> None:
    """Raise unless a dataset can be one of ``domain`` with so many constraints."""
    lower, upper = BOXES.get(domain, (None, None))
    if lower is not None and not bool(((dataset.lower == lower) & (dataset.upper == upper)).all()):
        raise FileFormatError(
            f"{path}: the bounds of domain {domain} must be [{lower:g}, {upper:g}], "
            f"got [{dataset.lower.min():g}, {dataset.upper.max():g}]"
        )
    if dataset.true_b is not None and len(dataset.true_b) != constraints:
        raise FileFormatError(f"{path}: true_a must have {constraints} rows, got {len(dataset.true_b)}")


def load_npz(path: Path, *, name: str | None = None) -> Dataset:
    """A dataset out of one file, checked: what :func:`save_npz` wrote, or a published one in that layout.

    Entries: ``cost`` and ``solution`` (example, var); ``lower`` and ``upper``, numbers or one a variable; optionally
    ``true_a`` (constr, var), ``true_b`` (constr) and ``num_train``, which is 1600 otherwise.
    """
    arrays = _read_arrays(path)
    missing = [entry for entry in ("cost", "solution", "lower", "upper") if entry not in arrays]
    if missing:
        raise FileFormatError(
            f"{path} must hold the arrays cost, solution, lower and upper: {', '.join(missing)} is missing, "
            f"it has {', '.join(sorted(arrays)) or 'none'}"
        )
    try:
        dataset = from_arrays(name or path.stem, arrays)
        check_optimal(dataset.cost, dataset.solution)
    except InputError as error:
        raise FileFormatError(f"{path}: {error}") from None
    return dataset


def from_arrays(name: str, arrays: dict[str, Any]) -> Dataset:
    """A dataset of NumPy arrays or numbers, those of :func:`load_npz`."""
    known = {entry: np.asarray(value) for entry, value in arrays.items() if entry in ENTRIES}
    for entry, array in known.items():
        kinds, words = ENTRIES[entry]
        if array.dtype.kind not in kinds:
            raise InputError(f"{entry} must hold {words}, got dtype {array.dtype}")
    sizes = known.pop("num_train", np.asarray(NUM_TRAIN))
    if sizes.shape != ():
        raise ShapeError(f"num_train must be one number, got shape {sizes.shape}")
    tensors = {entry: torch.from_numpy(array.astype(np.float32)) for entry, array in known.items()}
    if tensors["cost"].ndim == 2:
        for entry in ("lower", "upper"):
            if tensors[entry].ndim == 0:
                tensors[entry] = tensors[entry].repeat(tensors["cost"].shape[1])
    return Dataset(name=name, **tensors, num_train=int(sizes))


def save_npz(dataset: Dataset, path: Path) -> Path:
    """Write a dataset, whole or not at all, for :func:`load_npz`. An existing file is never replaced."""
    check_new(path)
    solution = dataset.solution.numpy()
    is_small = bool((np.abs(solution) <= np.iinfo(np.int8).max).all())
    arrays = {
        "cost": dataset.cost.numpy(),
        "solution": solution.astype(np.int8 if is_small else np.int32),
        "lower": _compact(dataset.lower),
        "upper": _compact(dataset.upper),
        "num_train": np.asarray(dataset.num_train),
    }
    if dataset.true_a is not None and dataset.true_b is not None:
        arrays |= {"true_a": dataset.true_a.numpy(), "true_b": dataset.true_b.numpy()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as part:
        np.savez_compressed(part, **arrays)
        check_new(path)
    return path


def _compact(bound: Tensor) -> Any:
    """One number where all variables share it, and integers where they are."""
    array = bound.numpy()
    if bool((array == array.round()).all()):
        array = array.astype(np.int64)
    return array[0] if bool((array == array[0]).all()) else array


def _read_arrays(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileFormatError(f"there is no file {path}")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {entry: archive[entry] for entry in archive.files}
    except (OSError, EOFError, ValueError, AttributeError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise FileFormatError(f"{path} is truncated or no .npz file of plain arrays: {error}") from None


def _first(is_bad: Tensor) -> list[int]:
    where: list[int] = is_bad.nonzero()[0].tolist()
    return where
