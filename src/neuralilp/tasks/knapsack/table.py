"""The paper's table of the knapsack, with the runs at hand beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from neuralilp.errors import FileFormatError
from neuralilp.tasks.entries import ACCURACY, MINUTES, Entry, checked, paper_table, rows_as_json, rows_of
from neuralilp.tasks.table import Record, ResultTable, number

TASK = "knapsack"
COLUMN = "N = "
FITS, GAP = "fits (%)", "short of the best (%)"

PAPER_ITEMS = (10, 15, 20, 25, 30)
PAPER_TABLE_3: dict[str, dict[str, tuple[tuple[float, float], ...]]] = {
    "CombOptNet": {
        ACCURACY: ((63.2, 0.6), (48.2, 0.4), (30.1, 1.0), (2.6, 0.3), (0.0, 0.0)),
        MINUTES: ((41.0, 4.1), (61.4, 4.6), (153.0, 8.8)),
    },
    "ILP-Loss": {
        ACCURACY: ((71.4, 0.4), (58.5, 0.3), (48.7, 0.7), (41.0, 0.5), (28.4, 0.7)),
        MINUTES: ((44.0, 5.7), (51.0, 7.9), (82.2, 9.8), (106.1, 7.7), (111.6, 11.0)),
    },
}
"""Table 3 (``tab:knapsack``) with the standard errors of the appendix (``tab:knapsack_stderr``): vector accuracy in per
cent and training time in minutes, over ten seeds. CombOptNet was cut off at 12 hours for N = 25 and 30."""

ORDER = ("mlp", "comboptnet", "ilploss", "solver-negatives", "ilploss-plus", "two-stage")
"""Of our rows; methods that are not named here come last."""

SECTION = "generated"
PUBLISHED = "published"


def is_wanted(record: Record) -> bool:
    """Every run of the task."""
    return True


def result_table(records: Mapping[Path, Record]) -> ResultTable:
    """The paper's rows, on the published sentences, and ours, on those or on generated ones."""
    entries = [_entry(path, record) for path, record in checked(records, _setting).items()]
    numbers = {int(entry.column.removeprefix(COLUMN)) for entry in entries}
    columns = _columns(sorted({*PAPER_ITEMS, *numbers}))
    title = "Knapsack (Table 3): vector accuracy and training time by the number N of items"
    groups = dict.fromkeys((ACCURACY, MINUTES, FITS, GAP), columns)
    paper = paper_table({PUBLISHED: PAPER_TABLE_3}, _columns(PAPER_ITEMS))
    return ResultTable(title, groups, rows_of(paper, entries, ORDER))


def as_json(table: ResultTable) -> dict[str, Any]:
    """The figures as they are, for other programs, by the number of items."""
    groups = {
        "vector_accuracy_percent": ACCURACY,
        "train_minutes": MINUTES,
        "feasibility_percent": FITS,
        "cost_gap_percent": GAP,
    }
    return {"task": TASK, "paper_table": "tab:knapsack", "rows": rows_as_json(table.rows, groups, "data", COLUMN)}


def _columns(items: Iterable[int]) -> list[str]:
    return [f"{COLUMN}{each}" for each in items]


def _setting(path: Path, record: Record) -> tuple[str, int]:
    items, source = record["setting"].get("items"), record.get("sentences")
    if type(items) is not int or not isinstance(source, str):
        raise FileFormatError(
            f"{path}: setting must hold items, and sentences where they are from, got {items}, {source}"
        )
    return PUBLISHED if source.startswith(PUBLISHED) else SECTION, items


def _entry(path: Path, record: Record) -> Entry:
    section, items = _setting(path, record)
    figures = {
        ACCURACY: 100 * number(record, path, "test", "vector_accuracy", highest=1.0),
        MINUTES: number(record, path, "train_seconds") / 60,
    }
    for group, name in ((FITS, "feasibility"), (GAP, "cost_gap")):
        if name in record["test"]:
            figures[group] = 100 * number(record, path, "test", name, highest=1.0)
    return Entry(record["method"], section, f"{COLUMN}{items}", record["seed"], figures)
