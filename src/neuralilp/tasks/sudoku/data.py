"""Puzzles with their solutions: generated, or in the public CSV format (``quizzes,solutions``)."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int8
from torch import Tensor

from neuralilp.errors import FileFormatError, InputError, ShapeError
from neuralilp.files import check_new, write_to_disk, written_whole
from neuralilp.tasks.sudoku.boards import Boxes, agrees, as_boards, is_solved
from neuralilp.tasks.sudoku.grids import random_grids
from neuralilp.tasks.sudoku.puzzles import random_puzzles
from neuralilp.training.record import fingerprint

SIZES = (10_000, 100, 1_000)
"""Boards for training, validation and the test in the paper."""

COUNT = sum(SIZES)
SEED = 0
"""Of the boards that are generated where there is no file."""

ENOUGH = 0.9
"""Share of the boards for training and validation that must be left without those whose solution is in the test."""

SPARE = 1000
"""Grids drawn in addition where some repeat."""

HEADER = b"quizzes,solutions"
DIGITS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
ILLEGAL = 127


class Puzzles(NamedTuple):
    quizzes: Int8[Tensor, "board row column"]
    solutions: Int8[Tensor, "board row column"]


class SudokuSplit(NamedTuple):
    train: Puzzles
    validation: Puzzles
    test: Puzzles
    solutions_seen: int
    """Boards of the test whose solution is also that of a board of training or validation."""
    quizzes_seen: int
    """Those of them that are in training or validation as they are, quiz and solution."""


@dataclasses.dataclass(frozen=True, eq=False)
class SudokuData:
    """Quizzes (0 for a blank) and their solutions, checked against the rules and each other."""

    name: str
    quizzes: Int8[Tensor, "board row column"]
    solutions: Int8[Tensor, "board row column"]
    boxes: Boxes
    source: str
    """Where the boards come from, for the record of a run."""

    def __post_init__(self) -> None:
        for name in ("quizzes", "solutions"):
            object.__setattr__(self, name, as_boards(getattr(self, name), self.boxes, name))
        if len(self.quizzes) != len(self.solutions):
            raise ShapeError(f"there must be one solution a quiz, got {len(self.solutions)} for {len(self.quizzes)}")
        fault = _first_fault(self.quizzes, self.solutions, self.boxes)
        if fault is not None:
            raise InputError(f"board {fault[0]}: {fault[1]}")

    def __len__(self) -> int:
        return len(self.quizzes)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Depends on what is learnt from and tested on, not on the name or the file."""
        boxes = torch.tensor([self.boxes.rows, self.boxes.columns])
        return fingerprint([self.quizzes, self.solutions, boxes])

    def split(self, train: int | None = None, validation: int | None = None, test: int | None = None) -> SudokuSplit:
        """The last ``test`` boards for the test, the ``validation`` before them, and the first ``train``.

        By default the paper's 10,000 / 100 / 1,000, in proportion where there are fewer boards. Boards whose solution
        is in the test are left out of the others, where enough remain; else they stay and are counted.
        """
        share = min(len(self) / COUNT, 1)
        num_test = max(round(SIZES[2] * share), 1) if test is None else test
        num_validation = max(round(SIZES[1] * share), 1) if validation is None else validation
        pool = len(self) - num_test
        num_train = max(min(pool - num_validation, SIZES[0]), 1) if train is None else train
        if min(num_train, num_validation, num_test) < 1 or num_train + num_validation > pool:
            raise InputError(
                f"train, validation and test must be positive and at most {len(self)} together, "
                f"got {num_train}, {num_validation} and {num_test}"
            )
        tested = set(_keys(self.solutions[pool:]))
        is_tested = torch.tensor([key in tested for key in _keys(self.solutions[:pool])])
        usable = (~is_tested).nonzero().flatten()
        if train is None and len(usable) >= ENOUGH * (num_train + num_validation):
            num_train = min(num_train, len(usable) - num_validation)
        if num_train < 1 or len(usable) < num_train + num_validation:
            usable = torch.arange(pool)
        parts = (usable[:num_train], usable[-num_validation:], torch.arange(pool, len(self)))
        chosen = [Puzzles(self.quizzes[part], self.solutions[part]) for part in parts]
        solutions_seen, quizzes_seen = (
            _count_seen([part[which] for part in chosen[:2]], chosen[2][which]) for which in (1, 0)
        )
        return SudokuSplit(chosen[0], chosen[1], chosen[2], solutions_seen, quizzes_seen)


def generate(boxes: Boxes, count: int = COUNT, seed: int = SEED) -> SudokuData:
    """New puzzles of so many different grids, or as many different ones as there are at 4x4."""
    if count < 1:
        raise InputError(f"count must be positive, got {count}")
    generator = torch.Generator().manual_seed(seed)
    solutions = _distinct_grids(count, boxes, generator)
    quizzes = random_puzzles(solutions, boxes, generator)
    return SudokuData(board_name(boxes), quizzes, solutions, boxes, source=f"generated, {count} boards of seed {seed}")


def board_name(boxes: Boxes) -> str:
    """``9x9``, or ``6x6_3x2`` where the boxes are not the usual ones of the size."""
    name = f"{boxes.size}x{boxes.size}"
    return name if boxes == Boxes.of_size(boxes.size) else f"{name}_{boxes}"


def boards_path(folder: Path, boxes: Boxes) -> Path:
    """``folder/sudoku/9x9.csv``"""
    return folder / "sudoku" / f"{board_name(boxes)}.csv"


def load(folder: Path, boxes: Boxes, boards: Path | None = None) -> SudokuData:
    """The boards of a file, else those in the data folder, else new ones, written there if it can be written to."""
    if boards is not None:
        return read_csv(boards, boxes)
    path = boards_path(folder, boxes)
    if path.is_file():
        return read_csv(path, boxes)
    made = generate(boxes)
    with contextlib.suppress(OSError, InputError):  # a folder to read only, or another process was first
        write_csv(made, path)
    return made


def read_csv(path: Path, boxes: Boxes | None = None) -> SudokuData:
    """Puzzles out of a file: a header, then a quiz and its solution a line, k² digits each, 0 for a blank.

    Digits above 9 are the letters from A on. Without ``boxes`` they are the usual ones of the size.
    """
    lines = _read_lines(path)
    size = len(lines[0].split(b",")[0])
    if boxes is None:
        try:
            boxes = Boxes.of_size(math.isqrt(size)) if math.isqrt(size) ** 2 == size else None
        except InputError:
            boxes = None
    if boxes is None:
        raise FileFormatError(f"{path}, line 2: no sudoku has {size} cells: 4x4 has 16, 6x6 has 36, 9x9 has 81")
    cells = boxes.size**2
    text = np.frombuffer(b"".join(_checked(lines, cells, path)), np.uint8).reshape(len(lines), -1)
    table = np.full(256, ILLEGAL, np.int8)
    table[list(DIGITS[: boxes.size + 1])] = range(boxes.size + 1)
    fields = {"quizzes": text[:, :cells], "solutions": text[:, cells + 1 :]}
    boards = {}
    for name, field in fields.items():
        digits = table[field]
        is_bad = (digits == ILLEGAL) | ((digits == 0) & (name == "solutions"))
        if is_bad.any():
            line, cell = np.argwhere(is_bad)[0].tolist()
            expected = f"{'' if name == 'solutions' else '0 or '}1 to {chr(DIGITS[boxes.size])}"
            raise FileFormatError(
                f"{path}, line {line + 2}: {name} has {chr(field[line, cell])!r} in row {cell // boxes.size + 1}, "
                f"column {cell % boxes.size + 1}, expected {expected}"
            )
        boards[name] = torch.from_numpy(digits).view(-1, boxes.size, boxes.size)
    fault = _first_fault(**boards, boxes=boxes)
    if fault is not None:
        raise FileFormatError(f"{path}, line {fault[0] + 2}: {fault[1]}")
    return SudokuData(path.stem, **boards, boxes=boxes, source=f"file {path.name}")


def write_csv(data: SudokuData, path: Path) -> Path:
    """Write puzzles for :func:`read_csv`, whole or not at all. An existing file is never replaced."""
    check_new(path)
    letters = np.frombuffer(DIGITS, np.uint8)
    quizzes, solutions = (letters[boards.flatten(1).numpy()] for boards in (data.quizzes, data.solutions))
    comma, newline = (np.full((len(data), 1), ord(mark), np.uint8) for mark in ",\n")
    text = np.concatenate([quizzes, comma, solutions, newline], 1).tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as part:
        write_to_disk(part, HEADER + b"\n" + text)
        check_new(path)
    return path


def _first_fault(quizzes: Tensor, solutions: Tensor, boxes: Boxes) -> tuple[int, str] | None:
    """The first board with a fault, and the fault."""
    broken = (~is_solved(solutions, boxes)).nonzero().flatten().tolist()
    other = (~agrees(solutions, quizzes)).nonzero().flatten().tolist()
    if broken and (not other or broken[0] <= other[0]):
        return broken[0], f"the solution breaks the rules of sudoku with {boxes} boxes"
    if not other:
        return None
    quiz, solution = quizzes[other[0]], solutions[other[0]]
    row, column = ((quiz != 0) & (quiz != solution)).nonzero()[0].tolist()
    return other[0], (
        f"the solution does not agree with its quiz: in row {row + 1}, column {column + 1} "
        f"it has {solution[row, column]} where {quiz[row, column]} is given"
    )


def _read_lines(path: Path) -> list[bytes]:
    """The lines of a file below its header."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read: {error}") from None
    header, *lines = content.removeprefix(b"\xef\xbb\xbf").rstrip().splitlines() or [b""]
    if header.strip() != HEADER:
        raise FileFormatError(f"{path}, line 1: the header must be {HEADER.decode()}, got {header[:40]!r}")
    if not lines:
        raise FileFormatError(f"{path} must hold boards below its header, got none")
    return lines


def _checked(lines: list[bytes], cells: int, path: Path) -> Iterator[bytes]:
    """The lines, each of which has two fields of so many digits."""
    for number, line in enumerate(lines, 2):
        fields = line.split(b",")
        if len(fields) != 2:
            raise FileFormatError(f"{path}, line {number}: expected a quiz and a solution, got {len(fields)} fields")
        for name, field in zip(("quizzes", "solutions"), fields, strict=True):
            if len(field) != cells:
                raise FileFormatError(
                    f"{path}, line {number}: {name} must have {cells} digits, {math.isqrt(cells)} a row, "
                    f"got {len(field)}"
                )
        yield line


def _distinct_grids(count: int, boxes: Boxes, generator: torch.Generator) -> Tensor:
    """So many grids without repeats; with repeats at the end, once hardly any new ones turn up."""
    grids = random_grids(count, boxes, generator)
    while True:
        first: dict[bytes, int] = {}
        for place, key in enumerate(_keys(grids)):
            first.setdefault(key, place)
        grids = grids[list(first.values())][:count]
        missing = count - len(grids)
        if not missing:
            return grids
        more = random_grids(missing + SPARE, boxes, generator)
        grids = torch.cat([grids, more])
        if len(set(_keys(more)) - set(first)) < missing / 10:
            return grids[:count]


def _count_seen(learnt_from: list[Tensor], tested: Tensor) -> int:
    seen = set(_keys(torch.cat(learnt_from)))
    return sum(key in seen for key in _keys(tested))


def _keys(boards: Tensor) -> list[bytes]:
    return [board.tobytes() for board in boards.numpy()]
