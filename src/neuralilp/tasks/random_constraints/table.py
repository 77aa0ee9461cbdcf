"""The paper's table of random constraints, with the runs at hand beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neuralilp.errors import FileFormatError
from neuralilp.tasks.entries import ACCURACY, MINUTES, Entry, checked, paper_table, rows_as_json, rows_of
from neuralilp.tasks.table import Record, ResultTable, number

TASK = "random-constraints"
COLUMN = "m' = "

PAPER_CONSTRAINTS = (1, 2, 4, 8)
PAPER_TABLE_2 = {
    "binary": {
        "CombOptNet": {
            ACCURACY: ((97.6, 0.4), (95.3, 0.5), (84.3, 3.5), (63.4, 4.0)),
            MINUTES: ((8.2, 1.7), (13.5, 1.6), (26.5, 1.4), (40.8, 4.0)),
        },
        "ILP-Loss": {
            ACCURACY: ((97.8, 0.4), (96.0, 0.3), (92.8, 0.6), (87.8, 3.4)),
            MINUTES: ((7.3, 1.7), (11.6, 1.9), (18.1, 2.4), (27.5, 4.8)),
        },
    },
    "dense": {
        "CombOptNet": {
            ACCURACY: ((89.3, 1.1), (74.8, 1.9), (34.3, 5.6), (2.0, 0.6)),
            MINUTES: ((9.9, 1.4), (16.8, 1.3), (24.7, 2.0), (48.2, 2.3)),
        },
        "ILP-Loss": {
            ACCURACY: ((96.6, 0.3), (86.3, 2.3), (74.0, 5.4), (41.5, 5.7)),
            MINUTES: ((7.3, 1.1), (15.6, 2.1), (17.6, 2.6), (20.6, 4.5)),
        },
    },
}
"""Table 2 (``tab:randomconstraints``) with the standard errors of the appendix (``tab:randomconstraints_stderr``):
vector accuracy in per cent and training time in minutes, mean and standard error over ten datasets, for 1, 2, 4 and 8
true constraints."""

ORDER = ("comboptnet", "ilploss", "solver-negatives", "ilploss-plus, no cuts", "ilploss-plus")
"""Of our rows; methods that are not named here come last."""


def is_wanted(record: Record) -> bool:
    """Every run of the task."""
    return True


def result_table(records: Mapping[Path, Record]) -> ResultTable:
    """The paper's rows and ours, for each domain."""
    entries = [entry for path, record in checked(records, _setting).items() for entry in _entries(path, record)]
    numbers = {int(entry.column.removeprefix(COLUMN)) for entry in entries}
    columns = [_column(m) for m in sorted({*PAPER_CONSTRAINTS, *numbers})]
    title = "Random constraints (Table 2): vector accuracy and training time by the number m' of true constraints"
    paper = paper_table(PAPER_TABLE_2, [_column(m) for m in PAPER_CONSTRAINTS])
    return ResultTable(title, {ACCURACY: columns, MINUTES: columns}, rows_of(paper, entries, ORDER))


def as_json(table: ResultTable) -> dict[str, Any]:
    """The figures as they are, for other programs, by the number of constraints."""
    groups = {"vector_accuracy_percent": ACCURACY, "train_minutes": MINUTES}
    rows = rows_as_json(table.rows, groups, "domain", COLUMN)
    return {"task": TASK, "paper_table": "tab:randomconstraints", "rows": rows}


def _column(constraints: int) -> str:
    return f"{COLUMN}{constraints}"


def _setting(path: Path, record: Record) -> tuple[str, int, int]:
    setting = record["setting"]
    domain, constraints, dataset = (setting.get(key) for key in ("domain", "constraints", "dataset"))
    if not isinstance(domain, str) or type(constraints) is not int or type(dataset) is not int:
        raise FileFormatError(f"{path}: setting must hold domain, constraints and dataset, got {setting}")
    return domain, constraints, dataset


def _entries(path: Path, record: Record) -> list[Entry]:
    """One, or two for a method that also reports its accuracy without cuts."""
    domain, constraints, dataset = _setting(path, record)
    minutes = number(record, path, "train_seconds") / 60
    labels = {"test": record["method"]}
    if "test_without_cuts" in record:
        labels["test_without_cuts"] = f"{record['method']}, no cuts"
    return [
        Entry(
            label,
            domain,
            _column(constraints),
            dataset,
            {ACCURACY: 100 * number(record, path, part, "vector_accuracy", highest=1.0), MINUTES: minutes},
        )
        for part, label in labels.items()
    ]
