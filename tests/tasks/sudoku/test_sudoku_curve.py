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
        ACCURACY: {"1,000": Figure(100.0, None, 1), "30": Figure(50.0, 25.0, 2)},
        curve.RECOVERED: {"1,000": Figure(100.0, None, 1), "30": Figure(50.0, 50.0, 2)},
    }
    rows = curve.as_json(found)["rows"]
    assert rows[0]["true_rules_percent"]["30"]["mean"] == 100.0


def test_who_has_no_rules_has_no_share_of_them() -> None:
    network = record(30) | {"method": "rrn"}
    del network["has_true_rules"]
    found = curve.result_table(by_path(network, record(30)))
    assert [list(row.figures) for row in found.rows] == [[ACCURACY], [ACCURACY, curve.RECOVERED]]
    assert found.cells(found.rows[0], curve.RECOVERED) == ["–"]
    assert curve.as_json(found)["rows"][0]["true_rules_percent"] == {}


def test_either_table_has_its_own_runs() -> None:
    part, whole = record(30), record(1000)
    del whole["setting"]["grids"]
    assert [table.is_wanted(one) for one in (part, whole)] == [False, True]
    assert [curve.is_wanted(one) for one in (part, whole)] == [True, False]


@pytest.mark.parametrize("grids", [0, "30", True])
def test_bad_numbers_of_boards(grids: Any) -> None:
    with pytest.raises(FileFormatError, match=r"0.json: setting.grids must be a positive whole number, got"):
        curve.result_table(by_path(record(grids)))
