"""Puzzles and their files."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
import torch

from neuralilp.errors import FileFormatError, InputError, ShapeError
from neuralilp.tasks.sudoku import data as sudoku
from neuralilp.tasks.sudoku.boards import Boxes, agrees, is_solved
from neuralilp.tasks.sudoku.data import SudokuData, boards_path, generate, load, read_csv, write_csv
from neuralilp.tasks.sudoku.puzzles import solve_by_propagation

DATA = Path(os.environ.get("NEURALILP_DATA", "nowhere"))
PUBLIC = DATA / "sudoku" / "9x9_easy_10k.csv"
FOUR = Boxes(2, 2)
QUIZ, SOLUTION = "1000001000030020", "1234341221434321"
OTHER = "4321214334121234"
LINE = f"{QUIZ},{SOLUTION}"


def test_the_examples_are_right() -> None:
    for text in (SOLUTION, OTHER):
        assert is_solved(torch.tensor([int(digit) for digit in text]).view(1, 4, 4), FOUR).all()


def written(folder: Path, *lines: str, header: str = "quizzes,solutions") -> Path:
    path = folder / "boards.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def many(count: int, distinct: int | None = None) -> SudokuData:
    """``count`` boards of 4x4; the solutions are numbered by the digits of their grids, and repeat if need be."""
    made = generate(FOUR, distinct or count, seed=3)
    number = torch.arange(count) % (distinct or count)
    return SudokuData("x", made.quizzes[number], made.solutions[number], FOUR, "test")


def test_read_csv(tmp_path: Path) -> None:
    data = read_csv(written(tmp_path, LINE, f"{OTHER},{OTHER}"))
    assert (data.name, data.source, data.boxes, len(data)) == ("boards", "file boards.csv", FOUR, 2)
    assert data.quizzes.dtype == data.solutions.dtype == torch.int8
    assert data.quizzes[0].tolist() == [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 3], [0, 0, 2, 0]]
    assert data.solutions[1].tolist() == [[4, 3, 2, 1], [2, 1, 4, 3], [3, 4, 1, 2], [1, 2, 3, 4]]


def test_line_ends_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "boards.csv"
    path.write_bytes(b"\xef\xbb\xbfquizzes,solutions\r\n" + LINE.encode() + b"\r\n\r\n")
    assert read_csv(path).fingerprint == read_csv(written(tmp_path, LINE)).fingerprint


@pytest.mark.parametrize("boxes", [(2, 2), (3, 2), (2, 5)])
def test_what_is_written_is_read(tmp_path: Path, boxes: tuple[int, int]) -> None:
    made = generate(Boxes(*boxes), 6, seed=1)
    path = write_csv(made, tmp_path / "new" / "boards.csv")
    again = read_csv(path, Boxes(*boxes))
    assert torch.equal(again.quizzes, made.quizzes)
    assert torch.equal(again.solutions, made.solutions)
    assert again.fingerprint == made.fingerprint
    assert [file.name for file in path.parent.iterdir()] == ["boards.csv"]
    if boxes == (2, 5):
        assert "A" in path.read_text().splitlines()[1]


def test_the_public_layout(tmp_path: Path) -> None:
    data = read_csv(written(tmp_path, LINE))
    assert write_csv(data, tmp_path / "copy.csv").read_bytes() == b"quizzes,solutions\n" + LINE.encode() + b"\n"


BAD = {
    "1" * 16: "line 3: expected a quiz and a solution, got 1 fields",
    "": "line 3: expected a quiz and a solution, got 1 fields",
    f"{LINE},5": "line 3: expected a quiz and a solution, got 3 fields",
    f"{QUIZ}0,{SOLUTION[:-1]}": "line 3: quizzes must have 16 digits, 4 a row, got 17",
    f"{QUIZ},{SOLUTION[:-1]}": "line 3: solutions must have 16 digits, 4 a row, got 15",
    f"10x0{QUIZ[4:]},{SOLUTION}": "line 3: quizzes has 'x' in row 1, column 3, expected 0 or 1 to 4",
    f"{QUIZ[:-1]}5,{SOLUTION}": "line 3: quizzes has '5' in row 4, column 4, expected 0 or 1 to 4",
    f"{QUIZ},{SOLUTION[:4]}0{SOLUTION[5:]}": "line 3: solutions has '0' in row 2, column 1, expected 1 to 4",
    f"{QUIZ},{SOLUTION[:-2]}12": "line 3: the solution breaks the rules of sudoku with 2x2 boxes",
    f"{QUIZ},{OTHER}": "line 3: the solution does not agree with its quiz: in row 1, column 1 it has 4 where 1 is .*",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_lines_are_named(tmp_path: Path, line: str) -> None:
    path = written(tmp_path, LINE, line, LINE)
    with pytest.raises(FileFormatError, match=f"^{path}, {BAD[line]}$"):
        read_csv(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"missing.csv cannot be read: .*No such file"):
        read_csv(tmp_path / "missing.csv")
    with pytest.raises(FileFormatError, match=r"line 1: the header must be quizzes,solutions, got b'1000"):
        read_csv(written(tmp_path, header=LINE))
    with pytest.raises(FileFormatError, match="must hold boards below its header, got none"):
        read_csv(written(tmp_path))
    (tmp_path / "empty.csv").touch()
    with pytest.raises(FileFormatError, match="line 1: the header must be"):
        read_csv(tmp_path / "empty.csv")
    for size in (15, 25, 37):
        with pytest.raises(FileFormatError, match=f"line 2: no sudoku has {size} cells"):
            read_csv(written(tmp_path, f"{'0' * size},{'1' * size}"))
    with pytest.raises(FileFormatError, match="line 2: quizzes must have 81 digits, 9 a row, got 16"):
        read_csv(written(tmp_path, LINE), Boxes(3, 3))


def test_nothing_is_replaced(tmp_path: Path) -> None:
    data = read_csv(written(tmp_path, LINE))
    mine = tmp_path / "mine.csv"
    mine.write_text("mine")
    with pytest.raises(InputError, match=r"mine.csv exists already and is not replaced"):
        write_csv(data, mine)
    assert mine.read_text() == "mine"


@pytest.mark.wrong_types
def test_bad_data() -> None:
    solved = torch.tensor([int(digit) for digit in SOLUTION]).view(1, 4, 4)
    with pytest.raises(ShapeError, match="one solution a quiz, got 1 for 2"):
        SudokuData("x", solved.repeat(2, 1, 1), solved, FOUR, "test")
    with pytest.raises(InputError, match="board 0: the solution breaks the rules of sudoku with 2x2 boxes"):
        SudokuData("x", solved, solved.clamp(max=3), FOUR, "test")
    with pytest.raises(InputError, match=r"solutions must hold digits from 1 to 4.*: board 0 has 9 in row 1, column 1"):
        SudokuData("x", solved, solved * 9, FOUR, "test")


def test_fingerprint_tells_boards_apart_but_not_names() -> None:
    data = generate(FOUR, 5)
    quizzes = data.quizzes.clone()
    quizzes[4] = data.solutions[4]
    assert dataclasses.replace(data, name="y", source="elsewhere").fingerprint == data.fingerprint
    assert dataclasses.replace(data, quizzes=quizzes).fingerprint != data.fingerprint
    assert generate(FOUR, 5, seed=1).fingerprint != data.fingerprint == generate(FOUR, 5, seed=0).fingerprint


def test_generated_grids_differ_where_they_can() -> None:
    assert len(generate(FOUR, 250).solutions.unique(dim=0)) == 250
    assert len(generate(FOUR, 2000).solutions.unique(dim=0)) == 288
    data = generate(Boxes(2, 3), 20, seed=5)
    assert data.source == "generated, 20 boards of seed 5"
    assert torch.equal(solve_by_propagation(data.quizzes, data.boxes), data.solutions)
    with pytest.raises(InputError, match="count must be positive, got 0"):
        generate(FOUR, 0)


def test_split_takes_the_test_last() -> None:
    data = many(100)
    train, validation, test, *seen = data.split(50, 10, 20)
    assert seen == [0, 0]
    assert torch.equal(train.quizzes, data.quizzes[:50])
    assert torch.equal(validation.quizzes, data.quizzes[70:80])
    assert torch.equal(test.solutions, data.solutions[80:])
    assert torch.equal(data.split(3, 10, 20).validation.quizzes, validation.quizzes)


def test_default_sizes() -> None:
    sizes = lambda data: [len(part.quizzes) for part in data.split()[:3]]  # noqa: E731
    data = many(11_300, distinct=111)
    assert sizes(data) == [10_000, 100, 1_000]
    assert sizes(many(222)) == [200, 2, 20]
    assert sizes(many(3)) == [1, 1, 1]
    assert [len(part.quizzes) for part in data.split(test=100, validation=50)[:3]] == [10_000, 50, 100]


@pytest.mark.parametrize("sizes", [(81, 10, 10), (0, 1, 1), (1, 0, 1), (1, 1, 0), (None, 50, 50), (None, None, 200)])
def test_bad_sizes(sizes: tuple[int | None, int | None, int | None]) -> None:
    with pytest.raises(InputError, match="train, validation and test must be positive and at most 100 together"):
        many(100).split(*sizes)


def test_solutions_of_the_test_are_left_out() -> None:
    data = many(100)
    solutions, quizzes = data.solutions.clone(), data.quizzes.clone()
    solutions[5], quizzes[5] = solutions[99], solutions[99]
    repeated = dataclasses.replace(data, solutions=solutions, quizzes=quizzes)
    split = repeated.split(60, 10, 20)
    assert split.solutions_seen == 0
    others = [number for number in range(80) if number != 5]
    assert torch.equal(split.train.solutions, solutions[others][:60])
    assert torch.equal(split.validation.solutions, solutions[others][-10:])
    by_default = repeated.split(validation=10, test=20)  # all there are, and that is one less
    assert (len(by_default.train.quizzes), by_default.solutions_seen) == (69, 0)
    full = repeated.split(70, 10, 20)  # as many as asked for, at a price
    assert (len(full.train.quizzes), full.solutions_seen) == (70, 1)
    assert full.quizzes_seen == 0


def test_too_many_duplicates_are_kept_and_counted() -> None:
    data = many(100, distinct=10)
    assert data.split(60, 10, 20).solutions_seen == 20
    split = many(100, distinct=50).split(40, 40, 20)  # whose solutions are those numbered 30 to 49
    assert (len(split.train.quizzes), split.solutions_seen) == (40, 20)


def test_load_generates_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = load(tmp_path, FOUR)
    path = tmp_path / "sudoku" / "4x4.csv"
    assert (made.name, len(made), made.source) == ("4x4", 11_100, "generated, 11100 boards of seed 0")
    assert path.is_file()
    monkeypatch.setattr(sudoku, "generate", None)
    again = load(tmp_path, FOUR)
    assert again.fingerprint == made.fingerprint
    assert (again.name, again.source) == ("4x4", "file 4x4.csv")
    given = load(tmp_path, FOUR, written(tmp_path, LINE))
    assert (len(given), given.source) == (1, "file boards.csv")


def test_load_without_a_place_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sudoku").write_text("no folder")
    small = generate(FOUR, 20)
    monkeypatch.setattr(sudoku, "generate", lambda boxes: small)
    assert load(tmp_path, FOUR) is small
    assert [file.name for file in tmp_path.iterdir()] == ["sudoku"]


def test_other_boxes_have_their_own_file(tmp_path: Path) -> None:
    assert boards_path(tmp_path, Boxes(2, 3)) == tmp_path / "sudoku" / "6x6.csv"
    assert boards_path(tmp_path, Boxes(3, 2)) == tmp_path / "sudoku" / "6x6_3x2.csv"


@pytest.mark.skipif(
    not PUBLIC.is_file(), reason="needs 10,000 public puzzles: set NEURALILP_DATA to the folder with sudoku"
)
def test_public_puzzles() -> None:
    data = read_csv(PUBLIC)
    assert (len(data), data.boxes) == (10_000, Boxes(3, 3))
    givens = (data.quizzes != 0).flatten(1).sum(1)
    assert (int(givens.min()), int(givens.max())) == (30, 37)
    split = data.split(test=1000)
    assert (len(split.train.quizzes), len(split.validation.quizzes), split.solutions_seen) == (8910, 90, 0)
    assert agrees(split.test.solutions, split.test.quizzes).all()
