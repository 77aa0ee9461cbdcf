"""From the records of runs to the rows of a table: each run once, on the same data, means over seeds and datasets."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from neuralilp.errors import InputError
from neuralilp.tasks.table import Figure, Record, Row

ACCURACY, MINUTES = "accuracy (%)", "time (min)"

Setting = tuple[Hashable, ...]
"""What tells one data set of a task from another: a tuple that reads well with slashes in between."""

PaperTable = Mapping[str, Mapping[str, dict[str, dict[str, Figure]]]]
"""The paper's figures by section, method, group and column."""


Printed = float | tuple[float, float]
"""A figure as the paper prints it: a mean, or a mean and its standard error."""


def paper_table(
    figures: Mapping[str, Mapping[str, Mapping[str, Sequence[Printed]]]], columns: Sequence[str]
) -> PaperTable:
    """The paper's figures by section, method and group, one for each of the first columns."""
    return {
        section: {
            method: {
                group: {
                    column: Figure(*value) if isinstance(value, tuple) else Figure(value)
                    for column, value in zip(columns, values, strict=False)
                }
                for group, values in groups.items()
            }
            for method, groups in methods.items()
        }
        for section, methods in figures.items()
    }


@dataclasses.dataclass(frozen=True)
class Entry:
    """What a table needs of one record, under one label."""

    label: str
    section: str
    column: str
    dataset: Hashable
    """What a cell is the mean over. Runs with the same, such as other seeds of it, are averaged first."""
    figures: dict[str, float]
    """One for each group of columns."""


def checked(records: Mapping[Path, Record], setting_of: Callable[[Path, Record], Setting]) -> dict[Path, Record]:
    """Each run once. Raise where records of one setting saw different data, or one run has two records that differ."""
    data: dict[Setting, Path] = {}
    runs: dict[Setting, Path] = {}
    for path, record in records.items():
        setting = setting_of(path, record)
        name = "/".join(str(part) for part in setting)
        earlier = data.setdefault(setting, path)
        if records[earlier]["data_fingerprint"] != record["data_fingerprint"]:
            raise InputError(f"RUNS must agree on the data of {name}: {earlier} and {path} have different fingerprints")
        earlier = runs.setdefault((record["method"], record["seed"], *setting), path)
        if records[earlier] != record:
            raise InputError(
                f"RUNS must hold each run once: {earlier} and {path} differ, and both are {record['method']} on "
                f"{name} with seed {record['seed']}"
            )
    return {path: records[path] for path in runs.values()}


def rows_of(paper: PaperTable, entries: Iterable[Entry], order: Sequence[str]) -> list[Row]:
    """For each section the paper's rows, then ours: those in ``order``, then others by name."""
    entries = list(entries)
    rows = []
    for section in [*paper, *sorted({entry.section for entry in entries} - set(paper))]:
        for method, groups in paper.get(section, {}).items():
            rows.append(Row(section, f"{method} (paper)", groups, is_ours=False))
        ours = [entry for entry in entries if entry.section == section]
        for label in sorted({entry.label for entry in ours}, key=lambda label: _position(label, order)):
            rows.append(_our_row(section, label, [entry for entry in ours if entry.label == label]))
    return rows


def rows_as_json(
    rows: Iterable[Row], groups: Mapping[str, str], section: str, prefix: str = ""
) -> list[dict[str, Any]]:
    """The figures as they are, for other programs: ``groups`` names those of the table, columns lose a ``prefix``."""
    return [
        {
            section: row.section,
            "method": row.label,
            "is_ours": row.is_ours,
            **{
                name: {
                    column.removeprefix(prefix): dataclasses.asdict(figure)
                    for column, figure in row.figures.get(group, {}).items()
                }
                for name, group in groups.items()
            },
        }
        for row in rows
    ]


def _our_row(section: str, label: str, entries: Sequence[Entry]) -> Row:
    """Means over datasets, each of which is a mean over seeds."""
    figures: dict[str, dict[str, Figure]] = {}
    for column in dict.fromkeys(entry.column for entry in entries):
        by_dataset = defaultdict(list)
        for entry in entries:
            if entry.column == column:
                by_dataset[entry.dataset].append(entry.figures)
        for group in entries[0].figures:
            means = [Figure.of([figures[group] for figures in same]).mean for same in by_dataset.values()]
            figures.setdefault(group, {})[column] = Figure.of(means)
    return Row(section, label, figures)


def _position(label: str, order: Sequence[str]) -> tuple[int, str]:
    return (order.index(label) if label in order else len(order), label)
