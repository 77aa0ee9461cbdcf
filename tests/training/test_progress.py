"""What a run shows while it goes on."""

from __future__ import annotations

import dataclasses
import io
import math
from pathlib import Path

import pytest
from problem import toy_run
from rich.console import Console

from neuralilp.training import Schedule, Standing, progress
from neuralilp.training.progress import clock

STANDING = Standing(
    epoch=2.5,
    steps=100,
    seconds=50.0,
    schedule=Schedule(epochs=10, batch_size=4, time_limit=100.0),
    temperature=0.5,
    terms={"loss": 0.12345, "positive": math.nan},
    monitor="vector_accuracy",
    figure=0.25,
    best=0.5,
)


def test_a_line_a_validation_where_there_is_no_terminal(tmp_path: Path) -> None:
    file = io.StringIO()
    toy_run(tmp_path, [0.5, 0.25, 0.75], report=progress(Console(file=file, width=200)))
    lines = file.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("epoch 2: loss ")
    assert "temperature 1, figure 25.00% (best 50.00%), 0 s" in lines[1]
    assert "figure 75.00% (best 75.00%)" in lines[2]


def test_a_bar_on_a_terminal(tmp_path: Path) -> None:
    file = io.StringIO()
    console = Console(file=file, width=200, force_terminal=True)
    report = progress(console)
    report.tick(STANDING)
    report.validated(STANDING)
    report.close()
    shown = file.getvalue()
    assert "epoch 3/10" in shown
    assert "loss 0.123, temperature 0.5, vector accuracy 25.00% (best 50.00%), 50 s left" in shown
    assert "positive" not in shown
    toy_run(tmp_path, [0.5], report=progress(console))
    assert "epoch 3/3" in file.getvalue()


def test_the_time_left_is_by_epochs_or_by_the_limit() -> None:
    # 20 s an epoch and 7.5 epochs to go: 150 s; the limit leaves 50.
    assert STANDING.seconds_left() == 50
    unlimited = dataclasses.replace(STANDING, schedule=Schedule(epochs=10, batch_size=4))
    assert unlimited.seconds_left() == 150
    assert dataclasses.replace(unlimited, epoch=10.0).seconds_left() == 0
    assert math.isinf(dataclasses.replace(unlimited, epoch=0.0).seconds_left())


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59.6, "1:00"), (187, "3:07"), (3723, "1:02:03")])
def test_clocks(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_a_bar_is_taken_down_when_a_run_fails(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=200, force_terminal=True)
    with pytest.raises(ValueError, match="monitored"):
        toy_run(tmp_path, monitor="other", report=progress(console))
    with console.status("free again"):  # fails while another live display is up
        pass
