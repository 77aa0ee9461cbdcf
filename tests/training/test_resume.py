"""Runs that were killed go on to the very numbers of a run that was not."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from problem import (
    LONGER,
    Toy,
    assert_same_weights,
    last_weights,
    lasting,
    make_step,
    run,
    toy_run,
    weights,
)
from processes import heed_interrupts

from neuralilp import FileFormatError, InputError, PlateauTemperature
from neuralilp.training import Outcome, Schedule, triangular

FSYNC = os.fsync
CHILD = Path(__file__).with_name("child.py")
Whole = tuple[Outcome, dict[str, torch.Tensor], Path]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """A run from beginning to end."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    outcome, step = run(folder, schedule=LONGER)
    return outcome, weights(step), folder


def assert_same_run(folder: Path, outcome: Outcome | None, best: dict[str, torch.Tensor], whole: Whole) -> None:
    expected, expected_best, whole_folder = whole
    assert_same_weights(last_weights(folder), last_weights(whole_folder))
    assert lasting(folder) == lasting(whole_folder)
    assert_same_weights(best, expected_best)
    if outcome is not None:
        timed = {"train_seconds": 0.0, "total_seconds": 0.0}
        assert dataclasses.replace(outcome, **timed) == dataclasses.replace(expected, **timed)
    assert not list(folder.rglob("*.part*"))
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == ["best.safetensors", "last.pt"]


@contextlib.contextmanager
def started(folder: Path, pause: float) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, str(CHILD), str(folder), str(pause)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        preexec_fn=heed_interrupts,
    )
    with child:  # closes the pipe
        try:
            yield child
        finally:
            child.kill()


def wait_for_step(child: subprocess.Popen[str], step: int) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        if line.strip() == str(step):
            return
    raise AssertionError("the child ended too soon")


def test_a_process_killed_twice_in_mid_epoch_goes_on(tmp_path: Path, whole: Whole) -> None:
    # Seven steps an epoch, a checkpoint every 0.02 s: killed in the second epoch, interrupted in a later one.
    with started(tmp_path, 0.03) as child:
        wait_for_step(child, 11)
        child.kill()
        assert child.wait() == -signal.SIGKILL
    state = torch.load(tmp_path / "checkpoints" / "last.pt", weights_only=True)["state"]
    assert 0 < state["position"] < 60
    assert 7 < state["steps"] <= 11

    with started(tmp_path, 0.03) as child:
        wait_for_step(child, 14)
        child.send_signal(signal.SIGINT)
        assert child.wait(30) == 130
        assert child.stdout is not None
        assert child.stdout.read().split()[-1] == "interrupted"
    steps = torch.load(tmp_path / "checkpoints" / "last.pt", weights_only=True)["state"]["steps"]
    assert steps >= state["steps"] + 14

    outcome, step = run(tmp_path, schedule=LONGER, resume=True)
    assert_same_run(tmp_path, outcome, weights(step), whole)


class Killed(BaseException):
    """Stands for a power cut: the file at hand lacks its end, and what comes after never happened."""


def failing(at: int, counted: list[int], function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **rest: Any) -> Any:
        counted[0] += 1
        if counted[0] == at:
            if function is FSYNC:  # not all of it has reached the disk
                os.ftruncate(args[0], os.fstat(args[0]).st_size - 10)
            raise Killed
        return function(*args, **rest)

    return call


def toy(folder: Path, **changes: Any) -> tuple[Outcome, dict[str, torch.Tensor]]:
    """A fast run with several bests, a drop and a restart: the figure rises, falls by chance of the last batch."""
    step = Toy()
    arguments: dict[str, Any] = {
        "optimiser": lambda module: torch.optim.Adam(module.parameters(), lr=0.3),
        "scheduler": lambda optimiser: triangular(optimiser, 0.3, 5, decay=0.5, after=1),
        "temperature": PlateauTemperature(1.0, factor=0.5, patience=0, floor=0.1),
        "validate": lambda step: {"figure": -float((step.w - 1).square().sum())},
        "schedule": TOY,
    }
    outcome = toy_run(folder, step=step, **(arguments | changes))
    return outcome, weights(step)


TOY = Schedule(epochs=7, batch_size=4, restart_on_drop=True)


@pytest.mark.parametrize("end", ["goal", "patience"])
def test_a_kill_at_the_end_does_not_let_a_run_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    toy(tmp_path / "long")
    figures = [row["validation/figure"] for row in lasting(tmp_path / "long")]
    ending = {"goal": figures[0]} if end == "goal" else {"patience": 1}

    def ended(folder: Path, **more: Any) -> tuple[Outcome, dict[str, torch.Tensor]]:
        never = PlateauTemperature(1.0, factor=0.5, patience=99)
        return toy(folder, schedule=dataclasses.replace(TOY, **ending), temperature=never, **more)

    whole = (*ended(tmp_path / "whole"), tmp_path / "whole")
    assert whole[0].stopped == end
    assert whole[0].epochs < TOY.epochs
    with monkeypatch.context() as patch:
        patch.setattr("neuralilp.training.curves.Curves.draw", failing(1, [0], lambda *_: None))
        with pytest.raises(Killed):
            ended(tmp_path / "killed")
    outcome, best = ended(tmp_path / "killed", resume=True)
    assert_same_run(tmp_path / "killed", outcome, best, whole)


def test_a_kill_between_any_two_file_operations_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = (*toy(tmp_path / "whole"), tmp_path / "whole")
    rows = lasting(tmp_path / "whole")
    figures = [row["validation/figure"] for row in rows]
    gains = sum(figure > max(figures[:i], default=-math.inf) for i, figure in enumerate(figures))
    assert 2 <= gains < len(rows)  # validations of both kinds
    for at in range(1, 1000):
        folder, counted = tmp_path / str(at), [0]
        with monkeypatch.context() as patch:
            for name in ("fsync", "replace"):
                patch.setattr(os, name, failing(at, counted, getattr(os, name)))
            try:
                toy(folder)
            except Killed:
                pass
            else:
                break
        outcome, best = toy(folder, resume=True)
        assert_same_run(folder, outcome, best, whole)
    # Two operations a checkpoint, one a row, three for the best weights.
    assert at > 2 * 8 + len(rows) + 3 * gains


def test_a_half_written_row_is_forgotten(tmp_path: Path, whole: Whole) -> None:
    run(tmp_path, schedule=dataclasses.replace(LONGER, epochs=2))
    with (tmp_path / "curves.csv").open("a") as file:
        file.write("4,28,0.1\n4,28,0.")
    outcome, step = run(tmp_path, schedule=LONGER, resume=True)
    assert_same_run(tmp_path, outcome, weights(step), whole)


def test_damaged_files_are_told(tmp_path: Path) -> None:
    short = dataclasses.replace(LONGER, epochs=2)
    run(tmp_path, schedule=short)
    last, best, curves = (
        tmp_path / name for name in ("checkpoints/last.pt", "checkpoints/best.safetensors", "curves.csv")
    )
    for path, message in (
        (curves, "should hold 1 rows"),
        (best, "should hold the weights after 14"),
        (last, "is no ch"),
    ):
        whole_bytes = path.read_bytes()
        path.write_bytes(whole_bytes[:50])
        with pytest.raises(FileFormatError, match=message):
            run(tmp_path, schedule=short, resume=True)
        path.write_bytes(whole_bytes)
    run(tmp_path, schedule=short, resume=True)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    def intrude(step: torch.nn.Module) -> dict[str, float]:
        with pytest.raises(InputError, match="is in use"):
            run(tmp_path, schedule=LONGER, resume=True)
        return {"variable_accuracy": 0.5}

    outcome, _ = run(tmp_path, make_step(), schedule=LONGER, validate=intrude)
    assert outcome.stopped == "epochs"
