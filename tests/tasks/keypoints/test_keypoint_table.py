"""The table of keypoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from neuralilp.errors import FileFormatError
from neuralilp.tasks.keypoints.table import ACCURACY, MINUTES, PERMUTATIONS, as_json, result_table


def record(method: str, points: int, accuracy: float, *, seed: int = 0) -> dict[str, Any]:
    return {
        "method": method,
        "seed": seed,
        "setting": {"points": points},
        "images": "Willow, seed 0",
        "data_fingerprint": str(points),
        "train_seconds": 90.0,
        "validation": {"pointwise_accuracy": accuracy},
        "test": {"pointwise_accuracy": accuracy - 0.1, "permutation_rate": 1.0},
    }


def table_of(*records: dict[str, Any]) -> Any:
    return result_table({Path(f"{i}/record.json"): each for i, each in enumerate(records)})


def test_ours_beside_the_paper_s() -> None:
    table = table_of(record("ilploss-plus", 4, 0.9), record("ilploss-plus", 4, 0.8, seed=1), record("neural", 7, 0.7))
    labels = [(row.section, row.label) for row in table.rows]
    assert labels[4:] == [("SPair-71k", "ILP-Loss + Solver (paper)"), ("Willow", "neural"), ("Willow", "ilploss-plus")]
    assert table.rows[4].figures[ACCURACY]["k = 7"].mean == 78.59
    assert table.rows[0].figures[MINUTES]["k = 6"].error == 9
    cell = table.rows[-1].figures[ACCURACY]["k = 4"]
    assert (cell.mean, cell.count) == (pytest.approx(75), 2)
    assert table.cells(table.rows[-1], ACCURACY)[0] == "75.00 ± 5.00 (2)"  # two digits, as the paper has them
    assert table.cells(table.rows[-1], MINUTES)[0] == "1.5 ± 0.0"
    assert table.rows[-1].figures[PERMUTATIONS]["k = 4"].mean == 100
    assert as_json(table)["rows"][-1]["pointwise_accuracy_percent"]["4"]["mean"] == pytest.approx(75)


def test_the_data_differ_where_they_do() -> None:
    ours = table_of(record("ilploss", 5, 0.7))
    sentence = "The data differ: the paper's figures are on SPair-71k, ours are on Willow"
    assert sentence in ours.caption("seeds")
    assert sentence in as_json(ours)["note"]
    same = table_of({**record("ilploss", 5, 0.7), "images": "SPair-71k, large"})
    assert [row.section for row in same.rows[4:]] == ["SPair-71k", "SPair-71k"]
    assert "differ" not in same.caption("seeds")


def test_records_without_a_setting() -> None:
    bad = record("ilploss", 5, 0.7)
    bad["setting"] = {}
    with pytest.raises(FileFormatError, match="setting must hold points"):
        table_of(bad)
