"""Where the data of the tasks lives."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from neuralilp.errors import FileFormatError, InputError

VARIABLE = "NEURALILP_DATA"


def data_folder(given: Path | None = None, *, create: bool = False) -> Path:
    """``given`` (the option ``--data``), else the variable ``NEURALILP_DATA``, else the user's cache folder.

    With ``create`` it is made where it is not there yet; otherwise that is an error.
    """
    if given is not None:
        folder, source = given, "--data"
    elif os.environ.get(VARIABLE):
        folder, source = Path(os.environ[VARIABLE]).expanduser(), f"the variable {VARIABLE}"
    else:
        folder, source = platformdirs.user_cache_path("neuralilp"), "the cache folder"
    if folder.exists() and not folder.is_dir():
        raise InputError(f"the data folder must be a folder, but {folder} ({source}) is a file")
    if create:
        folder.mkdir(parents=True, exist_ok=True)
    if not folder.is_dir():
        raise FileFormatError(
            f"there is no data folder {folder} ({source}): give one with --data or the variable {VARIABLE}, "
            f"or make data with `neuralilp data TASK`"
        )
    return folder
