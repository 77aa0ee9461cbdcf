"""The learning curve of sudoku."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from records import make_record

from neuralilp.errors import FileFormatError
from neuralilp.tasks.entries import ACCURACY
from neuralilp.tasks.sudoku import curve, table
from neuralilp.tasks.table import Figure


def record(grids: Any, accuracy: float = 1.0, *, is_true: bool = True, size: int = 9, seed: int = 0) -> Any:
    return make_record(
        task="sudoku",
        method="ilploss-plus",
        seed=seed,
        setting={"size": size, "boxes": "3x3", "input": "symbolic", "grids": grids},
        test={"board_accuracy": accuracy},
        has_true_rules=is_true,
    )


def by_path(*records: Any) -> dict[Path, Any]:
    return {Path(f"{i}.json"): one for i, one in enumerate(records)}


def test_a_column_for_each_number_of_boards() -> None:
    records = by_path(record(1000), record(30, 0.25, is_true=False), record(30, 0.75, seed=1), record(30, size=4))
    found = curve.result_table(records)
    assert found.groups[ACCURACY] == ["30", "1,000"]
    assert [row.section for row in found.rows] == ["4x4, symbolic", "9x9, symbolic"]
    assert found.rows[1].figures == {
        ACCURACY: {"1,000": Figure(100.0, None, 1), "30": Figure(50.0, None, 1)},
        curve.RECOVERED: {"1,000": Figure(100.0, None, 1), "30": Figure(50.0, None, 1)},
    }
    rows = curve.as_json(found)["rows"]
    assert rows[0]["true_rules_percent"]["30"]["mean"] == 100.0


def test_the_paper_s_table_has_whole_runs_alone() -> None:
    whole = record(1000, 0.5)
    del whole["setting"]["grids"]
    found = table.result_table(by_path(record(30), whole))
    ours = [row for row in found.rows if row.is_ours]
    assert [row.figures[ACCURACY] for row in ours] == [{"9x9": Figure(50.0, None, 1)}]
    assert curve.result_table(by_path(whole)).rows == []


@pytest.mark.parametrize("grids", [0, "30", True])
def test_bad_numbers_of_boards(grids: Any) -> None:
    with pytest.raises(FileFormatError, match=r"0.json: setting.grids must be a positive whole number, got"):
        curve.result_table(by_path(record(grids)))
