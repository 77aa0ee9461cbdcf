"""The methods on random constraints: what they learn, what they call, and that a stopped run goes on."""

from __future__ import annotations

import dataclasses
import functools
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import safetensors.torch
import torch
import yaml

from neuralilp import FileFormatError, InputError
from neuralilp.evidence import valid_cuts
from neuralilp.polishing import Polishing, PolishState
from neuralilp.solving import base
from neuralilp.tasks.random_constraints import methods, plus
from neuralilp.tasks.random_constraints.data import Dataset
from neuralilp.tasks.random_constraints.generate import generate
from neuralilp.tasks.random_constraints.job import Job, answers, new_model, rows_of, summary, with_cuts
from neuralilp.training import RunFolder, Standing, curves, read_curves
from neuralilp.training.curves import TIMED
from neuralilp.training.progress import Silence

SETTING = {"domain": "small", "constraints": 2, "dataset": 0}
QUICK = Polishing(rounds=4, steps=20, prune_round=1, hops=2)
VALIDATION, TEST = 100, 40


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """5 variables in [-3, 3], 2 rows, 60 examples to train on."""
    box = {"lower": -3, "upper": 3}
    return generate("small/2/0", num_constraints=2, num_variables=5, num_train=160, num_test=TEST, seed=1, **box)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    make_quick(monkeypatch)


def make_quick(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plus, "POLISHING", QUICK)
    patch.setattr(plus, "RESTARTS", 2)
    fit = functools.partial(plus.fit_optimality_conditions, iterations=300)
    patch.setattr(plus, "fit_optimality_conditions", fit)
    patch.setattr(curves, "draw_curves", lambda rows, path: None)


class Known(NamedTuple):
    """A run that tests compare with; none of them changes its folder."""

    folder: Path
    record: dict[str, Any]
    solved: list[int]


@pytest.fixture(scope="module")
def whole(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Known:
    """A quick run of ilploss-plus."""
    return known_run(dataset, tmp_path_factory.mktemp("runs") / "whole")


@pytest.fixture(scope="module")
def short(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Known:
    """The same without time for a single round."""
    return known_run(dataset, tmp_path_factory.mktemp("runs") / "short", time_limit=0.0)


def known_run(dataset: Dataset, folder: Path, **options: Any) -> Known:
    with pytest.MonkeyPatch.context() as patch:
        make_quick(patch)
        solved = count_solves(patch)
        return Known(folder, finished(dataset, "ilploss-plus", folder, **options), solved)


@pytest.fixture
def broken_off(short: Known, tmp_path: Path) -> Path:
    """A copy of it without its record: a run to be resumed."""
    folder = tmp_path / "off"
    shutil.copytree(short.folder, folder)
    (folder / "record.json").unlink()
    return folder


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return count_solves(monkeypatch)


def count_solves(patch: pytest.MonkeyPatch) -> list[int]:
    """How many instances each call of ``solve`` has, whoever calls it."""
    sizes = []

    def counting(task: Any, size: int, *rest: Any) -> Any:
        sizes.append(size)
        return SOLVE_ALL(task, size, *rest)

    patch.setattr(base, "solve_all", counting)
    return sizes


SOLVE_ALL = base.solve_all


def run(dataset: Dataset, method: str, out: Path, **options: Any) -> dict[str, Any] | None:
    defaults: dict[str, Any] = {"setting": SETTING, "num_constraints": 4, "compile": False}
    return methods.run(dataset, method, out=out, **{**defaults, **options})


def finished(dataset: Dataset, method: str, out: Path, **options: Any) -> dict[str, Any]:
    record = run(dataset, method, out, **options)
    assert record is not None
    return record


def timeless(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in ("train_seconds", "total_seconds")}


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(folder / "model" / "weights.safetensors")


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_same_model(first: Path, second: Path) -> None:
    one, two = weights(first), weights(second)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


# -- ilploss-plus ------------------------------------------------------------------------------------------------------


def test_plus_calls_the_solver_to_validate_and_test_alone(whole: Known) -> None:
    record, rows = whole.record, read_curves(whole.folder / "curves.csv")
    assert [row["epoch"] for row in rows] == [2, 3, 4]  # from the round on that leaves one restart
    assert_solved(whole.solved, validations=len(rows))
    best = max(row["validation/vector_accuracy"] for row in rows)
    assert record["validation"]["vector_accuracy"] == best
    assert record["best_epoch"] == max(row["epoch"] for row in rows if row["validation/vector_accuracy"] == best)
    at_best = next(row for row in rows if row["epoch"] == record["best_epoch"])
    assert record["train_seconds"] == pytest.approx(at_best["train_seconds"], abs=1e-3)
    assert record["train_seconds"] < record["total_seconds"]
    assert (record["stopped"], record["epochs"]) == ("epochs", QUICK.rounds)


def assert_solved(sizes: list[int], validations: int) -> None:
    """Every validation, the test, and those of the test again whose answers violate a cut."""
    assert sizes[: validations + 1] == [VALIDATION] * validations + [TEST]
    again = sizes[validations + 1 :]
    assert len(again) <= 1
    assert sum(again) < TEST


class Stopping(Silence):
    """Sends the signal of ``kill`` after every round."""

    def __init__(self) -> None:
        self.rounds: list[float] = []

    def validated(self, standing: Standing) -> None:
        self.rounds.append(standing.epoch)
        signal.raise_signal(signal.SIGTERM)


def test_plus_stopped_after_every_round_is_the_same_run(
    dataset: Dataset, tmp_path: Path, quick: None, whole: Known
) -> None:
    report, folder, pieces = Stopping(), tmp_path / "pieces", 0
    while (record := run(dataset, "ilploss-plus", folder, report=report, resume=True)) is None:
        pieces += 1
        assert not (folder / "record.json").exists()
    assert pieces == QUICK.rounds
    assert report.rounds == list(range(1, QUICK.rounds + 1))
    assert timeless(record) == timeless(whole.record)
    assert_same_model(folder, whole.folder)
    rows, expected = (read_curves(path / "curves.csv") for path in (folder, whole.folder))
    for row in (*rows, *expected):
        for name in TIMED:
            del row[name]
    assert rows == expected
    assert logged_steps(folder) == [row["steps"] for row in rows]


def logged_steps(folder: Path) -> list[int]:
    """What TensorBoard shows of a run in several pieces."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    # TensorBoard goes by the names, which end in a number that counts the files of a process: 10 is before 9.
    files = sorted((folder / "tensorboard").iterdir(), key=lambda path: int(path.suffix[1:]))
    for number, path in enumerate(files):
        path.rename(path.with_name(f"{number:03d}.tfevents"))
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return [event.step for event in events.Scalars("validation/vector_accuracy")]


def test_plus_interrupted_in_the_warm_start_begins_again(
    dataset: Dataset, tmp_path: Path, quick: None, short: Known
) -> None:
    class Early(Silence):
        def tick(self, standing: Standing) -> None:
            assert standing.epoch == 0
            assert standing.terms["optimality"] > 0
            signal.raise_signal(signal.SIGTERM)

    assert run(dataset, "ilploss-plus", tmp_path, report=Early()) is None
    assert not (tmp_path / "checkpoints").exists()
    finished(dataset, "ilploss-plus", tmp_path, time_limit=0.0, resume=True)
    assert_same_model(tmp_path, short.folder)


@pytest.mark.parametrize("method", ["ilploss-plus", "ilploss"])
def test_interrupted_in_the_test(
    dataset: Dataset, tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def interrupted(task: Any, size: int, *rest: Any) -> Any:
        if size == TEST:
            signal.raise_signal(signal.SIGTERM)
        return SOLVE_ALL(task, size, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(base, "solve_all", interrupted)
        assert run(dataset, method, tmp_path, time_limit=0.3) is None
    before = content(tmp_path / "checkpoints")
    assert not (tmp_path / "record.json").exists()
    record = finished(dataset, method, tmp_path, time_limit=0.3, resume=True)
    assert read_curves(tmp_path / "curves.csv")[-1]["epoch"] == record["epochs"]
    assert content(tmp_path / "checkpoints") == before
    best = safetensors.torch.load_file(tmp_path / "checkpoints" / "best.safetensors")
    if method == "ilploss":
        restart = int(record["validation"]["restart"])
        best = {name.removeprefix("model."): value for name, value in best.items()}
        best |= {name: best[name][restart, 0] for name in weights(tmp_path) if name.startswith("constraints.0.")}
    assert all(torch.equal(best[name], value) for name, value in weights(tmp_path).items())


def test_plus_out_of_time_gives_what_it_has(short: Known) -> None:
    # The warm start, and one validation of its best restart with all its rows.
    record = short.record
    assert (record["stopped"], record["epochs"], record["best_epoch"]) == ("time limit", 0, 0)
    assert_solved(short.solved, validations=1)
    assert len(weights(short.folder)["constraints.0.a"]) == 4
    assert len(read_curves(short.folder / "curves.csv")) == 1
    # Tight to the examples as they are, warm rows are right more often than not.
    assert record["test"]["vector_accuracy"] > 0.5


def test_the_model_of_several_restarts_is_that_of_the_best() -> None:
    # The second one leaves 3 points and examples on the wrong side, the others 4 and 9.
    a = torch.nn.functional.normalize(torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(0)), dim=-1)
    b = torch.arange(12.0).view(3, 4)
    wrong = {"unseparated": torch.tensor([4, 1, 0]), "violated": torch.tensor([0, 2, 9])}
    state = PolishState(round=2, a=a, b=b, pool=torch.zeros(5, 2), loss=torch.tensor([0.0, 1.0, 0.0]), **wrong)
    block = plus.model_of(tiny(), state)(torch.ones(2)).blocks[0]
    torch.testing.assert_close(block.a, a[1])
    torch.testing.assert_close(block.b, b[1])
    assert plus.terms_of(state) == {"loss": 1.0, "unseparated": 1.0, "violated": 2.0, "rows": 4.0, "pool": 5.0}


def test_plus_goes_on_with_more_time(dataset: Dataset, quick: None, whole: Known, broken_off: Path) -> None:
    record = finished(dataset, "ilploss-plus", broken_off, resume=True)
    assert timeless(record) == timeless(whole.record)
    assert_same_model(broken_off, whole.folder)


def test_plus_learns_from_consistent_examples_alone(dataset: Dataset, tmp_path: Path, quick: None) -> None:
    # Three labels that break the true rows: the optimum of the box, which is far too cheap for other costs.
    solution = dataset.solution.clone()
    free = torch.where(dataset.cost < 0, dataset.upper, dataset.lower)
    assert dataset.true_a is not None
    assert dataset.true_b is not None
    broken = (free @ dataset.true_a.mT + dataset.true_b).amin(-1)[:60].argsort()[:3]
    solution[broken] = free[broken]
    wrong = dataclasses.replace(dataset, solution=solution)
    record = finished(wrong, "ilploss-plus", tmp_path)
    assert record["data_fingerprint"] != dataset.fingerprint
    assert record["test"]["vector_accuracy"] >= 0.85


def test_plus_without_anything_to_learn(dataset: Dataset, tmp_path: Path, quick: None) -> None:
    # The optimum of the box is always feasible: no point is a negative, and no example may be cut off.
    free = torch.where(dataset.cost < 0, dataset.upper, dataset.lower)
    record = finished(dataclasses.replace(dataset, solution=free), "ilploss-plus", tmp_path)
    assert read_curves(tmp_path / "curves.csv")[-1]["train/pool"] == 0
    assert record["test"]["vector_accuracy"] > 0.5


def test_plus_on_binary_variables(tmp_path: Path, quick: None) -> None:
    options = {"num_variables": 6, "num_train": 250, "num_test": TEST, "seed": 3}
    binary = generate("binary", num_constraints=2, lower=0, upper=1, **options)
    record = finished(binary, "ilploss-plus", tmp_path)
    assert record["test"]["vector_accuracy"] >= 0.9
    assert record["test"]["vector_accuracy"] >= record["test_without_cuts"]["vector_accuracy"]


@pytest.mark.parametrize("radius", [100.0, 0.5, -100.0])
def test_cuts_of_all_known_examples_help_at_the_test(dataset: Dataset, radius: float) -> None:
    # Rows that hold everywhere, so that the cuts alone decide; rows at random; rows that nothing satisfies.
    model = new_model(dataset, 3, torch.Generator().manual_seed(0))
    split = dataset.split()
    with torch.no_grad():
        model.constraints[0].radius.fill_(radius)
    solutions = [
        answers(model, split.test, 5.0, cuts)
        for cuts in (None, valid_cuts(dataset.cost[:160], dataset.solution[:160]), valid_cuts(*split.train))
    ]
    plain, cut, less = ((summary(solution.z, split.test), solution.counts()) for solution in solutions)
    entries = methods.final_figures(model, split, is_cut=True)
    assert (entries["test"], entries["statuses"]) == cut
    assert (entries["test_without_cuts"], entries["statuses_without_cuts"]) == plain
    assert methods.final_figures(model, split, is_cut=False) == {"test": plain[0], "statuses": plain[1]}
    if radius == 100.0:
        assert plain[0]["vector_accuracy"] < less[0]["vector_accuracy"] < cut[0]["vector_accuracy"]
    if radius == -100.0:
        assert cut == ({"vector_accuracy": 0.0, "variable_accuracy": 0.0}, {"infeasible": TEST})


def test_answers_with_cuts_are_those_of_solving_with_them(dataset: Dataset) -> None:
    model = new_model(dataset, 3, torch.Generator().manual_seed(0))
    examples, cuts = dataset.split().test, valid_cuts(dataset.cost[:160], dataset.solution[:160])
    without = answers(model, examples, 5.0)
    again = with_cuts(model, examples, 5.0, cuts, without)
    expected = answers(model, examples, 5.0, cuts)
    assert not torch.equal(without.z, expected.z)
    assert torch.equal(again.z, expected.z)
    assert torch.equal(again.objective, expected.objective)
    assert again.status == expected.status


def test_a_checkpoint_of_another_kind_is_told(dataset: Dataset, quick: None, broken_off: Path) -> None:
    last = broken_off / "checkpoints" / "last.pt"
    saved = torch.load(last, weights_only=True)
    del saved["figures"]
    torch.save(saved, last)
    with pytest.raises(FileFormatError, match=r"last\.pt is no checkpoint of ilploss-plus: 'figures'"):
        run(dataset, "ilploss-plus", broken_off, resume=True)


# -- all of them -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["ilploss", "solver-negatives", "comboptnet"])
def test_who_calls_the_solver(
    dataset: Dataset, tmp_path: Path, quick: None, solved: list[int], method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "SOLVED_SHARE", 1.0)
    record = finished(dataset, method, tmp_path, time_limit=0.3)
    assert record["steps"] > 0
    rows = read_curves(tmp_path / "curves.csv")
    # A validation of four restarts: all of them on a quarter, then half of them on the next, then one.
    size, calls = (VALIDATION // 4, 4 + 2 + 1 + 1) if method == "ilploss" else (VALIDATION, 1)
    in_steps = [other for other in solved if other not in (size, TEST)]
    assert len(solved) == len(rows) * calls + 1 + len(in_steps)
    assert solved[-1] == TEST
    if method == "ilploss":
        assert not in_steps
    else:  # one call a step: of a batch, or of the rest of an epoch
        assert len(in_steps) == record["steps"]
        assert set(in_steps) <= ({10} if method == "solver-negatives" else {8, 60 % 8})


def test_validations_of_ilploss_fall_on_ends_of_a_cycle() -> None:
    """With the 1,500 examples of the published datasets."""
    recipe = methods.ilploss(new_model(tiny(), 1, torch.Generator()), False)
    optimiser = recipe.optimiser(recipe.step)
    assert recipe.scheduler is not None
    scheduler = recipe.scheduler(optimiser)
    assert scheduler is not None
    rates = []
    for _ in range(recipe.schedule.validate_every * 1500 // recipe.schedule.batch_size):
        optimiser.step()
        scheduler.step()
        rates.append(optimiser.param_groups[0]["lr"])
    assert max(rates) == pytest.approx(1e-3)
    assert rates[-1] == pytest.approx(0, abs=1e-9)


def tiny(lower: float = -1.0) -> Dataset:
    ones = torch.ones(3, 2)
    return Dataset("tiny", ones, ones, lower * ones[0], ones[0], num_train=2)


@pytest.mark.parametrize(
    ("lower", "rows", "restarts", "exchange", "after"),
    [
        (0, 2, 4, 1.0, 12),
        (0, 4, 4, 1.0, 12),
        (0, 8, 4, 2.0, 12),
        (0, 16, 4, 4.0, 16),
        (-1, 2, 4, 1.0, 8),
        (-1, 4, 4, 1.0, 8),
        (-1, 8, 8, 2.0, 8),
        (-1, 16, 8, 1.0, 8),
    ],
)
def test_settings_of_ilploss_by_the_box_and_the_rows(
    lower: float, rows: int, restarts: int, exchange: float, after: int
) -> None:
    assert methods.restarts_of("ilploss", tiny(lower), rows) == restarts
    assert methods.restarts_of("solver-negatives", tiny(lower), rows) is None
    facts = methods.ilploss(new_model(tiny(lower), rows, torch.Generator()), False).facts
    assert facts["steering"]["exchange"] == exchange
    assert facts["learning_rate"]["after"] == after
    assert ("fade" in facts["steering"]) == (lower == 0)


def test_rows_start_in_the_middle_half_of_the_box() -> None:
    rows = new_model(tiny(), 50, torch.Generator().manual_seed(0)).constraints[0]
    assert rows.origin.abs().max() <= 0.5
    assert rows.origin.abs().max() > 0.4
    assert torch.equal(rows.radius, torch.full((50,), 0.2))
    assert rows.a.abs().max() <= 0.5


def test_no_random_numbers_but_those_of_the_seed(dataset: Dataset, tmp_path: Path, quick: None, short: Known) -> None:
    torch.rand(3)
    before = torch.get_rng_state()
    record = finished(dataset, "ilploss-plus", tmp_path / "again", time_limit=0.0)
    assert torch.equal(torch.get_rng_state(), before)
    assert timeless(record) == timeless(short.record)
    assert_same_model(tmp_path / "again", short.folder)
    finished(dataset, "ilploss-plus", tmp_path / "other", time_limit=0.0, seed=6)
    other, same = (weights(folder)["constraints.0.a"] for folder in (tmp_path / "other", short.folder))
    assert not torch.equal(other, same)


def test_the_start_of_ilploss_is_its_seed_s(dataset: Dataset, tmp_path: Path, quick: None) -> None:
    """Without time for a step, the model is the start."""
    finished(dataset, "ilploss", tmp_path, time_limit=0.0, seed=3)
    starts = new_model(dataset, 4, torch.Generator().manual_seed(3), restarts=4)
    expected = starts.restart(0).state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in weights(tmp_path).items())


def test_the_restart_that_validates_best_is_kept(dataset: Dataset, tmp_path: Path) -> None:
    """The second of three: its rows hold for all examples; those of the others cut off all of the box."""
    model = new_model(dataset, 4, torch.Generator().manual_seed(0), restarts=3)
    rows = rows_of(model)
    with torch.no_grad():
        rows.radius.copy_(torch.tensor([-100.0, 100.0, -100.0]).view(3, 1, 1).expand(3, 1, 4))
    job = Job(RunFolder(tmp_path), 0, None, False, False, None, dataset, dataset.split(), 4)
    figures = job.validate(model)
    alone = job.validate(model.restart(1))
    assert figures == {**alone, "restart": 1.0}
    assert alone["variable_accuracy"] > 0


@pytest.mark.parametrize(("lower", "dropped"), [(0.0, 41), (-9.0, 141)])
def test_the_temperature_falls_later_and_less_in_a_wide_box(lower: float, dropped: int) -> None:
    ones = torch.ones(3, 2)
    data = Dataset("tiny", ones, ones, lower * ones[0], ones[0], num_train=2)
    temperature = methods.ilploss(new_model(data, 2, torch.Generator(), restarts=3), False).temperature
    for _ in range(dropped - 2):
        temperature.step(0.0)
    assert temperature.value == 1.0
    assert temperature.step(0.0)
    assert temperature.value == pytest.approx(0.3)
    for _ in range(400):
        temperature.step(0.0)
    assert temperature.value == pytest.approx((1 - lower) / 100)


def test_a_run_that_is_over_stays_as_it_is(dataset: Dataset, quick: None, solved: list[int], short: Known) -> None:
    before = content(short.folder)
    assert run(dataset, "ilploss-plus", short.folder, time_limit=60.0, resume=True) == short.record
    assert not solved
    assert content(short.folder) == before


def test_nothing_begins_where_a_run_is(dataset: Dataset, quick: None, short: Known) -> None:
    before = content(short.folder)
    with pytest.raises(InputError, match="holds a run already: resume it, or take another folder"):
        run(dataset, "ilploss-plus", short.folder, seed=1)
    assert content(short.folder) == before


Change = Callable[[Dataset], dict[str, Any]]
OTHERS: dict[str, Change] = {
    "seed": lambda _: {"seed": 1},
    "method": lambda _: {"method": "ilploss"},
    "rows": lambda _: {"num_constraints": 3},
    "setting": lambda _: {"setting": {**SETTING, "dataset": 1}},
    "data_fingerprint": lambda dataset: {"dataset": dataclasses.replace(dataset, cost=dataset.cost * 2)},
}


@pytest.mark.parametrize("what", OTHERS)
def test_another_run_is_not_resumed(dataset: Dataset, quick: None, short: Known, broken_off: Path, what: str) -> None:
    for folder in (short.folder, broken_off):
        before = content(folder)
        arguments = {"dataset": dataset, "method": "ilploss-plus", "resume": True, **OTHERS[what](dataset)}
        with pytest.raises(InputError, match=f"holds another run: its {what}.* is .*, and .* was asked for"):
            run(out=folder, **arguments)
        assert content(folder) == before


def test_other_settings_of_the_method_are_another_run(
    dataset: Dataset, quick: None, broken_off: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plus, "POLISHING", dataclasses.replace(QUICK, steps=21))
    with pytest.raises(InputError, match=r"its training\.steps is 20, and 21 was asked for"):
        run(dataset, "ilploss-plus", broken_off, resume=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "magic"}, "method must be one of ilploss, ilploss-plus, comboptnet, solver-negatives, got 'magic'"),
        ({"num_constraints": 0}, "num_constraints must be positive, got 0"),
        ({"seed": -1}, "seed must be between 0 and"),
        ({"seed": 2**63}, "seed must be between 0 and"),
        ({"time_limit": float("nan")}, "time_limit must be at least 0 seconds, got nan"),
        ({"method": "ilploss", "time_limit": -1.0}, "time_limit must be at least 0 seconds, got -1"),
    ],
)
def test_bad_arguments_leave_nothing_behind(
    dataset: Dataset, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        run(dataset, out=tmp_path / "run", **{"method": "ilploss-plus", **options})
    assert not list(tmp_path.iterdir())


def test_the_configuration_says_what_was_run(short: Known, dataset: Dataset) -> None:
    config = yaml.safe_load((short.folder / "config.yaml").read_text())
    assert config["task"] == "random-constraints"
    assert config["method"] == "ilploss-plus"
    assert config["setting"] == SETTING
    assert (config["seed"], config["rows"]) == (0, 4)
    assert config["data_fingerprint"] == dataset.fingerprint
    assert config["training"]["restarts"] == 2
    assert config["training"]["margins"] == list(QUICK.margins)
