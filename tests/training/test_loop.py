"""The loop in one process."""

from __future__ import annotations

import dataclasses
import itertools
import math
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from problem import (
    LAST_BATCH_IS_SMALLER,
    Toy,
    assert_same_weights,
    examples,
    last_weights,
    make_step,
    run,
    toy_data,
    toy_run,
    validate,
    weights,
)
from safetensors import safe_open
from torch import nn

from neuralilp import InputError, MilestoneTemperature, PlateauTemperature
from neuralilp.training import RunFolder, Schedule, read_curves, triangular


def test_a_run_learns_keeps_the_best_and_writes_everything(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "run"
    start = validate(make_step())["variable_accuracy"]
    global_state = torch.get_rng_state()
    schedule = Schedule(epochs=12, batch_size=9, validate_every=3)
    outcome, step = run(folder, schedule=schedule, folder=RunFolder(folder, {"task": "tour"}))
    assert outcome.stopped == "epochs"
    assert (outcome.epochs, outcome.steps) == (12, 12 * 7)
    assert outcome.best is not None
    assert outcome.best > start + 0.1
    assert validate(step) == outcome.figures
    assert outcome.figures["variable_accuracy"] == outcome.best
    assert torch.equal(torch.get_rng_state(), global_state)

    rows = read_curves(folder / "curves.csv")
    assert [row["epoch"] for row in rows] == [3, 6, 9, 12]
    best = next(row for row in rows if row["validation/variable_accuracy"] == outcome.best)
    assert (best["epoch"], best["steps"]) == (outcome.best_epoch, outcome.best_steps)
    assert best["train_seconds"] == outcome.train_seconds
    validation_seconds = sum(row["validation_seconds"] for row in rows)
    assert outcome.train_seconds < rows[-1]["train_seconds"] + 1e-9 < outcome.total_seconds - validation_seconds
    with safe_open(folder / "checkpoints" / "best.safetensors", "pt") as file:
        assert file.metadata()["epoch"] == str(outcome.best_epoch)
        assert_same_weights({name: file.get_tensor(name) for name in file.keys()}, weights(step))  # noqa: SIM118
    assert (folder / "curves.png").stat().st_size > 10_000
    assert list((folder / "tensorboard").iterdir())
    assert "epochs: 12" in (folder / "config.yaml").read_text()
    assert not list(folder.rglob("*.part*"))

    other, twin = run(tmp_path / "twin", schedule=schedule)
    assert_same_weights(weights(step), weights(twin))
    assert other.best == outcome.best
    run(tmp_path / "unlike", schedule=dataclasses.replace(schedule, epochs=1), seed=1)
    assert read_curves(tmp_path / "unlike" / "curves.csv")[0]["train/loss"] != rows[0]["train/loss"]


def test_tensorboard_has_the_rows(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for epochs in (2, 4):
        toy_run(
            tmp_path, [0.1, 0.2], folder=RunFolder(tmp_path, picture=False), schedule=Schedule(epochs, 4), resume=True
        )
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    found = [event.value for event in events.Scalars("validation/figure")]
    assert found == pytest.approx([row["validation/figure"] for row in read_curves(tmp_path / "curves.csv")])
    assert [event.step for event in events.Scalars("train/loss")] == [3, 6, 9, 12]


def test_every_example_is_used_once_an_epoch_in_changing_order(tmp_path: Path) -> None:
    step = Toy()
    toy_run(tmp_path, step=step)
    batches = [x for x, _, _ in step.calls]
    assert [len(x) for x in batches] == 3 * [4, 4, 2]
    epochs = [torch.cat(batches[i : i + 3]) for i in (0, 3, 6)]
    for epoch in epochs:
        assert torch.equal(epoch[epoch[:, 0].argsort()], toy_data()[0])
    assert not torch.equal(epochs[0], epochs[1])


def test_a_row_holds_the_means_since_the_last(tmp_path: Path) -> None:
    step = Toy()
    toy_run(tmp_path, step=step, schedule=Schedule(epochs=4, batch_size=4, validate_every=2))
    losses = [loss for _, _, loss in step.calls]
    rows = read_curves(tmp_path / "curves.csv")
    for row, part in zip(rows, (losses[:6], losses[6:]), strict=True):
        assert row["train/loss"] == pytest.approx(sum(part) / 6)
        assert row["train/first"] == pytest.approx(sum(part) / 6)
        assert row["train/second"] == pytest.approx(2 * sum(part) / 6)


def test_several_inputs_come_as_a_tuple(tmp_path: Path) -> None:
    x, y = toy_data()
    one, several = Toy(), Toy()
    toy_run(tmp_path / "one", step=one)
    toy_run(tmp_path / "several", step=several, data=(x[:, :1], x[:, 1:], y))
    assert isinstance(several.calls[0][0], tuple)
    assert torch.equal(one.w, several.w)


def test_patience_counts_from_the_best_and_from_a_drop(tmp_path: Path) -> None:
    many = Schedule(epochs=50, batch_size=10, patience=4)
    # The best at epoch 2, and no drop: epochs 3, 4, 5, 6 bring no gain.
    outcome = toy_run(tmp_path / "best", [0.1, 0.5], schedule=many)
    assert (outcome.stopped, outcome.epochs, outcome.best_epoch) == ("patience", 6, 2)
    # The temperature drops once, after epochs 3, 4, 5 without gain: patience begins at 5.
    drops = PlateauTemperature(1.0, factor=0.5, patience=2, floor=0.5)
    outcome = toy_run(tmp_path / "drop", [0.1, 0.5], schedule=many, temperature=drops)
    assert (outcome.stopped, outcome.epochs, outcome.best_epoch) == ("patience", 9, 2)


def test_of_equals_the_first_or_the_last_is_kept_and_neither_is_a_gain(tmp_path: Path) -> None:
    figures, first = [0.1, 0.5, 0.5, 0.2, 0.5], Schedule(epochs=50, batch_size=10, patience=4)
    outcome = toy_run(tmp_path / "first", figures, schedule=first)
    assert (outcome.stopped, outcome.epochs, outcome.best_epoch) == ("patience", 6, 2)
    outcome = toy_run(tmp_path / "last", [*figures, 0.3], schedule=dataclasses.replace(first, keep_later=True))
    assert (outcome.stopped, outcome.epochs, outcome.best_epoch) == ("patience", 6, 5)
    rows = read_curves(tmp_path / "last" / "curves.csv")
    assert outcome.train_seconds == rows[4]["train_seconds"]


def test_a_run_stops_at_its_goal_and_is_over_then(tmp_path: Path) -> None:
    figures, schedule = [0.1, 0.9, 1.0, 1.0], Schedule(epochs=50, batch_size=10, goal=1.0)
    for resume in (False, True):
        outcome = toy_run(tmp_path / "goal", figures, schedule=schedule, resume=resume)
        assert (outcome.stopped, outcome.epochs, outcome.best_epoch) == ("goal", 3, 3)
    without = toy_run(tmp_path / "on", figures, schedule=dataclasses.replace(schedule, epochs=4, goal=None))
    assert (without.stopped, without.best_epoch) == ("epochs", 3)


def test_the_average_of_the_weights_is_validated_and_kept(tmp_path: Path) -> None:
    """Steps 1 to 4 of a run that counts the last two: a mean of two, then half of the new and half of the mean."""
    after, seen = [], []

    def optimiser(module: torch.nn.Module) -> torch.optim.Optimizer:
        made = torch.optim.SGD(module.parameters(), lr=0.01)
        made.register_step_post_hook(lambda *_: after.append(module.w.detach().clone()))
        return made

    step = Toy()
    schedule = Schedule(epochs=4, batch_size=10, average_over=2)
    look = lambda module: seen.append(module.w.detach().clone()) or {"figure": float(len(seen))}  # noqa: E731
    toy_run(tmp_path / "average", step=step, schedule=schedule, optimiser=optimiser, validate=look)
    expected = [after[0], (after[0] + after[1]) / 2]
    for now in after[2:]:
        expected.append((expected[-1] + now) / 2)
    for found, mean in zip(seen, expected, strict=True):
        torch.testing.assert_close(found, mean)
    torch.testing.assert_close(step.w.detach(), expected[-1])
    plain = Toy()
    toy_run(tmp_path / "plain", step=plain, schedule=dataclasses.replace(schedule, average_over=None))
    losses = [[call[2] for call in toy.calls] for toy in (step, plain)]
    assert losses[0] == losses[1]  # training itself does not see the average


def test_long_gradients_are_cut(tmp_path: Path) -> None:
    """With plain gradient descent, no step is longer than the learning rate times the norm, and the first, whose
    gradient is long, is just as long."""
    after = [torch.zeros(2)]

    def optimiser(module: nn.Module) -> torch.optim.Optimizer:
        made = torch.optim.SGD(module.parameters(), lr=0.5)
        made.register_step_post_hook(lambda *_: after.append(module.w.detach().clone()))
        return made

    toy_run(tmp_path, schedule=Schedule(epochs=4, batch_size=10, clip_norm=0.1), optimiser=optimiser)
    lengths = [(now - before).norm().item() for before, now in itertools.pairwise(after)]
    assert lengths[0] == pytest.approx(0.05, rel=1e-4)
    assert max(lengths) <= 0.0501


def test_the_temperature_reaches_the_step(tmp_path: Path) -> None:
    step = Toy()
    toy_run(
        tmp_path,
        [0.3],
        step=step,
        temperature=PlateauTemperature(1.0, factor=0.5, patience=0),
        schedule=Schedule(epochs=4, batch_size=10),
    )
    # Epoch 1 is a gain; 2, 3 and 4 are none, and each drops it.
    assert [temperature for _, temperature, _ in step.calls] == [1.0, 1.0, 0.5, 0.25]
    assert [row["temperature"] for row in read_curves(tmp_path / "curves.csv")] == [1.0, 1.0, 0.5, 0.25]


def test_milestones_are_epochs_however_often_one_validates(tmp_path: Path) -> None:
    step = Toy()
    temperature = MilestoneTemperature(1.0, factor=0.5, epochs=[1, 4])
    schedule = Schedule(epochs=6, batch_size=10, validate_every=3)
    toy_run(tmp_path, step=step, temperature=temperature, schedule=schedule)
    assert [temperature for _, temperature, _ in step.calls] == [1.0, 0.5, 0.5, 0.5, 0.25, 0.25]


@pytest.mark.parametrize("restart", [False, True])
def test_optimiser_and_schedule_begin_anew_at_a_drop(tmp_path: Path, restart: bool) -> None:
    made: list[torch.optim.Optimizer] = []

    def optimiser(module: nn.Module) -> torch.optim.Optimizer:
        made.append(torch.optim.Adam(module.parameters()))
        return made[-1]

    toy_run(
        tmp_path,
        optimiser=optimiser,
        scheduler=lambda optimiser: triangular(optimiser, 1.0, 10),
        temperature=MilestoneTemperature(1.0, factor=0.5, epochs=[2]),
        schedule=Schedule(epochs=4, batch_size=10, restart_on_drop=restart),
    )
    rates = [row["lr"] for row in read_curves(tmp_path / "curves.csv")]
    assert rates == pytest.approx([0.1, 0.2, 0.1, 0.2] if restart else [0.1, 0.2, 0.3, 0.4])
    assert len(made) == 1 + restart


def test_a_figure_that_is_no_number_is_never_the_best(tmp_path: Path) -> None:
    outcome = toy_run(tmp_path / "one", [math.nan, 0.2, math.nan])
    assert (outcome.best, outcome.best_epoch) == (0.2, 2)
    step = Toy()
    outcome = toy_run(tmp_path / "none", 3 * [math.nan], step=step)
    assert outcome.best is None
    assert not (tmp_path / "none" / "checkpoints" / "best.safetensors").exists()
    assert outcome.train_seconds < outcome.total_seconds
    assert torch.equal(step.w, last_weights(tmp_path / "none")["w"])


def test_validation_is_in_eval_mode_and_every_part_gets_its_mode_back(tmp_path: Path) -> None:
    step, modes = Toy(), []
    step.dropout.eval()

    def look(step: nn.Module) -> dict[str, float]:
        modes.append((step.training, torch.is_grad_enabled()))
        return {"figure": 0.0}

    toy_run(tmp_path, step=step, validate=look)
    assert modes == 3 * [(False, False)]
    assert step.training
    assert not step.dropout.training


def test_a_time_limit_ends_with_a_validation_and_can_be_raised(tmp_path: Path) -> None:
    whole, _ = run(tmp_path / "whole")
    short = dataclasses.replace(LAST_BATCH_IS_SMALLER, time_limit=0.0)
    outcome, step = run(tmp_path / "run", schedule=short)
    assert (outcome.stopped, outcome.epochs, outcome.steps, outcome.best_steps) == ("time limit", 0, 0, None)

    class Slow(type(make_step())):  # type: ignore[misc]
        def forward(self, *args: Any, **rest: Any) -> Any:
            threading.Event().wait(0.2)  # the limit falls before the end of the first epoch
            return super().forward(*args, **rest)

    step = make_step()
    step.__class__ = Slow
    limited = dataclasses.replace(short, time_limit=outcome.total_seconds + 1.0)
    outcome, step = run(tmp_path / "run", step, schedule=limited, resume=True)
    assert outcome.stopped == "time limit"
    assert 0 < outcome.steps < whole.steps
    assert outcome.best_steps == outcome.steps
    assert validate(step) == outcome.figures
    assert run(tmp_path / "run", schedule=limited, resume=True)[0] == outcome

    run(tmp_path / "run", schedule=LAST_BATCH_IS_SMALLER, resume=True)
    assert_same_weights(last_weights(tmp_path / "run"), last_weights(tmp_path / "whole"))


def test_more_epochs_continue_a_finished_run_and_the_same_do_nothing(tmp_path: Path) -> None:
    run(tmp_path / "whole")
    first, step = run(tmp_path / "run", schedule=dataclasses.replace(LAST_BATCH_IS_SMALLER, epochs=2))

    def never(step: nn.Module) -> dict[str, float]:
        raise AssertionError("a finished run needs no validation")

    fresh = make_step()
    schedule = dataclasses.replace(LAST_BATCH_IS_SMALLER, epochs=2)
    again, fresh = run(tmp_path / "run", fresh, schedule=schedule, validate=never, resume=True)
    assert again == first
    assert_same_weights(weights(fresh), weights(step))

    second, _ = run(tmp_path / "run", resume=True)
    assert second.epochs == 4
    assert second.total_seconds > first.total_seconds
    assert_same_weights(last_weights(tmp_path / "run"), last_weights(tmp_path / "whole"))
    assert "epochs: 4" in (tmp_path / "run" / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 1}, "training.seed is 0, and 1"),
        ({"schedule": Schedule(epochs=4, batch_size=8, patience=10)}, "training.batch_size is 9, and 8"),
        ({"data": tuple(tensor[:50] for tensor in examples())}, "training.data is"),
        ({"monitor": "vector_accuracy"}, "training.monitor is variable_accuracy"),
        ({"folder": RunFolder("unused", {"task": "sudoku"})}, "task is tour, and sudoku"),
        ({"scheduler": None}, None),
        ({"step": nn.Linear(2, 2)}, "must be those of the run"),
    ],
)
def test_another_configuration_cannot_be_resumed(tmp_path: Path, changes: dict[str, Any], message: str | None) -> None:
    one = dataclasses.replace(LAST_BATCH_IS_SMALLER, epochs=1)
    run(tmp_path, schedule=one)
    before = (tmp_path / "config.yaml").read_bytes()
    if isinstance(changes.get("folder"), RunFolder):
        changes = {"folder": RunFolder(tmp_path, changes["folder"].config)}
    with pytest.raises(InputError, match=message or "must be those of the run"):
        run(tmp_path, **{"schedule": one, "resume": True} | changes)
    assert (tmp_path / "config.yaml").read_bytes() == before


@pytest.mark.parametrize(
    ("call", "steps"),
    # Batches of 4, 4 and 2: never between the last two, since a resumed step would be compiled for the smaller one.
    [(0, 1), (1, 3), (2, 3), (3, 4)],
)
def test_a_signal_ends_a_run_between_steps_and_handlers_come_back(tmp_path: Path, call: int, steps: int) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    class Interrupted(Toy):
        def forward(self, *args: Any, **rest: Any) -> Any:
            if len(self.calls) == call:
                signal.raise_signal(signal.SIGTERM)
            return super().forward(*args, **rest)

    outcome = toy_run(tmp_path / "run", step=Interrupted())
    assert (outcome.stopped, outcome.steps) == ("interrupted", steps)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert not (tmp_path / "run" / "curves.png").exists()
    toy_run(tmp_path / "run", resume=True)
    toy_run(tmp_path / "whole")
    assert_same_weights(last_weights(tmp_path / "run"), last_weights(tmp_path / "whole"))


def test_a_signal_in_a_validation_ends_it_and_it_is_done_again(tmp_path: Path) -> None:
    count = 0

    def interrupted(step: nn.Module) -> Any:
        nonlocal count
        count += 1
        torch.rand(3)  # random numbers that the next attempt must not miss
        if count == 2:
            signal.raise_signal(signal.SIGTERM)
            raise AssertionError("not interrupted")
        return validate(step)

    def drawing(step: nn.Module) -> Any:
        torch.rand(3)
        return validate(step)

    run(tmp_path / "whole", validate=drawing)
    outcome, _ = run(tmp_path / "run", validate=interrupted)
    assert (outcome.stopped, outcome.epochs, outcome.steps) == ("interrupted", 1, 14)
    outcome, _ = run(tmp_path / "run", validate=drawing, resume=True)
    assert outcome.epochs == 4
    assert_same_weights(last_weights(tmp_path / "run"), last_weights(tmp_path / "whole"))


def test_a_run_in_another_thread_takes_no_handlers(tmp_path: Path) -> None:
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(toy_run(tmp_path)))
    thread.start()
    thread.join()
    assert outcomes[0].stopped == "epochs"


def test_an_own_fabric_gives_the_same_numbers(tmp_path: Path) -> None:
    from lightning_fabric import Fabric

    run(tmp_path / "bare")
    run(tmp_path / "fabric", fabric=Fabric(accelerator="cpu", devices=1))
    assert_same_weights(last_weights(tmp_path / "bare"), last_weights(tmp_path / "fabric"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": toy_data()[:1]}, "data must hold x and the solutions, got 1"),
        ({"data": (torch.zeros(3, 2), torch.zeros(4, 1))}, r"one first dimension, above 0, got \[3, 4\]"),
        ({"data": (torch.zeros(0, 2), torch.zeros(0, 1))}, r"above 0, got \[0, 0\]"),
        ({"monitor": "accuracy"}, "must return the monitored figure 'accuracy', got figure"),
    ],
)
def test_unusable_arguments(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        toy_run(tmp_path, **changes)


def test_a_validation_that_changes_its_figures(tmp_path: Path) -> None:
    names = iter(("a", "b"))
    with pytest.raises(InputError, match=r"the same figures.*validation/a.*validation/b"):
        toy_run(tmp_path, validate=lambda step: {"figure": 0.0, next(names): 1.0})


def test_a_state_that_cannot_be_read_again_is_refused_at_the_start(tmp_path: Path) -> None:
    class Odd(PlateauTemperature):
        def state_dict(self) -> dict[str, Any]:
            return {"odd": Odd}

    with pytest.raises(InputError, match="plain containers to be checkpointed"):
        toy_run(tmp_path, temperature=Odd(1.0))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"epochs": 0, "batch_size": 1}, "epochs must be a whole number of at least 1, got 0"),
        ({"epochs": 1, "batch_size": 0}, "batch_size must be"),
        ({"epochs": 1, "batch_size": 1, "validate_every": 0}, "validate_every must be"),
        ({"epochs": 1, "batch_size": 1, "patience": 0}, "patience must be"),
        ({"epochs": 1, "batch_size": 1, "clip_norm": 0.0}, "clip_norm must be positive, got 0.0"),
        ({"epochs": 1, "batch_size": 1, "time_limit": -1.0}, "time_limit must be at least 0 seconds, got -1.0"),
        ({"epochs": 1, "batch_size": 1, "checkpoint_every": math.nan}, "checkpoint_every must be at least 0"),
    ],
)
def test_unusable_schedules(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Schedule(**fields)
