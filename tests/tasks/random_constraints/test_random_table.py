"""The paper's Table 2 with ours beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from records import make_record

from neuralilp.errors import FileFormatError, InputError
from neuralilp.tasks.random_constraints.table import ACCURACY, MINUTES, PAPER_TABLE_2, as_json, result_table
from neuralilp.tasks.table import Figure, ResultTable


def table_of(*records: dict[str, Any]) -> ResultTable:
    return result_table({Path(f"{i}/record.json"): record for i, record in enumerate(records)})


def labels(table: ResultTable) -> list[tuple[str, str]]:
    return [(row.section, row.label) for row in table.rows]


def test_paper_figures() -> None:
    """Typed in twice: the means of Table 2, read along its lines."""
    expected = {
        ("binary", "CombOptNet"): "97.6 95.3 84.3 63.4 8.2 13.5 26.5 40.8",
        ("binary", "ILP-Loss"): "97.8 96.0 92.8 87.8 7.3 11.6 18.1 27.5",
        ("dense", "CombOptNet"): "89.3 74.8 34.3 2.0 9.9 16.8 24.7 48.2",
        ("dense", "ILP-Loss"): "96.6 86.3 74.0 41.5 7.3 15.6 17.6 20.6",
    }
    for (domain, method), line in expected.items():
        groups = PAPER_TABLE_2[domain][method]
        assert [mean for mean, _ in (*groups[ACCURACY], *groups[MINUTES])] == [float(text) for text in line.split()]


def test_ours_are_means_over_datasets_of_means_over_seeds() -> None:
    """Dataset 0: (0.4 + 0.6)/2 = 0.5; dataset 1: 0.9. Mean 0.7, error 0.4/√2/√2 = 0.2; minutes (2 and 4), 3 ± 1."""
    table = table_of(
        make_record(dataset=0, seed=0, accuracy=0.4, seconds=60),
        make_record(dataset=0, seed=1, accuracy=0.6, seconds=180),
        make_record(dataset=1, seed=0, accuracy=0.9, seconds=240),
    )
    row = table.rows[-1]
    assert (row.section, row.label) == ("dense", "ilploss")
    accuracy, minutes = row.figures[ACCURACY]["m' = 8"], row.figures[MINUTES]["m' = 8"]
    assert (accuracy.mean, accuracy.error, accuracy.count) == (pytest.approx(70), pytest.approx(20), 2)
    assert (minutes.mean, minutes.error) == (pytest.approx(3), pytest.approx(1))
    assert list(row.figures[ACCURACY]) == ["m' = 8"]


def test_rows_are_in_the_order_of_the_paper() -> None:
    plus = make_record("ilploss-plus", "binary", 2, accuracy=0.9, test_without_cuts={"vector_accuracy": 0.25})
    table = table_of(plus, make_record("ilploss"), make_record("comboptnet"), make_record("another"))
    paper = ["CombOptNet (paper)", "ILP-Loss (paper)"]
    assert labels(table) == [
        *(("binary", label) for label in [*paper, "ilploss-plus, no cuts", "ilploss-plus"]),
        *(("dense", label) for label in [*paper, "comboptnet", "ilploss", "another"]),
    ]
    without, with_cuts = table.rows[2:4]
    assert without.figures[ACCURACY]["m' = 2"] == Figure(25.0, None, 1)
    assert with_cuts.figures[ACCURACY]["m' = 2"] == Figure(90.0, None, 1)
    assert without.figures[MINUTES] == with_cuts.figures[MINUTES]


def test_other_settings_get_columns_and_sections_of_their_own() -> None:
    table = table_of(make_record(domain="wide", constraints=3))
    assert table.groups[ACCURACY] == [f"m' = {m}" for m in (1, 2, 3, 4, 8)]
    assert labels(table)[-1] == ("wide", "ilploss")


def test_copies_count_once_and_contradictions_not_at_all() -> None:
    record = make_record(accuracy=0.5)
    assert table_of(record, dict(record)).rows[-1].figures[ACCURACY]["m' = 8"] == Figure(50.0, None, 1)
    with pytest.raises(
        InputError, match=r"0/record.json and 1/record.json differ, .* ilploss on dense/8/0 with seed 0"
    ):
        table_of(record, make_record(accuracy=0.6))


def test_runs_must_have_seen_the_same_data() -> None:
    with pytest.raises(InputError, match=r"must agree on the data of dense/8/0: 0/record.json and 1/record.json"):
        table_of(make_record(), make_record("comboptnet", data_fingerprint="another"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"setting": {"domain": "dense", "constraints": 8}}, "setting must hold domain, constraints and dataset, got"),
        ({"setting": {"domain": "dense", "constraints": "8", "dataset": 0}}, "setting must hold"),
        ({"test": {}}, "test.vector_accuracy must be a number from 0 to 1, got None"),
        ({"test_without_cuts": {"vector_accuracy": 98}}, "test_without_cuts.vector_accuracy must be .*, got 98"),
    ],
)
def test_incomplete_records(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FileFormatError, match=rf"0/record.json: {message}"):
        table_of({**make_record(), **changes})


def test_json_has_the_figures() -> None:
    result = as_json(table_of(make_record(accuracy=0.5, seconds=90)))
    assert result["task"] == "random-constraints"
    paper, ours = result["rows"][0], result["rows"][-1]
    assert (paper["domain"], paper["is_ours"], ours["is_ours"]) == ("binary", False, True)
    assert paper["vector_accuracy_percent"]["8"] == {"mean": 63.4, "error": 4.0, "count": None}
    assert ours["method"] == "ilploss"
    assert ours["vector_accuracy_percent"] == {"8": {"mean": 50.0, "error": None, "count": 1}}
    assert ours["train_minutes"] == {"8": {"mean": 1.5, "error": None, "count": 1}}
