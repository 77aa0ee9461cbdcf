"""Files that are whole or not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from neuralilp.errors import InputError
from neuralilp.files import check_new, plain, write_whole, written_whole


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    with written_whole(path) as part:
        assert part.suffix == ".csv"
        part.write_text("whole")
        assert not path.exists()
    assert path.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    write_whole(path, b"old")

    def write_half() -> None:
        with written_whole(path) as part:
            part.write_text("half")
            raise KeyError

    with pytest.raises(KeyError):
        write_half()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    with written_whole(path) as one, written_whole(path) as other:
        one.write_text("one")
        other.write_text("half")
        assert one != other
        other.write_text("other")
    assert path.read_text() == "one"  # the one that ends last
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_there_is_not_new(tmp_path: Path) -> None:
    check_new(tmp_path / "nothing")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    for path in (tmp_path, link):
        with pytest.raises(InputError, match="exists already and is not replaced"):
            check_new(path)


def test_plain_values() -> None:
    value = {"a": (np.float32(0.5), torch.tensor([1, 2])), 3: Path("x")}
    assert plain(value) == {"a": [0.5, [1, 2]], "3": "x"}
