"""One run of any task: what makes it the run it is, training, test, and the record of it in the run's folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from neuralilp.errors import InputError
from neuralilp.training import Outcome, RunFolder, make_record
from neuralilp.training.interrupts import Interrupts

IDENTITY = ("task", "method", "seed", "setting", "data_fingerprint")
"""The entries of a configuration that every record has by the same name; the others become entries of its own."""

M = TypeVar("M", bound=nn.Module)


def run_recorded(
    out: Path,
    config: Mapping[str, Any],
    *,
    resume: bool,
    time_limit: float | None,
    learn: Callable[[RunFolder], tuple[M, Outcome]],
    test: Callable[[M], dict[str, Any]],
    save: Callable[[M, Path], Any],
) -> dict[str, Any] | None:
    """Train and test: the record, which is also in the folder. None when interrupted.

    ``config`` makes the run what it is. ``test`` returns entries of the record, ``test`` and ``statuses`` among them.
    With ``resume`` a run goes on where it was, or begins; one that has its record is over, and that is returned
    whatever the time limit is now.
    """
    folder = RunFolder(out, config)
    if resume and folder.has_record():
        return record_of_same_run(folder)
    if not resume:
        folder.check(resume=False)
    model, outcome = learn(folder)
    if outcome.stopped == "interrupted":
        return None
    interrupts = Interrupts()
    try:
        with interrupts.heeded(), interrupts.raising():
            tested = test(model)
    except KeyboardInterrupt:
        return None
    extra = {name: value for name, value in config.items() if name not in IDENTITY}
    record = make_record(
        **{name: config[name] for name in IDENTITY},
        outcome=outcome,
        test=tested.pop("test"),
        statuses=tested.pop("statuses"),
        extra={**extra, "time_limit": time_limit, **tested},
    )
    save(model, folder.path / "model")
    folder.write_record(record)
    return record


def record_of_same_run(folder: RunFolder) -> dict[str, Any]:
    """The record of a run that is over, if it is the run that was asked for."""
    record = folder.read_record()
    for name, asked in folder.config.items():
        if record.get(name) != asked:
            raise InputError(
                f"{folder.path} holds another run: its {name} is {record.get(name)}, and {asked} was asked for"
            )
    return record
