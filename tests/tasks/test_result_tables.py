"""Means and errors, records and printed tables, whatever the task."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest
from records import make_record, write_run
from rich.console import Console

from neuralilp.errors import FileFormatError, InputError
from neuralilp.tasks.table import Figure, ResultTable, Row, find_records, markdown, number, print_table


def test_mean_and_standard_error() -> None:
    """1, 2, 3, 6: mean 3; squares 4 + 1 + 0 + 9 = 14, variance 14/3, error √(14/3)/2 = 1.0801."""
    figure = Figure.of([1, 2, 3, 6])
    assert figure.mean == 3
    assert figure.error == pytest.approx(1.0801, abs=1e-4)
    assert figure.count == 4
    assert figure.text() == "3.0 ± 1.1"
    assert figure.text(with_count=True) == "3.0 ± 1.1 (4)"


def test_one_value_has_no_error() -> None:
    assert Figure.of([97.25]) == Figure(97.25, None, 1)
    assert Figure.of([97.25]).text() == "97.2"
    with pytest.raises(InputError, match="values must not be empty"):
        Figure.of([])


def example(count: int = 2) -> ResultTable:
    rows = [
        Row("easy", "theirs (paper)", {"score": {"1": Figure(9, 0.5), "2": Figure(8, 0.25)}}, is_ours=False),
        Row("easy", "ours", {"score": {"1": Figure(9.5, 0.1, 2)}, "time": {"1": Figure(3, 1, 2)}}),
        Row("hard", "ours", {"score": {"1": Figure(5, 1, count)}, "time": {"1": Figure(4, 1, count)}}),
    ]
    return ResultTable("A title", {"score": ["1", "2"], "time": ["1"]}, rows)


def test_markdown() -> None:
    assert markdown(example()).splitlines() == [
        "|  |  | score, 1 | score, 2 | time, 1 |",
        "| --- | --- | --: | --: | --: |",
        "| easy | theirs (paper) | 9.0 ± 0.5 | 8.0 ± 0.2 | – |",
        "|  | ours | 9.5 ± 0.1 | – | 3.0 ± 1.0 |",
        "| hard | ours | 5.0 ± 1.0 | – | 4.0 ± 1.0 |",
    ]
    assert example().caption("boards") == "Ours: mean ± standard error over boards, 2 a cell."


def test_counts_are_shown_where_they_differ() -> None:
    table = example(count=1)
    assert "| hard | ours | 5.0 ± 1.0 (1) | – | 4.0 ± 1.0 |" in markdown(table)
    assert "| easy | theirs (paper) | 9.0 ± 0.5 | 8.0 ± 0.2 | – |" in markdown(table)
    assert table.caption("boards") == "Mean ± standard error over boards; how many boards in brackets."


def printed(width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    print_table(example(), console)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_groups_stand_side_by_side_or_below_each_other() -> None:
    wide, narrow = printed(100), printed(50)
    assert wide[0] == narrow[0] == "A title"
    assert sum("theirs" in line for line in wide) == 1
    assert sum("theirs" in line for line in narrow) == 2
    assert any(line.split() == ["ours", "9.5", "±", "0.1", "–", "3.0", "±", "1.0"] for line in wide)
    assert any(line.split() == ["ours", "9.5", "±", "0.1", "–"] for line in narrow)
    assert max(len(line) for line in narrow) <= 50


def test_records_are_found_at_any_depth(tmp_path: Path) -> None:
    first = write_run(tmp_path / "a" / "run", seed=1)
    second = write_run(tmp_path / "b", seed=2)
    write_run(tmp_path / "b" / "sudoku", task="sudoku")
    (tmp_path / "b" / "other.json").write_text("no record")
    copy = tmp_path / "any name.json"
    copy.write_text(json.dumps(make_record(seed=3)))
    task = "random-constraints"
    seeds = lambda *places: sorted(record["seed"] for record in find_records(places, task).values())  # noqa: E731
    assert seeds(tmp_path) == [1, 2]
    assert seeds(first.parent) == [1]
    assert seeds(second) == [2]
    assert seeds(tmp_path, first, first.parent, copy) == [1, 2, 3]  # each once


def test_records_that_cannot_be_used(tmp_path: Path) -> None:
    task = "random-constraints"
    with pytest.raises(FileFormatError, match="there is no run, record or folder"):
        find_records([tmp_path / "missing"], task)
    with pytest.raises(FileFormatError, match=rf"no record.json of {task} for this table in {tmp_path}"):
        find_records([tmp_path], task)
    other = write_run(tmp_path / "other", task="sudoku")
    with pytest.raises(InputError, match=f"must be a record of {task}, got task 'sudoku'"):
        find_records([other], task)
    (tmp_path / "record.json").write_text('{"task": ')
    with pytest.raises(FileFormatError, match=r"record.json"):
        find_records([tmp_path], task)


@pytest.mark.parametrize("value", [None, "fast", True, -0.5, 1.5, math.nan])
def test_numbers_are_checked(value: object) -> None:
    record = {"test": {"good": 0.5, "bad": value}}
    assert number(record, Path("r.json"), "test", "good", highest=1) == 0.5
    with pytest.raises(FileFormatError, match=r"r.json: test.bad must be a number from 0 to 1, got"):
        number(record, Path("r.json"), "test", "bad", highest=1)
    with pytest.raises(FileFormatError, match=r"a.b must be a number of at least 0, got None"):
        number(record, Path("r.json"), "a", "b")
