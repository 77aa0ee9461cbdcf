"""Records of runs."""

from __future__ import annotations

import json
import math
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import neuralilp
from neuralilp import FileFormatError, InputError
from neuralilp.training import Outcome, RunFolder, fingerprint, make_record, read_record, write_record

OUTCOME = Outcome(
    stopped="patience",
    epochs=40,
    steps=6000,
    train_seconds=12.34567,
    total_seconds=20.0,
    monitor="vector_accuracy",
    best=0.9,
    best_epoch=20,
    best_steps=3000,
    figures={"vector_accuracy": 0.9, "loss": math.nan},
)


def record(**changes: Any) -> dict[str, Any]:
    arguments = {
        "setting": {"domain": "dense", "margins": (0.01, 0.01), "width": np.int64(3)},
        "data_fingerprint": "0" * 64,
        "outcome": OUTCOME,
        "test": {"vector_accuracy": np.float64(0.5), "cost_gap": math.nan},
        "statuses": {"optimal": 10},
    } | changes
    return make_record("random-constraints", "ilploss", 0, **arguments)


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    made = record(extra={"cuts": {"vector_accuracy": math.inf}})
    write_record(made, tmp_path / "record.json")
    read = read_record(tmp_path / "record.json")
    assert read == made
    assert read["setting"] == {"domain": "dense", "margins": [0.01, 0.01], "width": 3}
    assert read["test"] == {"vector_accuracy": 0.5, "cost_gap": None}
    assert read["validation"] == {"vector_accuracy": 0.9, "loss": None}
    assert read["cuts"] == {"vector_accuracy": None}
    assert (read["stopped"], read["epochs"], read["steps"], read["best_epoch"]) == ("patience", 40, 6000, 20)
    assert (read["train_seconds"], read["total_seconds"]) == (12.346, 20.0)
    assert read["versions"]["neuralilp"] == neuralilp.__version__
    assert set(read["versions"]) == {"neuralilp", "torch", "numpy", "highspy", "python"}
    assert read["machine"]["threads"] == torch.get_num_threads()
    assert read["machine"]["cpu"]
    text = (tmp_path / "record.json").read_text()
    assert "NaN" not in text
    assert f'"{socket.gethostname()}"' not in text
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


def test_a_folder_holds_a_record(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert not folder.has_record()
    folder.write_record(record())
    assert folder.has_record()
    assert folder.read_record() == record()


def test_unusable_arguments() -> None:
    with pytest.raises(InputError, match=r"fractions between 0 and 1, got vector_accuracy = 97\.8"):
        record(test={"vector_accuracy": 97.8})
    with pytest.raises(InputError, match="own entries, got seed"):
        record(extra={"seed": 1})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"record": 2}, "no record of a version"),
        ({"task": None}, "task must be str, got null"),
        ({"seed": True}, "seed must be int, got true"),
        ({"train_seconds": "5"}, 'train_seconds must be int or float, got "5"'),
        ({"test": []}, r"test must be dict, got \[\]"),
        ({"test": {"vector_accuracy": 97.8}}, r"test\.vector_accuracy must be between 0 and 1, or null, got 97\.8"),
        ({"test": {"vector_accuracy": "1"}}, r"test\.vector_accuracy must be"),
    ],
)
def test_wrong_records_are_told(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(json.dumps(record() | change))
    with pytest.raises(FileFormatError, match=message):
        read_record(path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"record": NaN}', "\xff"])
def test_what_is_no_record_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(FileFormatError, match=r"record\.json"):
        read_record(path)
    with pytest.raises(FileFormatError):
        read_record(tmp_path / "missing.json")


def test_fingerprints_tell_values_shapes_dtypes_and_order_apart() -> None:
    x, y = torch.arange(6.0), torch.ones(2, dtype=torch.bool)
    others = [
        (x.view(2, 3), y),
        (x.double(), y),
        (x.view(torch.int32), y),
        (y, x),
        (x,),
        (x + torch.tensor([0, 0, 0, 0, 0, 1e-6]), y),
        (x, ~y),
        (x, y, torch.zeros(0)),
        (x, y, torch.zeros(())),
    ]
    prints = [fingerprint(tensors) for tensors in [(x, y), *others]]
    assert len(set(prints)) == len(prints)
    # Neither memory layout nor gradients matter.
    wide = torch.arange(12.0).div(2).view(6, 2)
    assert fingerprint([wide[:, 0].requires_grad_(), y]) == prints[0]
    # Fixed, so that records of different versions can be compared: sha256 of b"torch.bool (2,);\x01\x01".
    import hashlib

    assert fingerprint([y]) == hashlib.sha256(b"torch.bool (2,);\x01\x01").hexdigest()
