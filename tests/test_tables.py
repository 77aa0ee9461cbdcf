"""Tables: what is read is what was written, and bad files are told by row and column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from neuralilp.errors import FileFormatError, InputError
from neuralilp.tables import column_names, read_table, write_table


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_there_and_back(tmp_path: Path, suffix: str) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="needs pip install 'neuralilp[parquet]'")
    path = tmp_path / f"table{suffix}"
    write_table(path, ["a b", "ü"], [[1.0, 2.5], [-3.0, 1e-9]])
    table = read_table(path)
    assert table.names == column_names(path) == ("a b", "ü")
    assert np.array_equal(np.asarray(table), [[1.0, 2.5], [-3.0, 1e-9]])
    assert [each.name for each in tmp_path.iterdir()] == [path.name]  # nothing half-written is left


def test_whole_numbers_are_written_as_such(tmp_path: Path) -> None:
    write_table(tmp_path / "z.csv", ["x", "y", "status"], [[1.0, 0.25, "optimal"], [None, None, "infeasible"]])
    assert (tmp_path / "z.csv").read_text() == "x,y,status\n1,0.25,optimal\n,,infeasible\n"


def test_columns_may_be_left_out_and_chosen(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("date, x ,y\n2024-01-01,1,2\n\n2024-01-02,3,4\n")
    table = read_table(path, without=["date"])
    assert table.names == ("x", "y")
    assert table.select(["y", "x"], "t").values.tolist() == [[2, 1], [4, 3]]
    with pytest.raises(FileFormatError, match=r"t has no column 'z'; it has x, y"):
        table.select(["z"], "t")
    with pytest.raises(FileFormatError, match="no column 'week' to leave out"):
        read_table(path, without=["week"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("x,y\n", "has no rows"),
        ("x,y\n1,2\n3\n", "row 3 has 1 entries, and there are 2 columns"),
        ("x,y\n1,two\n", "row 2, column 'y' must be a number, got 'two'"),
        ("x,y\n1,\n", "row 2, column 'y' must be a number, got nothing"),
        ("x,y\n1,inf\n", "row 2, column 'y' must be finite, got inf"),
        ("x,y\nnan,1\n", "row 2, column 'x' must be finite, got nan"),
        ("1,2\n3,4\n", "the first line must name the columns, got numbers: 1, 2"),
        ("x,x\n3,4\n", "two columns are named 'x'"),
        ("x,\n3,4\n", "column 2 has no name"),
        ("x;y\n3;4\n", "columns must be separated by commas"),
    ],
)
def test_bad_csv(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=message):
        read_table(path)


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="there is no file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(FileFormatError, match=r"must end in \.csv or \.parquet"):
        read_table(tmp_path / "table.xlsx")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00x")
    with pytest.raises(FileFormatError, match="cannot be read as a CSV file"):
        read_table(tmp_path / "bytes.csv")
    with pytest.raises(InputError, match="path must lie in a folder that exists"):
        write_table(tmp_path / "none" / "z.csv", ["x"], [[1.0]])
    with pytest.raises(InputError, match=r"path must end in \.csv or \.parquet"):
        write_table(tmp_path / "z.txt", ["x"], [[1.0]])


def test_bad_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pip install 'neuralilp[parquet]'")
    (tmp_path / "bad.parquet").write_bytes(b"nonsense")
    with pytest.raises(FileFormatError, match="cannot be read as a Parquet file"):
        read_table(tmp_path / "bad.parquet")
    write_table(tmp_path / "t.parquet", ["x", "who"], [[1.0, "anna"]])
    with pytest.raises(FileFormatError, match="row 1, column 'who' must be a number, got 'anna'"):
        read_table(tmp_path / "t.parquet")
