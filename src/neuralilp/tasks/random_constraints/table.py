"""The paper's table of random constraints, with the runs at hand beside it."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neuralilp.errors import FileFormatError, InputError
from neuralilp.tasks.table import Figure, Record, ResultTable, Row, number

TASK = "random-constraints"
ACCURACY, MINUTES = "accuracy (%)", "time (min)"
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


@dataclasses.dataclass(frozen=True)
class Run:
    """What the table needs of one record, under one label."""

    label: str
    domain: str
    constraints: int
    dataset: int
    accuracy: float
    minutes: float


def result_table(records: Mapping[Path, Record]) -> ResultTable:
    """The paper's rows and ours, for each domain; ours are means over datasets, each of which is a mean over seeds."""
    _check_data(records)
    runs = [run for path, record in _distinct(records).items() for run in _runs(path, record)]
    domains = sorted(PAPER_TABLE_2) + sorted({run.domain for run in runs} - set(PAPER_TABLE_2))
    constraints = sorted({*PAPER_CONSTRAINTS, *(run.constraints for run in runs)})
    rows = []
    for domain in domains:
        rows += _paper_rows(domain)
        of_domain = [run for run in runs if run.domain == domain]
        for label in sorted({run.label for run in of_domain}, key=_position):
            rows.append(_our_row(domain, label, [run for run in of_domain if run.label == label]))
    columns = [_column(m) for m in constraints]
    title = "Random constraints (Table 2): vector accuracy and training time by the number m' of true constraints"
    return ResultTable(title, {ACCURACY: columns, MINUTES: columns}, rows)


def as_json(table: ResultTable) -> dict[str, Any]:
    """The figures as they are, for other programs, by the number of constraints."""
    names = {"vector_accuracy_percent": ACCURACY, "train_minutes": MINUTES}
    rows = []
    for row in table.rows:
        figures = {
            name: {column.removeprefix(COLUMN): dataclasses.asdict(f) for column, f in row.figures[group].items()}
            for name, group in names.items()
        }
        rows.append({"domain": row.section, "method": row.label, "is_ours": row.is_ours, **figures})
    return {"task": TASK, "paper_table": "tab:randomconstraints", "rows": rows}


def _column(constraints: int) -> str:
    return f"{COLUMN}{constraints}"


def _position(label: str) -> tuple[int, str]:
    return (ORDER.index(label) if label in ORDER else len(ORDER), label)


def _paper_rows(domain: str) -> list[Row]:
    rows = []
    for method, groups in PAPER_TABLE_2.get(domain, {}).items():
        figures = {
            group: {_column(m): Figure(*figure) for m, figure in zip(PAPER_CONSTRAINTS, values, strict=True)}
            for group, values in groups.items()
        }
        rows.append(Row(domain, f"{method} (paper)", figures, is_ours=False))
    return rows


def _our_row(domain: str, label: str, runs: list[Run]) -> Row:
    figures: dict[str, dict[str, Figure]] = {ACCURACY: {}, MINUTES: {}}
    for constraints in sorted({run.constraints for run in runs}):
        by_dataset = defaultdict(list)
        for run in runs:
            if run.constraints == constraints:
                by_dataset[run.dataset].append(run)
        for group, values in (
            (ACCURACY, [Figure.of([100 * run.accuracy for run in same]).mean for same in by_dataset.values()]),
            (MINUTES, [Figure.of([run.minutes for run in same]).mean for same in by_dataset.values()]),
        ):
            figures[group][_column(constraints)] = Figure.of(values)
    return Row(domain, label, figures)


def _distinct(records: Mapping[Path, Record]) -> dict[Path, Record]:
    """Each run once: copies of a record count as one, two different runs of one setting are an error."""
    first: dict[tuple[Any, ...], Path] = {}
    for path, record in records.items():
        key = (record["method"], record["seed"], *_setting(path, record))
        earlier = first.setdefault(key, path)
        if records[earlier] != record:
            method, seed, domain, constraints, dataset = key
            raise InputError(
                f"RUNS must hold each run once: {earlier} and {path} differ, and both are {method} on "
                f"{domain}/{constraints}/{dataset} with seed {seed}"
            )
    return {path: records[path] for path in first.values()}


def _setting(path: Path, record: Record) -> tuple[str, int, int]:
    setting = record["setting"]
    domain, constraints, dataset = (setting.get(key) for key in ("domain", "constraints", "dataset"))
    if not isinstance(domain, str) or type(constraints) is not int or type(dataset) is not int:
        raise FileFormatError(f"{path}: setting must hold domain, constraints and dataset, got {setting}")
    return domain, constraints, dataset


def _check_data(records: Mapping[Path, Record]) -> None:
    """Raise where records of one dataset saw different data: their figures do not belong in one table."""
    first: dict[tuple[str, int, int], Path] = {}
    for path, record in records.items():
        setting = _setting(path, record)
        earlier = first.setdefault(setting, path)
        if records[earlier]["data_fingerprint"] != record["data_fingerprint"]:
            name = "/".join(str(part) for part in setting)
            raise InputError(f"RUNS must agree on the data of {name}: {earlier} and {path} have different fingerprints")


def _runs(path: Path, record: Record) -> list[Run]:
    """One run, or two for a method that also reports its accuracy without cuts."""
    minutes = number(record, path, "train_seconds") / 60
    labels = {"test": record["method"]}
    if "test_without_cuts" in record:
        labels["test_without_cuts"] = f"{record['method']}, no cuts"
    return [
        Run(label, *_setting(path, record), number(record, path, part, "vector_accuracy", highest=1.0), minutes)
        for part, label in labels.items()
    ]
