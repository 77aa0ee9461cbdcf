"""Run folders: what they refuse, and what they leave alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from neuralilp import FileFormatError, InputError
from neuralilp.training import RunFolder, read_curves
from neuralilp.training.curves import Curves

ROW = {"epoch": 1, "steps": 3, "temperature": 0.1, "lr": 1e-3, "train/loss": 1 / 3, "validation/figure": float("nan")}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_new_folder_gets_the_configuration(tmp_path: Path) -> None:
    config = {"task": "sudoku", "margins": (0.01, 1e-05), "data": Path("somewhere")}
    folder = RunFolder(tmp_path / "deep" / "run", config)
    assert not (tmp_path / "deep").exists()
    with folder.opened({"training": {"seed": 3}}, resume=False):
        pass
    expected = {"task": "sudoku", "margins": [0.01, 1e-05], "data": "somewhere", "training": {"seed": 3}}
    assert yaml.safe_load((folder.path / "config.yaml").read_text()) == expected
    with RunFolder(folder.path, config).opened({"training": {"seed": 3}}, resume=True):
        pass


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_with_other_files_is_left_alone(tmp_path: Path, resume: bool) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with (
        pytest.raises(InputError, match=r"holds other files than a run's \(thesis\.tex\)"),
        RunFolder(tmp_path).opened({}, resume=resume),
    ):
        pass
    assert contents(tmp_path) == {"thesis.tex": b"precious"}


def test_a_folder_with_a_run_must_be_resumed_and_be_the_same(tmp_path: Path) -> None:
    with RunFolder(tmp_path, {"seed": 0}).opened({}, resume=False):
        pass
    before = contents(tmp_path)
    with pytest.raises(InputError, match="holds a run already: resume it"):
        RunFolder(tmp_path, {"seed": 0}).check(resume=False)
    for config, message in (({"seed": 1}, "its seed is 0, and 1 was asked for"), ({}, "its seed is 0, and None")):
        with pytest.raises(InputError, match=message), RunFolder(tmp_path, config).opened({}, resume=True):
            pass
    with pytest.raises(InputError, match="its more is None, and 1"):
        RunFolder(tmp_path, {"seed": 0, "more": 1}).check(resume=True)
    assert contents(tmp_path) == before


def test_lengths_may_change_at_any_depth(tmp_path: Path) -> None:
    with RunFolder(tmp_path, {"seed": 0, "epochs": 3}).opened({"training": {"time_limit": 5.0}}, resume=False):
        pass
    with RunFolder(tmp_path, {"seed": 0, "epochs": 9}).opened({"training": {"time_limit": None}}, resume=True):
        pass
    written = yaml.safe_load((tmp_path / "config.yaml").read_text())
    assert written == {"seed": 0, "epochs": 9, "training": {"time_limit": None}}


def test_a_folder_whose_run_was_killed_before_it_began_counts_as_empty(tmp_path: Path) -> None:
    for name in (".lock", ".config.part.yaml"):
        (tmp_path / name).write_text("seed")
    with RunFolder(tmp_path, {"seed": 0}).opened({}, resume=False):
        assert yaml.safe_load((tmp_path / "config.yaml").read_text()) == {"seed": 0}


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(InputError, match="is a file"):
        RunFolder(tmp_path / "run").check(resume=False)


def test_an_unreadable_configuration(tmp_path: Path) -> None:
    for text in ("seed: [1,", "- 1"):
        (tmp_path / "config.yaml").write_text(text)
        with pytest.raises(FileFormatError, match=r"config\.yaml"):
            RunFolder(tmp_path).check(resume=True)


def test_curves_keep_every_bit(tmp_path: Path) -> None:
    curves = Curves(tmp_path, tensorboard=False)
    curves.append(ROW)
    curves.append(ROW | {"epoch": 2, "validation/figure": 0.1 + 0.2})
    rows = read_curves(tmp_path / "curves.csv")
    assert rows[1] == ROW | {"epoch": 2, "validation/figure": 0.1 + 0.2}
    assert rows[0]["validation/figure"] != rows[0]["validation/figure"]
    curves.draw()
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_curves_go_back_to_the_start(tmp_path: Path) -> None:
    Curves(tmp_path, tensorboard=False).append(ROW)
    curves = Curves(tmp_path, tensorboard=False)
    curves.go_back(0, 0)
    assert not curves.path.exists()
    curves.append({"other": 1.0})
    assert read_curves(curves.path) == [{"other": 1.0}]


def test_unreadable_curves(tmp_path: Path) -> None:
    path = tmp_path / "curves.csv"
    for text in ("a,b\n1,x\n", "a,b\n1\n", "a\n1,2\n"):
        path.write_text(text)
        with pytest.raises(FileFormatError, match="cannot be read as curves"):
            read_curves(path)
    with pytest.raises(FileFormatError):
        read_curves(tmp_path / "missing.csv")
