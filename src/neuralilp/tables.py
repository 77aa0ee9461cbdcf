"""Tables of numbers with named columns, as CSV or Parquet files; an error names the row and the column."""

from __future__ import annotations

import csv
import dataclasses
import importlib
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralilp.errors import BackendMissingError, FileFormatError, InputError
from neuralilp.files import written_whole

CSV, PARQUET = ".csv", ".parquet"
SUFFIXES = (CSV, PARQUET)


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """Rows of numbers under names of columns; numpy takes it as an array, and the estimator as a data frame."""

    names: tuple[str, ...]
    values: NDArray[np.float64]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype=dtype)

    def select(self, names: Sequence[str], source: str) -> Table:
        """The columns of these names in this order; ``source`` is where the table is from, for the error."""
        missing = [name for name in names if name not in self.names]
        if missing:
            raise FileFormatError(f"{source} has no column {missing[0]!r}; it has {', '.join(self.names)}")
        return Table(tuple(names), self.values[:, [self.names.index(name) for name in names]])


def read_table(path: Path, *, without: Sequence[str] = ()) -> Table:
    """A ``.csv`` file, whose first line names the columns, or a ``.parquet`` file.

    All entries must be finite numbers, but for the columns ``without``, which are left out.
    """
    names, rows = _read(path)
    for name in without:
        if name not in names:
            raise FileFormatError(f"{path} has no column {name!r} to leave out; it has {', '.join(names)}")
    kept = [place for place, name in enumerate(names) if name not in without]
    if not kept:
        raise FileFormatError(f"{path} has no columns" + (" beside those that are left out" if names else ""))
    values = np.array([[_number(path, line, names[j], row[j]) for j in kept] for line, row in rows])
    if not len(values):
        raise FileFormatError(f"{path} has no rows beside the names of its columns")
    return Table(tuple(names[j] for j in kept), values)


def column_names(path: Path) -> tuple[str, ...]:
    """Of a file that :func:`read_table` can read."""
    return tuple(_read(path)[0])


def write_table(path: Path, names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A CSV or Parquet file, whole or not at all; whole numbers are written as such and None as nothing."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"path must end in {' or '.join(SUFFIXES)}, got {path}")
    if not path.parent.is_dir():
        raise InputError(f"path must lie in a folder that exists, got {path}")
    with written_whole(path) as part:
        if path.suffix.lower() == PARQUET:
            pyarrow, parquet = _pyarrow()
            columns = list(zip(*rows, strict=True)) or [()] * len(names)
            parquet.write_table(
                pyarrow.table({name: list(each) for name, each in zip(names, columns, strict=True)}), part
            )
            return
        with part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(names)
            writer.writerows([_text(entry) for entry in row] for row in rows)


def _text(entry: object) -> object:
    if isinstance(entry, float):
        return int(entry) if entry.is_integer() else repr(entry)
    return entry


def _read(path: Path) -> tuple[list[str], list[tuple[int, list[Any]]]]:
    if path.suffix.lower() not in SUFFIXES:
        raise FileFormatError(f"{path} must end in {' or '.join(SUFFIXES)}")
    if not path.is_file():
        raise FileFormatError(f"there is no file {path}")
    return _read_csv(path) if path.suffix.lower() == CSV else _read_parquet(path)


def _read_csv(path: Path) -> tuple[list[str], list[tuple[int, list[Any]]]]:
    """Names, and the lines that are not blank with their numbers, counted from 1."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            lines = [(reader.line_num, [entry.strip() for entry in line]) for line in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(f"{path} cannot be read as a CSV file: {error}") from None
    lines = [(number, line) for number, line in lines if any(line)]
    if not lines:
        raise FileFormatError(f"{path} is empty")
    names = lines[0][1]
    _check_names(path, names)
    for number, line in lines[1:]:
        if len(line) != len(names):
            raise FileFormatError(f"{path}: row {number} has {len(line)} entries, and there are {len(names)} columns")
    return names, lines[1:]


def _check_names(path: Path, names: Sequence[str]) -> None:
    if "" in names:
        raise FileFormatError(f"{path}: column {names.index('') + 1} has no name in the first line")
    if len(names) == 1 and any(mark in names[0] for mark in ";\t"):
        raise FileFormatError(f"{path}: columns must be separated by commas, got the first line {names[0]!r}")
    if all(_is_number(name) for name in names):
        raise FileFormatError(f"{path}: the first line must name the columns, got numbers: {', '.join(names[:5])}")
    doubles = [name for name in names if names.count(name) > 1]
    if doubles:
        raise FileFormatError(f"{path}: two columns are named {doubles[0]!r}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_parquet(path: Path) -> tuple[list[str], list[tuple[int, list[Any]]]]:
    pyarrow, parquet = _pyarrow()
    try:
        table = parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise FileFormatError(f"{path} cannot be read as a Parquet file: {error}") from None
    names = [str(name) for name in table.column_names]
    if len(names) > len(set(names)):
        raise FileFormatError(f"{path}: two columns have the same name")
    columns = [column.to_pylist() for column in table.columns]
    return names, [(number, list(row)) for number, row in enumerate(zip(*columns, strict=True), 1)]


def _pyarrow() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise BackendMissingError(
            "Parquet files need the package pyarrow: pip install 'neuralilp[parquet]', or use CSV"
        ) from None


def _number(path: Path, row: int, name: str, entry: object) -> float:
    try:
        number = float(entry)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        what = "nothing" if entry in (None, "") else repr(entry)
        raise FileFormatError(f"{path}: row {row}, column {name!r} must be a number, got {what}") from None
    if not math.isfinite(number):
        raise FileFormatError(f"{path}: row {row}, column {name!r} must be finite, got {entry}")
    return number
