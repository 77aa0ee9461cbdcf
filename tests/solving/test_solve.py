"""solve itself: input checks, the check of answers, statuses, parallel runs, progress, Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import joblib
import numpy as np
import pytest
import torch
from processes import heed_interrupts

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.errors import InputError, ShapeError
from neuralilp.program import IntegerProgram
from neuralilp.solving import Backend, CutPool, HighsBackend, Instance, Model, RawResult, Rows, Status, solve
from neuralilp.solving.instance import InstanceBatch


def program(batch: int = 3) -> IntegerProgram:
    generator = torch.Generator().manual_seed(0)
    return IntegerProgram(
        torch.randn(batch, 4, generator=generator),
        Bounds(torch.zeros(4), torch.ones(4)),
        (ConstraintBlock(torch.randn(2, 4, generator=generator), torch.ones(2)),),
    )


class Scripted(Backend):
    """A backend that answers what it is told, round by round."""

    name = "scripted"
    package = "torch"

    def __init__(self, *answers: RawResult, can_tighten: bool = False) -> None:
        self.answers = list(answers)
        self.can_tighten = can_tighten
        self.built: list[Instance] = []

    def build(self, instance: Instance) -> Model:
        self.built.append(instance)
        return _ScriptedModel(self)


class _ScriptedModel(Model):
    def __init__(self, backend: Scripted) -> None:
        self.backend = backend

    def add_rows(self, rows: Rows) -> None:
        pass

    def solve(self, time_limit: float | None, start: np.ndarray | None) -> RawResult:
        return self.backend.answers.pop(0)

    def interrupt(self) -> None:
        pass

    def tighten(self) -> bool:
        return self.backend.can_tighten


def test_statuses_speak() -> None:
    for status in Status:
        assert status.advice.endswith(".")
        assert status.has_solution == (status in (Status.OPTIMAL, Status.FEASIBLE))


def test_answers_are_rounded_and_checked() -> None:
    """x + y >= 1 in {0, 1}^2: (1, 0) passes even when it comes as 0.9999999, (0, 0) does not."""
    one = IntegerProgram(
        torch.ones(2), Bounds(torch.zeros(2), torch.ones(2)), (ConstraintBlock(torch.ones(1, 2), -torch.ones(1)),)
    )
    good = solve(one, backend=Scripted(RawResult(Status.OPTIMAL, np.array([0.9999999, -1e-9]))))
    assert good.z.tolist() == [1.0, 0.0]
    bad = solve(one, backend=Scripted(RawResult(Status.OPTIMAL, np.array([0.0, 0.0]))))
    assert bad.status == (Status.ERROR,)
    assert bad.z.isnan().all()
    assert "row 0 is violated" in bad.messages[0]
    outside = solve(one, backend=Scripted(RawResult(Status.OPTIMAL, np.array([2.0, 0.0]))))
    assert outside.status == (Status.ERROR,)
    assert "z[0] = 2 is outside [0, 1]" in outside.messages[0]


def test_a_failed_check_is_tried_again_with_tight_tolerances() -> None:
    bad, good = RawResult(Status.OPTIMAL, np.full(4, 2.0)), RawResult(Status.OPTIMAL, np.zeros(4))
    assert solve(program(1), backend=Scripted(bad, good, can_tighten=True)).status == (Status.OPTIMAL,)
    assert solve(program(1), backend=Scripted(bad, bad, can_tighten=True)).status == (Status.ERROR,)
    infinite = RawResult(Status.OPTIMAL, np.array([np.nan, 0.0, 0.0, 0.0]))
    assert solve(program(1), backend=Scripted(infinite)).messages[0].endswith("it is not finite")


def test_continuous_variables_follow_rounded_integers() -> None:
    """y = 10000 x, x integer: x = 1.0000004 is rounded to 1, and y = 10000.004 must become 10000."""
    mixed = IntegerProgram(
        torch.tensor([1.0, 0.0]),
        Bounds(torch.ones(2), torch.full((2,), 5e4)),
        (ConstraintBlock(torch.tensor([[-1e4, 1.0]]), torch.zeros(1), slack=torch.zeros(1)),),
        is_integer=torch.tensor([True, False]),
    )
    first = RawResult(Status.OPTIMAL, np.array([1.0000004, 10000.004]))
    backend = Scripted(first, RawResult(Status.OPTIMAL, np.array([1.0, 10000.0])))
    solution = solve(mixed, backend=backend)
    assert solution.z.tolist() == [1.0, 10000.0]
    refit = backend.built[1]
    assert not refit.is_integer.any()
    assert refit.lower[0] == refit.upper[0] == 1.0


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (RawResult(Status.INFEASIBLE), Status.INFEASIBLE),
        (RawResult(Status.OPTIMAL, np.zeros(4)), Status.UNBOUNDED),
        (RawResult(Status.NO_SOLUTION), Status.NO_SOLUTION),
        (RawResult(Status.ERROR, message="why"), Status.ERROR),
    ],
)
def test_unbounded_is_decided_by_a_solve_without_cost(second: RawResult, expected: Status) -> None:
    backend = Scripted(RawResult(Status.UNBOUNDED), second)
    solution = solve(program(1), backend=backend)
    assert solution.status == (expected,)
    assert solution.z.isnan().all()
    assert not backend.built[1].cost.any()


def test_an_incumbent_that_violates_a_cut_is_no_solution() -> None:
    cuts = CutPool(torch.ones(1, 4), -torch.ones(1))
    backend = Scripted(RawResult(Status.FEASIBLE, np.zeros(4)))
    solution = solve(program(1), backend=backend, cuts=cuts)
    assert solution.status == (Status.NO_SOLUTION,)
    assert "violates a cut" in solution.messages[0]


def test_a_cut_pool_can_bound_an_unbounded_program() -> None:
    unbounded = IntegerProgram(torch.tensor([-1.0]), Bounds(torch.zeros(1), torch.full((1,), float("inf"))))
    assert solve(unbounded).status == (Status.UNBOUNDED,)
    assert solve(unbounded, cuts=CutPool(-torch.ones(1, 1), torch.tensor([3.5]))).z.tolist() == [3.0]


def test_infeasible_cuts() -> None:
    assert solve(program(), cuts=CutPool(torch.zeros(1, 4), -torch.ones(1))).counts() == {"infeasible": 3}
    assert solve(program(), cuts=CutPool(torch.ones(1, 4), torch.full((1,), -9.0))).counts() == {"infeasible": 3}


def test_static_rows_are_shared_between_instances() -> None:
    batch = InstanceBatch(program())
    assert batch[0].rows.values is batch[2].rows.values


def test_rows_are_scaled_by_powers_of_two() -> None:
    rows = Rows.from_dense(np.array([[3e-5, 1e-5], [3.0, 4.0], [0.0, 0.0]]), lower=np.array([1e-5, 3.0, -1.0]))
    assert 0.5 <= rows.values[0] < 1.0
    assert rows.values[0] / 3e-5 == rows.scale[0] == 2.0 ** round(np.log2(rows.scale[0]))
    assert rows.scale[1:].tolist() == [1.0, 1.0]
    assert rows.lower[0] == 1e-5 * rows.scale[0]
    assert rows.tolerance[1] == pytest.approx(7e-6)


def test_double_precision_half_precision_and_devices_are_kept() -> None:
    for dtype in (torch.float64, torch.bfloat16):
        solution = solve(program().to(dtype))
        assert solution.z.dtype == solution.objective.dtype == dtype


def test_gradients_do_not_flow() -> None:
    learned = program().map(lambda tensor: tensor.clone().requires_grad_())
    assert not solve(learned).z.requires_grad


def test_empty_batch() -> None:
    solution = solve(program(0), progress=True)
    assert solution.z.shape == (0, 4)
    assert solution.objective.shape == (0,)
    assert solution.status == ()
    assert solution.counts() == {}


@pytest.mark.parametrize("workers", [2, -1])
def test_workers_do_not_change_answers(workers: int) -> None:
    many = program(40)
    assert torch.equal(solve(many).z, solve(many, workers=workers).z)


def test_processes_by_joblib_config() -> None:
    many = program(4)
    with joblib.parallel_config(backend="loky"):
        solution = solve(many, workers=2, cuts=CutPool(torch.ones(1, 4), torch.zeros(1)))
    assert torch.equal(solution.z, solve(many).z)


def test_an_error_in_cuts_reaches_the_caller() -> None:
    def broken(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise ZeroDivisionError("in the callback")

    for workers in (1, 2):
        with pytest.raises(ZeroDivisionError, match="in the callback"):
            solve(program(), cuts=broken, workers=workers)


def test_progress_is_plain_lines_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    solve(program())
    assert capsys.readouterr() == ("", "")
    solve(program(), progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "solved 3 of 3" in err
    assert "3 optimal" in err


def test_progress_is_a_bar_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    solve(program(), progress=True)
    assert "3/3" in capsys.readouterr().err


def test_bad_input() -> None:
    good = program()
    with pytest.raises(InputError, match="backend must be one of 'highs', 'cpsat', 'scip', 'gurobi'"):
        solve(good, backend="cplex")
    with pytest.raises(InputError, match="time_limit must be a non-negative"):
        solve(good, time_limit=-1.0)
    with pytest.raises(InputError, match="time_limit"):
        solve(good, time_limit=float("nan"))
    with pytest.raises(InputError, match="workers must be at least 1"):
        solve(good, workers=0)
    with pytest.raises(ShapeError, match=r"warm_start must have shape \(3, 4\), got \(2, 4\)"):
        solve(good, warm_start=torch.zeros(2, 4))
    with pytest.raises(ShapeError, match="cuts must have 4 variables"):
        solve(good, cuts=CutPool(torch.ones(1, 3), torch.ones(1)))
    with pytest.raises(InputError, match="cuts must be a CutPool or a function"):
        solve(good, cuts=3)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="the rows that cuts returns"):
        solve(good, cuts=lambda z: (np.ones((1, 3)), np.ones(1)))
    with pytest.raises(InputError, match="no_such_option"):
        solve(good, backend=HighsBackend(options={"no_such_option": 1}))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_must_be_finite(value: float) -> None:
    good = program()
    cost = good.cost.clone()
    cost[1, 2] = value
    with pytest.raises(InputError, match=r"cost must be finite: example 1, index 2 is"):
        solve(IntegerProgram(cost, good.bounds, good.blocks))
    a = good.blocks[0].a.clone()
    a[1, 3] = value
    with pytest.raises(InputError, match=r"blocks\[0\].a must be finite: index \[1, 3\] is"):
        solve(IntegerProgram(good.cost, good.bounds, (ConstraintBlock(a, good.blocks[0].b),)))
    b = torch.tensor([[1.0, 1.0], [1.0, value], [1.0, 1.0]])
    with pytest.raises(InputError, match=r"blocks\[0\].b must be finite: example 1, index 1 is"):
        solve(IntegerProgram(good.cost, good.bounds, (ConstraintBlock(good.blocks[0].a, b),)))
    with pytest.raises(InputError, match="slack must not be negative"):
        solve(IntegerProgram(good.cost, good.bounds, (ConstraintBlock(a[:1], b[0, :1], slack=-torch.ones(1)),)))


def test_bad_pools() -> None:
    with pytest.raises(ShapeError, match="cuts must be a `rows var` and b `rows`"):
        CutPool(torch.ones(2, 3), torch.ones(3))
    with pytest.raises(InputError, match="finite"):
        CutPool(torch.full((1, 3), float("nan")), torch.ones(1))
    with pytest.raises(InputError, match="max_rows"):
        CutPool(torch.ones(1, 3), torch.ones(1), max_rows=0)


@pytest.mark.skipif(os.name == "nt", reason="SIGINT cannot be sent to a child on Windows")
@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_stops_the_solvers(workers: int) -> None:
    """A market-split problem that would run for hours; the child must end with KeyboardInterrupt."""
    script = f"""
    import torch
    from neuralilp.blocks import Bounds, ConstraintBlock
    from neuralilp.program import IntegerProgram
    from neuralilp.solving import solve
    a = torch.randint(0, 100, (6, 50), generator=torch.Generator().manual_seed(0)).float()
    rows = ConstraintBlock(a, -(a.sum(-1) / 2).floor(), slack=torch.zeros(6))
    program = IntegerProgram(torch.zeros(4, 50), Bounds(torch.zeros(50), torch.ones(50)), (rows,))
    def cuts(z):
        return [], []
    print("solving", flush=True)
    try:
        solve(program, workers={workers}, cuts=cuts)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    """
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
        preexec_fn=heed_interrupts,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "solving\n"
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(1.0)
        child.send_signal(signal.SIGINT)
        output, _ = child.communicate(timeout=20)
        assert output == "interrupted\n"
    finally:
        child.kill()
        child.wait()
