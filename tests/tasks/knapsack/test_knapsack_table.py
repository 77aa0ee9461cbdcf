"""The table of the knapsack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from neuralilp.errors import FileFormatError
from neuralilp.tasks.knapsack.table import ACCURACY, FITS, GAP, MINUTES, as_json, result_table


def record(
    method: str, items: int, accuracy: float, seed: int = 0, sentences: str = "generated, seed 0"
) -> dict[str, Any]:
    return {
        "method": method,
        "seed": seed,
        "setting": {"items": items},
        "sentences": sentences,
        "data_fingerprint": f"{items} {sentences}",
        "train_seconds": 90.0,
        "test": {"vector_accuracy": accuracy, "feasibility": 0.9, "cost_gap": 0.05},
    }


def table_of(*records: dict[str, Any]) -> Any:
    return result_table({Path(f"{i}/record.json"): each for i, each in enumerate(records)})


def test_ours_beside_the_paper_s() -> None:
    table = table_of(
        record("ilploss", 10, 0.7),
        record("ilploss", 10, 0.8, seed=1),
        record("mlp", 30, 0.1),
        record("ilploss", 12, 0.5),
    )
    labels = [(row.section, row.label) for row in table.rows]
    assert labels == [
        ("published", "CombOptNet (paper)"),
        ("published", "ILP-Loss (paper)"),
        ("generated", "mlp"),
        ("generated", "ilploss"),
    ]
    assert table.groups[ACCURACY] == ["N = 10", "N = 12", "N = 15", "N = 20", "N = 25", "N = 30"]
    paper, ours = table.rows[1], table.rows[3]
    assert paper.figures[ACCURACY]["N = 30"].mean == 28.4
    assert paper.figures[MINUTES]["N = 10"].error == 5.7
    assert "N = 25" not in table.rows[0].figures[MINUTES]
    cell = ours.figures[ACCURACY]["N = 10"]
    assert (cell.mean, cell.count) == (pytest.approx(75), 2)
    assert ours.figures[MINUTES]["N = 12"].mean == 1.5
    assert ours.figures[FITS]["N = 10"].mean == pytest.approx(90)
    assert ours.figures[GAP]["N = 10"].mean == pytest.approx(5)
    assert as_json(table)["rows"][3]["vector_accuracy_percent"]["12"]["mean"] == 50


def test_runs_on_the_published_sentences_stand_with_the_paper_s() -> None:
    table = table_of(record("ilploss", 10, 0.7, sentences="published layout"))
    assert [(row.section, row.label) for row in table.rows][-1] == ("published", "ilploss")


def test_records_without_a_setting() -> None:
    bad = record("ilploss", 10, 0.7)
    bad["setting"] = {}
    with pytest.raises(FileFormatError, match="setting must hold items"):
        table_of(bad)
