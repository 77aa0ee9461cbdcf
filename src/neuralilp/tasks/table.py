"""Tables of results: reading the records of runs, mean ± standard error, and printing beside the paper's figures."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuralilp.errors import FileFormatError, InputError
from neuralilp.training.record import read_record

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

RECORD_FILE = "record.json"
Record = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Figure:
    """A mean with its standard error, over ``count`` values; one value alone has no error."""

    mean: float
    error: float | None = None
    count: int | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Figure:
        """The standard error is the sample's standard deviation (n - 1 below the line) over √n."""
        if not values:
            raise InputError("values must not be empty")
        error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
        return cls(statistics.fmean(values), error, len(values))

    def text(self, *, digits: int = 1, with_count: bool = False) -> str:
        """``97.6 ± 0.4``, or ``97.6 ± 0.4 (5)`` with the count."""
        error = "" if self.error is None else f" ± {self.error:.{digits}f}"
        count = f" ({self.count})" if with_count and self.count is not None else ""
        return f"{self.mean:.{digits}f}{error}{count}"


@dataclasses.dataclass(frozen=True)
class Row:
    """Figures of a method in one section of a table: for each group of columns, by column."""

    section: str
    label: str
    figures: dict[str, dict[str, Figure]]
    is_ours: bool = True


@dataclasses.dataclass(frozen=True)
class ResultTable:
    """Sections of rows below groups of columns, as the paper prints them."""

    title: str
    groups: dict[str, list[str]]
    """The columns of each group, by the group's title."""
    rows: list[Row]
    note: str = ""
    """What to know about the figures, for the caption."""
    digits: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Behind the point, in groups where it is not one."""

    @property
    def counts(self) -> set[int | None]:
        figures = [f for row in self.rows if row.is_ours for group in row.figures.values() for f in group.values()]
        return {figure.count for figure in figures}

    def cells(self, row: Row, group: str) -> list[str]:
        """A cell without runs is a dash. The first group shows counts where ours are not the same everywhere."""
        with_count = row.is_ours and len(self.counts) > 1 and group == next(iter(self.groups))
        figures, digits = row.figures.get(group, {}), self.digits.get(group, 1)
        columns = self.groups[group]
        return [figures[c].text(digits=digits, with_count=with_count) if c in figures else "–" for c in columns]

    def caption(self, over: str) -> str:
        """What the figures are means over, and the note; ``over`` is a plural noun."""
        count = next(iter(self.counts), None)
        means = "" if count is None else f"Ours: mean ± standard error over {over}, {count} a cell."
        if len(self.counts) > 1:
            means = f"Mean ± standard error over {over}; how many {over} in brackets."
        return " ".join(filter(None, (means, self.note)))


def find_records(
    runs: Iterable[Path], task: str, is_wanted: Callable[[Record], bool] = lambda record: True
) -> dict[Path, Record]:
    """The records of ``task`` in run folders, record files, and folders that hold such at any depth, by path.

    Records of other tasks are skipped in folders, and an error where they are named themselves; those of the task that
    are not wanted in a table are skipped.
    """
    found: dict[Path, Record] = {}
    places = list(runs)
    for place in places:
        if not place.exists():
            raise FileFormatError(f"there is no run, record or folder {place}")
        for path in sorted(place.rglob(RECORD_FILE)) if place.is_dir() else [place]:
            record = read_record(path)
            if record["task"] == task:
                if is_wanted(record):
                    found[path.resolve()] = record
            elif path == place:
                raise InputError(f"{path} must be a record of {task}, got task {record['task']!r}")
    if not found:
        names = ", ".join(str(place) for place in places)
        raise FileFormatError(f"no {RECORD_FILE} of {task} for this table in {names or 'no folder at all'}")
    return found


def number(record: Record, path: Path, *keys: str, highest: float = math.inf) -> float:
    """``record[key][key]...``, which must be a number from 0 to ``highest``."""
    value: Any = record
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= highest:
        limit = f" from 0 to {highest:g}" if highest < math.inf else " of at least 0"
        raise FileFormatError(f"{path}: {'.'.join(keys)} must be a number{limit}, got {value!r}")
    return float(value)


def markdown(table: ResultTable) -> str:
    """One table, the groups side by side."""
    head = ["", ""] + [f"{group}, {column}" for group, columns in table.groups.items() for column in columns]
    lines = [head, ["---", "---"] + ["--:"] * (len(head) - 2)]
    last = None
    for row in table.rows:
        section = "" if row.section == last else row.section
        lines.append([section, row.label, *(cell for group in table.groups for cell in table.cells(row, group))])
        last = row.section
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def print_table(table: ResultTable, console: Console) -> None:
    """All groups side by side where the console is wide enough, else one below the other."""
    console.print(table.title, soft_wrap=True)
    whole = _rich(table, list(table.groups))
    wanted = console.measure(whole, options=console.options.update(width=10_000)).maximum
    parts = [whole] if wanted <= console.width else [_rich(table, [group]) for group in table.groups]
    console.print(*parts, sep="\n")


def _rich(table: ResultTable, groups: list[str]) -> Table:
    from rich import box
    from rich.table import Table

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    drawn.add_column("", no_wrap=True)
    drawn.add_column("", no_wrap=True)
    for group in groups:
        for column in table.groups[group]:
            drawn.add_column(f"{group}\n{column}", justify="right")
    last = None
    for row in table.rows:
        if row.section != last and last is not None:
            drawn.add_section()
        section = "" if row.section == last else row.section
        drawn.add_row(section, row.label, *(cell for group in groups for cell in table.cells(row, group)))
        last = row.section
    return drawn
