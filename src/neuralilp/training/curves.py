"""The curves of a run: a row a validation in ``curves.csv``, the same in TensorBoard's files, and a picture."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from neuralilp.errors import FileFormatError, InputError
from neuralilp.files import part_of, write_whole, written_whole

if TYPE_CHECKING:
    from lightning_fabric.loggers.tensorboard import TensorBoardLogger
    from matplotlib.axes import Axes

CSV, PNG, TENSORBOARD = "curves.csv", "curves.png", "tensorboard"
TRAIN, VALIDATION = "train/", "validation/"
"""Before the names of loss terms and of validation figures."""
TIMED = ("train_seconds", "validation_seconds")
"""The columns that differ from run to run of the same seed."""

Row = Mapping[str, float]


class Curves:
    """Appends rows. A resumed run first goes back to the rows that its checkpoint knows of."""

    def __init__(self, folder: Path, *, tensorboard: bool = True, picture: bool = True) -> None:
        self.folder = folder
        self.path = folder / CSV
        self.has_tensorboard = tensorboard
        self.has_picture = picture
        self._columns: list[str] | None = None
        self._logger: TensorBoardLogger | None = None
        self._purge: int | None = None

    def go_back(self, rows: int, steps: int) -> None:
        """Keep the first ``rows`` rows, and of TensorBoard's points those up to ``steps``."""
        self._purge = steps + 1
        if not self.path.exists() and rows == 0:
            return
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True) if self.path.exists() else []
        if len(lines) < rows + 1 and rows:
            raise FileFormatError(f"{self.path} should hold {rows} rows, as the checkpoint says, got {len(lines) - 1}")
        if rows == 0:
            self.path.unlink()
            return
        self._columns = next(csv.reader(lines[:1]))
        if len(lines) > rows + 1:
            write_whole(self.path, "".join(lines[: rows + 1]).encode())

    def append(self, row: Row) -> None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if self._columns is None:
            self._columns = list(row)
            writer.writerow(self._columns)
        if list(row) != self._columns:
            differing = sorted(set(row) ^ set(self._columns)) or list(row)
            raise InputError(f"every validation must give the same figures in the same order: look at {differing}")
        writer.writerow(row.values())
        with self.path.open("ab") as file:
            file.write(text.getvalue().encode())
            file.flush()
            os.fsync(file.fileno())
        if self.has_tensorboard:
            self._log(row)

    def draw(self) -> None:
        if self.has_picture and self.path.exists():
            draw_curves(read_curves(self.path), self.folder / PNG)

    def close(self) -> None:
        if self._logger is not None:
            self._logger.finalize("success")
            self._logger = None

    def _log(self, row: Row) -> None:
        if self._logger is None:
            from lightning_fabric.loggers.tensorboard import TensorBoardLogger  # slow to import

            self._logger = TensorBoardLogger(self.folder, TENSORBOARD, "", purge_step=self._purge)
        self._logger.log_metrics({k: v for k, v in row.items() if k != "steps"}, int(row["steps"]))
        self._logger.save()


def read_curves(path: str | os.PathLike[str]) -> list[dict[str, float]]:
    """The rows of a ``curves.csv``."""
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file, strict=True)]
    except (OSError, ValueError, TypeError, csv.Error) as error:
        raise FileFormatError(f"{path} cannot be read as curves: {error}") from None


def draw_curves(rows: Sequence[Row], path: Path) -> None:
    """Loss terms, validation figures that are shares, and temperature with learning rate, over the epochs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 9))
    losses, figures, settings = figure.subplots(3, 1, sharex=True)
    figure.subplots_adjust(left=0.1, right=0.76, bottom=0.06, top=0.98, hspace=0.08)
    names = [name for name in rows[0] if "/" in name]
    _lines(losses, rows, [name for name in names if name.startswith(TRAIN)], "means over the steps")
    shares = [name for name in names if name.startswith(VALIDATION) and not any(row[name] > 1 for row in rows)]
    _lines(figures, rows, shares, "validation")
    _lines(settings, rows, ["temperature", "lr"], "settings")
    # Terms and temperatures fall by orders of magnitude, and may reach zero.
    losses.set_yscale("symlog", linthresh=1e-4)
    settings.set_yscale("symlog", linthresh=1e-6)
    settings.set_xlabel("epoch")
    with written_whole(path, part_of(path)) as part:
        figure.savefig(part, dpi=100)


def _lines(axes: Axes, rows: Sequence[Row], names: Sequence[str], label: str) -> None:
    marker = "o" if len(rows) < 30 else None
    for name in names:
        short = name.partition("/")[2] or name
        axes.plot([row["epoch"] for row in rows], [row[name] for row in rows], marker=marker, ms=3, label=short)
    axes.set_ylabel(label)
    axes.grid(alpha=0.3)
    if names:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
