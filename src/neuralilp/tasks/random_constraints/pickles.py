"""The published ``dataset.p`` files (Paulus et al. 2021): pickles, read without running what they might hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from neuralilp.errors import FileFormatError, InputError
from neuralilp.pickles import read_pickle
from neuralilp.tasks.random_constraints.data import Dataset, check_optimal, from_arrays

COSTS = ("cost", "costs", "cost_vector", "cost_vectors", "c", "x")
SOLUTIONS = ("solution", "solutions", "y", "ys", "y_true", "z")
LOWER = ("lb", "lower", "lower_bound")
UPPER = ("ub", "upper", "upper_bound")

TRUE_ENOUGH = 0.99
"""Share of the solutions that must satisfy a row for it to be a true one: labels hold a few slips of a solver."""

Arrays = tuple[Any, Any]


def load_pickle(path: Path, *, name: str | None = None, box: tuple[float, float] | None = None) -> Dataset:
    """A published dataset: a dict with the splits ``train`` and ``test``, and facts about them, such as ``metadata``.

    A split is a pair of arrays (costs, solutions), a list of pairs (cost, solution), or one or many dicts with names
    such as ``cost`` and ``solution``. Bounds are looked for under ``lb`` and ``ub`` at any depth; ``box`` stands in
    where there are none. True constraints are taken where an entry named so has the shape of rows [a | b], of a pair
    (a, b) or of a dict. The published convention is a·z + b <= 0; which it is, the solutions tell.
    """
    content = read_pickle(path)
    try:
        return _dataset(name or path.stem, content, box)
    except InputError as error:
        raise FileFormatError(f"{path}: {error}") from None


def _dataset(name: str, content: Any, box: tuple[float, float] | None) -> Dataset:
    if not isinstance(content, Mapping) or not {"train", "test"} <= set(content):
        found = f"the keys {_keys(content)}" if isinstance(content, Mapping) else f"a {type(content).__name__}"
        raise InputError(f"it must hold a dict with train and test, got {found}")
    train, test = _examples("train", content["train"]), _examples("test", content["test"])
    if train[0].shape[1] != test[0].shape[1]:
        raise InputError(f"train and test must have the same variables, got {train[0].shape[1]}, {test[0].shape[1]}")
    facts = {key: value for key, value in content.items() if key not in ("train", "test")}
    arrays = {
        "cost": np.concatenate([train[0], test[0]]),
        "solution": np.concatenate([train[1], test[1]]),
        "num_train": len(train[0]),
    }
    arrays["lower"], arrays["upper"] = _bounds(facts, box)
    dataset = from_arrays(name, arrays)
    check_optimal(dataset.cost, dataset.solution)
    rows = _true_rows(facts, dataset)
    if rows is None:
        return dataset
    return from_arrays(name, {**arrays, "true_a": rows[0], "true_b": rows[1]})


def _examples(split: str, value: Any) -> Arrays:
    """Costs and solutions of a split, whichever way it holds them."""
    if isinstance(value, Mapping):
        pair = _named_pair(split, value)
    elif not isinstance(value, list | tuple | np.ndarray) or not len(value):
        raise InputError(f"{split} must hold examples, got {_what(value)}")
    elif len(value) == 2 and all(isinstance(part, np.ndarray) and part.ndim == 2 for part in value):
        pair = value[0], value[1]
    elif all(isinstance(example, Mapping) for example in value):
        pairs = [_named_pair(split, example) for example in value]
        pair = [cost for cost, _ in pairs], [solution for _, solution in pairs]
    elif all(isinstance(example, list | tuple | np.ndarray) and len(example) == 2 for example in value):
        pair = [cost for cost, _ in value], [solution for _, solution in value]
    else:
        raise InputError(
            f"{split} must be (costs, solutions), pairs (cost, solution) or dicts of them, got {_what(value)} "
            f"of {_what(value[0])}"
        )
    costs, solutions = _floats(f"costs of {split}", pair[0]), _floats(f"solutions of {split}", pair[1])
    if costs.ndim != 2 or costs.shape != solutions.shape:
        raise InputError(
            f"costs and solutions of {split} must have one shape `example var`, got {costs.shape} and {solutions.shape}"
        )
    rounded = solutions.round()  # solvers return 0.9999998
    return costs, np.where(np.abs(solutions - rounded) <= 1e-4, rounded, solutions)


def _named_pair(split: str, value: Mapping[Any, Any]) -> Arrays:
    costs, solutions = (next((value[key] for key in keys if key in value), None) for keys in (COSTS, SOLUTIONS))
    if costs is None or solutions is None:
        raise InputError(
            f"{split} must have one of {', '.join(COSTS)} and one of {', '.join(SOLUTIONS)}, "
            f"got the keys {_keys(value)}"
        )
    return costs, solutions


def _bounds(facts: Mapping[Any, Any], box: tuple[float, float] | None) -> Arrays:
    for entry in _dicts(facts):
        pair = [next((entry[key] for key in keys if key in entry), None) for keys in (LOWER, UPPER)]
        if pair[0] is not None and pair[1] is not None:
            return _floats("the lower bound", pair[0]), _floats("the upper bound", pair[1])
    if box is None:
        raise InputError(f"bounds must be there as lb and ub, got the keys {_keys(facts, deep=True)} beside the splits")
    return box


def _true_rows(facts: Mapping[Any, Any], dataset: Dataset) -> Arrays | None:
    """Rows that the solutions satisfy, as a·z + b >= 0; None where there are none to recognise."""
    solutions = dataset.solution.double()
    for a, b in _candidates(facts, dataset.num_variables):
        values = solutions @ torch.from_numpy(a).double().mT + torch.from_numpy(b).double()
        for sign in (-1, 1):
            if bool(((sign * values >= -1e-4).double().mean(0) >= TRUE_ENOUGH).all()):
                return sign * a, sign * b
    return None


def _candidates(facts: Mapping[Any, Any], n: int) -> Iterator[Arrays]:
    """Whatever is named after constraints and has the shape of (a, b)."""
    for entry in _dicts(facts):
        for key, value in entry.items():
            if "constr" not in str(key).lower():
                continue
            if isinstance(value, Mapping):
                value = [next((value[k] for k in keys if k in value), None) for keys in (("a", "A"), ("b", "B"))]
            try:
                if isinstance(value, list | tuple) and len(value) == 2:
                    a, b = (_floats("", part) for part in value)
                else:
                    rows = _floats("", value)
                    a, b = rows[..., :-1], rows[..., -1]
            except (InputError, IndexError):
                continue
            b = b.reshape(-1)
            if a.ndim == 2 and a.shape == (len(b), n) and len(b):
                yield a, b


def _dicts(value: Mapping[Any, Any]) -> Iterator[Mapping[Any, Any]]:
    """``value`` and the dicts inside it, outermost first."""
    yield value
    for inner in value.values():
        if isinstance(inner, Mapping):
            yield from _dicts(inner)


def _floats(name: str, value: Any) -> Any:
    try:
        return np.asarray(value, dtype=np.float32)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers of one shape, got {_what(value)}") from None


def _what(value: Any) -> str:
    size = f" of shape {value.shape}" if isinstance(value, np.ndarray) else ""
    size = f" of length {len(value)}" if isinstance(value, list | tuple) else size
    return f"{type(value).__name__}{size}"


def _keys(value: Mapping[Any, Any], *, deep: bool = False) -> str:
    keys = [key for entry in (_dicts(value) if deep else [value]) for key in entry]
    return ", ".join(str(key) for key in keys) or "none"
