"""The paper's table of sudoku, with the runs at hand beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neuralilp.errors import FileFormatError
from neuralilp.tasks.entries import ACCURACY, MINUTES, Entry, checked, paper_table, rows_as_json, rows_of
from neuralilp.tasks.sudoku.digits import MNIST
from neuralilp.tasks.table import Record, ResultTable, number

TASK = "sudoku"
GRIDS = "grids"
"""In the setting of a run for the learning curve: the boards that it learns from."""

PAPER_SIZES = (4, 6, 9)
PAPER_TABLE_1: dict[str, dict[str, dict[str, tuple[float, ...]]]] = {
    "symbolic": {
        "RRN": {ACCURACY: (100.0, 99.1, 91.3), MINUTES: (5, 7, 110)},
        "CombOptNet": {ACCURACY: (0.0, 0.0, 0.0), MINUTES: ()},
        "SATNet": {ACCURACY: (100.0, 96.8, 28.5), MINUTES: (1, 74, 299)},
        "ILP-Loss": {ACCURACY: (100.0, 100.0, 100.0), MINUTES: (1, 2, 52)},
    },
    "visual": {
        "RRN": {ACCURACY: (99.8, 97.5, 71.1), MINUTES: (120, 65, 97)},
        "CombOptNet": {ACCURACY: (0.0, 0.0, 0.0), MINUTES: ()},
        "SATNet": {ACCURACY: (98.0, 80.8, 17.8), MINUTES: (79, 89, 205)},
        "ILP-Loss": {ACCURACY: (99.7, 98.8, 98.3), MINUTES: (3, 11, 92)},
    },
}
"""Table 1 (``tab:sudoku``): board accuracy in per cent and training time in minutes. CombOptNet ran out of 12 hours."""

ORDER = ("neural", "rrn", "comboptnet", "satnet", "ilploss", "ilploss-plus")
"""Of our rows; methods that are not named here come last."""


def is_wanted(record: Record) -> bool:
    """Runs on all boards."""
    return GRIDS not in record["setting"]


def result_table(records: Mapping[Path, Record]) -> ResultTable:
    """The paper's rows and ours, for symbolic and for visual boards."""
    entries = [_entry(path, record) for path, record in checked(records, setting_of).items()]
    sizes = {setting_of(path, record)[0] for path, record in records.items()}
    names = dict.fromkeys([*(column_of(size) for size in PAPER_SIZES), *(column_of(size) for size in sorted(sizes))])
    title = "Sudoku (Table 1): board accuracy and training time by the size of the board"
    paper = paper_table(PAPER_TABLE_1, [column_of(size) for size in PAPER_SIZES])
    return ResultTable(title, {ACCURACY: list(names), MINUTES: list(names)}, rows_of(paper, entries, ORDER))


def as_json(table: ResultTable) -> dict[str, Any]:
    """The figures as they are, for other programs, by the size of the board."""
    groups = {"board_accuracy_percent": ACCURACY, "train_minutes": MINUTES}
    return {"task": TASK, "paper_table": "tab:sudoku", "rows": rows_as_json(table.rows, groups, "input")}


def column_of(size: int) -> str:
    return f"{size}x{size}"


def setting_of(path: Path, record: Record) -> tuple[int, str, str]:
    setting = record["setting"]
    size, boxes, kind = (setting.get(key) for key in ("size", "boxes", "input"))
    if type(size) is not int or not isinstance(boxes, str) or kind not in PAPER_TABLE_1:
        raise FileFormatError(f"{path}: setting must hold size, boxes and input, got {setting}")
    digits = str(record.get("digits", MNIST))
    return size, boxes, kind if digits.startswith(MNIST) else f"{kind}, {digits}"


def _entry(path: Path, record: Record) -> Entry:
    size, boxes, kind = setting_of(path, record)
    accuracy = 100 * number(record, path, "test", "board_accuracy", highest=1.0)
    minutes = number(record, path, "train_seconds") / 60
    return Entry(
        record["method"], kind, column_of(size), (boxes, record["seed"]), {ACCURACY: accuracy, MINUTES: minutes}
    )
