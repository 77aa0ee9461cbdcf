"""The learning curve of sudoku: how good the answers and the rules are by the number of solved boards learnt from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neuralilp.errors import FileFormatError
from neuralilp.tasks.entries import ACCURACY, Entry, checked, rows_as_json, rows_of
from neuralilp.tasks.sudoku.table import GRIDS, ORDER, TASK, column_of, setting_of
from neuralilp.tasks.table import Record, ResultTable, number

RECOVERED = "true rules found (%)"

__all__ = ["TASK", "as_json", "is_wanted", "result_table"]


def is_wanted(record: Record) -> bool:
    """Runs with a number of boards."""
    return GRIDS in record["setting"]


def result_table(records: Mapping[Path, Record]) -> ResultTable:
    """A section for each size and input, a row a method, a column a number of boards."""
    entries = [_entry(path, record) for path, record in checked(records, _setting).items()]
    names = [f"{count:,}" for count in sorted({_setting(path, record)[-1] for path, record in records.items()})]
    title = "Sudoku: board accuracy by the number of boards learnt from"
    return ResultTable(title, {ACCURACY: names, RECOVERED: names}, rows_of({}, entries, ORDER))


def as_json(table: ResultTable) -> dict[str, Any]:
    """The figures as they are, for other programs, by the number of boards."""
    groups = {"board_accuracy_percent": ACCURACY, "true_rules_percent": RECOVERED}
    return {"task": TASK, "rows": rows_as_json(table.rows, groups, "boards")}


def _setting(path: Path, record: Record) -> tuple[int, str, str, int]:
    grids = record["setting"].get(GRIDS)
    if type(grids) is not int or grids < 1:
        raise FileFormatError(f"{path}: setting.{GRIDS} must be a positive whole number, got {grids!r}")
    return *setting_of(path, record), grids


def _entry(path: Path, record: Record) -> Entry:
    size, boxes, kind, grids = _setting(path, record)
    figures = {ACCURACY: 100 * number(record, path, "test", "board_accuracy", highest=1.0)}
    if "has_true_rules" in record:
        figures[RECOVERED] = 100.0 * bool(record["has_true_rules"])
    section, seed = f"{column_of(size)}, {kind}", record["seed"]
    return Entry(record["method"], section, f"{grids:,}", (boxes, seed), figures)
