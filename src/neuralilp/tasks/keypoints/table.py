"""The paper's table of keypoints, with the runs at hand beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from neuralilp.errors import FileFormatError
from neuralilp.tasks.entries import ACCURACY, MINUTES, Entry, checked, paper_table, rows_as_json, rows_of
from neuralilp.tasks.table import Record, ResultTable, number

TASK = "keypoints"
COLUMN = "k = "
PERMUTATIONS = "permutations (%)"
PAPER = "SPair-71k"

PAPER_POINTS = (4, 5, 6, 7)
PAPER_TABLE_4 = {
    "Neural": {
        ACCURACY: ((80.88, 0.87), (78.04, 0.40), (75.39, 0.50), (73.49, 0.55)),
        MINUTES: ((148, 26), (37, 12), (30, 9), (40, 13)),
    },
    "Neural + CI": {
        ACCURACY: ((82.42, 0.55), (79.99, 0.16), (77.64, 0.25), (75.88, 0.43)),
        MINUTES: ((148, 26), (37, 12), (30, 9), (40, 13)),
    },
    "CombOptNet": {
        ACCURACY: ((83.86, 0.62), (81.43, 0.49), (78.88, 0.65), (76.85, 0.54)),
        MINUTES: ((41, 15), (67, 8), (144, 31), (279, 39)),
    },
    "ILP-Loss": {
        ACCURACY: ((81.76, 1.71), (79.59, 0.18), (77.84, 0.36), (76.18, 0.06)),
        MINUTES: ((115, 13), (92, 3), (106, 1), (109, 5)),
    },
    "ILP-Loss + Solver": {
        ACCURACY: ((84.64, 0.62), (81.27, 1.12), (79.51, 0.53), (78.59, 0.55)),
        MINUTES: ((43, 12), (73, 10), (99, 9), (174, 25)),
    },
}
"""Table 4 (``tab:keypoint``) with the standard errors of the appendix (``tab:keypoint_stderr``): pointwise accuracy in
per cent and training time in minutes, over three seeds. The table itself has 3 minutes where the appendix has 30."""

ORDER = ("neural", "neural-ci", "comboptnet", "ilploss", "ilploss-solver", "ilploss-plus")
"""Of our rows; methods that are not named here come last."""


def is_wanted(record: Record) -> bool:
    """Every run of the task."""
    return True


def result_table(records: Mapping[Path, Record]) -> ResultTable:
    """The paper's rows, on SPair-71k, and ours, by the images that they are on."""
    entries = [_entry(path, record) for path, record in checked(records, _setting).items()]
    numbers = {int(entry.column.removeprefix(COLUMN)) for entry in entries}
    columns = _columns(sorted({*PAPER_POINTS, *numbers}))
    title = "Keypoints (Table 4): pointwise accuracy and training time by the number k of points"
    others = sorted({entry.section for entry in entries} - {PAPER})
    note = (
        f"The data differ: the paper's figures are on {PAPER}, ours are on {', '.join(others)}, so they do not compare."
        if others
        else ""
    )
    groups = dict.fromkeys((ACCURACY, MINUTES, PERMUTATIONS), columns)
    paper = paper_table({PAPER: PAPER_TABLE_4}, _columns(PAPER_POINTS))
    return ResultTable(title, groups, rows_of(paper, entries, ORDER), note, {ACCURACY: 2})


def as_json(table: ResultTable) -> dict[str, Any]:
    """The figures as they are, for other programs, by the number of points."""
    groups = {
        "pointwise_accuracy_percent": ACCURACY,
        "train_minutes": MINUTES,
        "permutation_rate_percent": PERMUTATIONS,
    }
    rows = rows_as_json(table.rows, groups, "data", COLUMN)
    return {"task": TASK, "paper_table": "tab:keypoint", "note": table.note, "rows": rows}


def _columns(points: Iterable[int]) -> list[str]:
    return [f"{COLUMN}{each}" for each in points]


def _setting(path: Path, record: Record) -> tuple[str, int]:
    points, images = record["setting"].get("points"), record.get("images")
    if type(points) is not int or not isinstance(images, str):
        raise FileFormatError(
            f"{path}: setting must hold points, and images where they are from, got {points}, {images}"
        )
    return images.split(",")[0], points


def _entry(path: Path, record: Record) -> Entry:
    section, points = _setting(path, record)
    figures = {
        ACCURACY: 100 * number(record, path, "test", "pointwise_accuracy", highest=1.0),
        MINUTES: number(record, path, "train_seconds") / 60,
        PERMUTATIONS: 100 * number(record, path, "test", "permutation_rate", highest=1.0),
    }
    return Entry(record["method"], section, f"{COLUMN}{points}", record["seed"], figures)
