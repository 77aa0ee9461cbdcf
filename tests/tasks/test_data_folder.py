"""Which folder the data of the tasks is in."""

from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest

from neuralilp.errors import FileFormatError, InputError
from neuralilp.tasks.data import VARIABLE, data_folder


def test_option_beats_variable_beats_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    option, variable = tmp_path / "option", tmp_path / "variable"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(VARIABLE, str(variable))
    assert data_folder(option, create=True) == option
    assert data_folder(create=True) == variable
    monkeypatch.setenv(VARIABLE, "")  # as good as not set
    assert data_folder(create=True) == platformdirs.user_cache_path("neuralilp")
    assert option.is_dir()
    assert variable.is_dir()


def test_home_is_understood_in_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(VARIABLE, "~")
    assert data_folder() == tmp_path


def test_a_missing_folder_is_named_with_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(FileFormatError, match=rf"no data folder {missing} \(--data\).*neuralilp data TASK"):
        data_folder(missing)
    monkeypatch.setenv(VARIABLE, str(missing))
    with pytest.raises(FileFormatError, match=rf"{missing} \(the variable NEURALILP_DATA\)"):
        data_folder()
    assert not missing.exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for create in (False, True):
        with pytest.raises(InputError, match="must be a folder"):
            data_folder(tmp_path / "file", create=create)
