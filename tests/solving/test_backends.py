"""What every backend in the registry must do; a new one is tested by being registered."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.errors import BackendMissingError, InputError, LicenceError
from neuralilp.program import IntegerProgram
from neuralilp.solving import BACKENDS, CutPool, Status, available_backends, solve
from neuralilp.solving.instance import InstanceBatch
from neuralilp.solving.single import Settings, solve_instance
from neuralilp.solving.stopping import Stopped, StopSignal

BruteForce = Callable[[IntegerProgram], Tensor | None]


@pytest.fixture(params=list(BACKENDS), scope="module")
def name(request: pytest.FixtureRequest) -> str:
    if request.param not in available_backends():
        pytest.skip(f"{request.param} is not installed: pip install 'neuralilp[{BACKENDS[request.param].extra}]'")
    return str(request.param)


def row(*a: float, b: float, slack: float | None = None) -> ConstraintBlock:
    return ConstraintBlock(
        torch.tensor([list(a)], dtype=torch.float32),
        torch.tensor([b]),
        slack=None if slack is None else torch.tensor([slack]),
    )


def box(cost: list[float], low: float, high: float, *blocks: ConstraintBlock) -> IntegerProgram:
    n = len(cost)
    return IntegerProgram(torch.tensor(cost), Bounds(torch.full((n,), low), torch.full((n,), high)), blocks)


@st.composite
def programs(draw: st.DrawFn) -> IntegerProgram:
    """Small programs with coefficients in eighths, so that no solver's tolerance decides feasibility."""
    n = draw(st.integers(1, 4))
    eighths = st.integers(-16, 16).map(lambda k: k / 8)

    def matrix(rows: int) -> Tensor:
        return torch.tensor(draw(st.lists(st.lists(eighths, min_size=n, max_size=n), min_size=rows, max_size=rows)))

    def vector(size: int, values: st.SearchStrategy[float]) -> Tensor:
        return torch.tensor(draw(st.lists(values, min_size=size, max_size=size)))

    blocks = []
    for is_learned in (False, True):
        rows = draw(st.integers(0, 3))
        if rows:
            blocks.append(ConstraintBlock(matrix(rows), vector(rows, eighths), is_learned=is_learned))
    if draw(st.booleans()):
        blocks.append(ConstraintBlock(matrix(1), vector(1, eighths), slack=vector(1, st.sampled_from([0.0, 0.3, 1.0]))))
    lower = vector(n, st.sampled_from([-2.0, -0.5, 0.0]))
    upper = vector(n, st.sampled_from([0.0, 1.0, 1.5, 2.0]))
    return IntegerProgram(vector(n, eighths), Bounds(lower, upper), tuple(blocks))


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(program=programs())
def test_agrees_with_brute_force(name: str, brute_force: BruteForce, program: IntegerProgram) -> None:
    expected = brute_force(program)
    solution = solve(program, backend=name)
    assert solution.z.dtype == program.cost.dtype
    if expected is None:
        assert solution.status == (Status.INFEASIBLE,)
        assert solution.z.isnan().all()
        assert solution.objective.isnan().all()
    else:
        assert solution.status == (Status.OPTIMAL,), solution.messages
        assert program.is_feasible(solution.z)
        assert solution.objective.item() == pytest.approx((program.cost.double() @ expected).item(), abs=1e-6)
        assert solution.objective.item() == pytest.approx(program.objective(solution.z).item(), abs=1e-6)


def test_agrees_with_brute_force_on_learned_like_rows(name: str, brute_force: BruteForce) -> None:
    """Real coefficients of all sizes: the rows are scaled by 1e-7 .. 1e3, which must not matter."""
    generator = torch.Generator().manual_seed(7)
    a = torch.randn(8, 5, 6, generator=generator)
    scale = torch.tensor([1e-7, 1e-3, 1.0, 30.0, 1e3])
    b = a.abs().sum(-1) * 0.05
    cost = torch.randn(8, 6, generator=generator) * torch.logspace(-6, 6, 8).unsqueeze(-1)
    program = IntegerProgram(
        cost,
        Bounds(torch.full((6,), -1.0), torch.full((6,), 2.0)),
        (ConstraintBlock(a * scale.unsqueeze(-1), b * scale, is_learned=True),),
    )
    solution = solve(program, backend=name)
    for i in range(8):
        expected = brute_force(program.instance(i))
        assert expected is not None
        assert solution.z[i].tolist() == expected.tolist()


def test_batches_broadcast(name: str, brute_force: BruteForce) -> None:
    """Cost `3 1 var`, static known rows, offsets `2 constr`: a batch of shape 3 2."""
    generator = torch.Generator().manual_seed(3)
    a = torch.randn(2, 4, generator=generator)
    program = IntegerProgram(
        torch.randn(3, 1, 4, generator=generator),
        Bounds(torch.full((4,), -0.5), torch.full((4,), 1.5)),
        (
            ConstraintBlock(a.abs(), torch.tensor([-0.2, -0.3])),
            ConstraintBlock(a, torch.tensor([[0.5, 0.9], [0.1, 0.2]]), is_learned=True),
        ),
    )
    solution = solve(program, backend=name)
    assert solution.z.shape == (3, 2, 4)
    assert solution.objective.shape == (3, 2)
    assert len(solution.status) == len(solution.seconds) == len(solution.messages) == 6
    for i in range(6):
        expected = brute_force(program.instance(i))
        z = solution.z.reshape(6, 4)[i]
        assert z.isnan().all() if expected is None else z.tolist() == expected.tolist()
    parallel = solve(program, backend=name, workers=2)
    assert torch.equal(parallel.z.nan_to_num(9.0), solution.z.nan_to_num(9.0))
    assert parallel.status == solution.status


def test_equalities_with_slack(name: str) -> None:
    """Minimise x + y with |2x - 3y| <= 1 and x + y >= 3 in [0, 4]^2: x + y = 3 at (2, 1), where 2x - 3y = 1."""
    program = box([1.0, 1.0], 0.0, 4.0, row(2, -3, b=0.0, slack=1.0), row(1, 1, b=-3.0))
    assert solve(program, backend=name).z.tolist() == [2.0, 1.0]
    exact = box([1.0, 1.0], 0.0, 4.0, row(2, -3, b=0.0, slack=0.0), row(1, 1, b=-3.0))
    assert solve(exact, backend=name).z.tolist() == [3.0, 2.0]


def test_real_bounds_round_inwards(name: str) -> None:
    assert solve(box([-1.0, 1.0], -0.5, 1.5), backend=name).z.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("b", [1.0, -1.0])
def test_rows_without_variables(name: str, b: float) -> None:
    solution = solve(box([1.0, 2.0], 0.0, 1.0, row(0, 0, b=b), row(1, 1, b=-1.0)), backend=name)
    assert solution.status == (Status.OPTIMAL if b > 0 else Status.INFEASIBLE,)


def test_infeasible_only_in_integers(name: str) -> None:
    """2x - 2y = 1 has real points but no integral one."""
    solution = solve(box([1.0, -1.0], -3.0, 3.0, row(2, -2, b=-1.0, slack=0.0)), backend=name)
    assert solution.counts() == {"infeasible": 1}
    assert solution.z.isnan().all()


def test_unbounded_and_infeasible_are_told_apart(name: str) -> None:
    inf = float("inf")
    unbounded = box([-1.0, -1.0], 0.0, inf, row(1, -1, b=0.0))
    infeasible = box([-1.0, -1.0], 0.0, inf, row(1, -1, b=0.0), row(-1, 1, b=-1.0))
    # LP relaxation unbounded along (1, 1), but 2x - 2y = 1 has no integral point.
    neither = box([-1.0, -1.0], -inf, inf, row(2, -2, b=-1.0, slack=0.0))
    if name == "cpsat":
        with pytest.raises(InputError, match="finite bounds: variable 0"):
            solve(unbounded, backend=name)
        return
    assert solve(unbounded, backend=name).status == (Status.UNBOUNDED,)
    assert solve(infeasible, backend=name).status == (Status.INFEASIBLE,)
    assert solve(neither, backend=name, time_limit=20.0).status == (Status.INFEASIBLE,)


def test_relaxation(name: str) -> None:
    """Minimise -x - y with 2x + 2y <= 3 in [-0.5, 1.5]^2: -1.5 in the reals."""
    program = box([-1.0, -1.0], -0.5, 1.5, row(-2, -2, b=3.0))
    if name == "cpsat":
        with pytest.raises(InputError, match="relax=True"):
            solve(program, backend=name, relax=True)
        return
    solution = solve(program, backend=name, relax=True)
    assert solution.objective.item() == pytest.approx(-1.5, abs=1e-6)
    lowest = solve(box([1.0, -1.0], -0.5, 1.5), backend=name, relax=True)
    assert lowest.z.tolist() == pytest.approx([-0.5, 1.5])


def test_mixed_integer(name: str) -> None:
    """Minimise -x - 2y with x + y <= 2.5, x - y >= -0.25, x integer: x = 1 gives y = 1.25, and -3.5; x = 2 gives -3."""
    program = IntegerProgram(
        torch.tensor([-1.0, -2.0]),
        Bounds(torch.zeros(2), torch.full((2,), 5.0)),
        (row(-1, -1, b=2.5), row(1, -1, b=0.25)),
        is_integer=torch.tensor([True, False]),
    )
    if name == "cpsat":
        with pytest.raises(InputError, match="continuous variables"):
            solve(program, backend=name)
        return
    solution = solve(program, backend=name)
    assert solution.z.tolist() == pytest.approx([1.0, 1.25], abs=1e-6)


def hard_program() -> IntegerProgram:
    """A market-split problem, which no solver settles in a fraction of a second; the origin is near feasible."""
    generator = torch.Generator().manual_seed(0)
    a = torch.randint(0, 100, (5, 40), generator=generator).float()
    return IntegerProgram(
        torch.zeros(40),
        Bounds(torch.zeros(40), torch.ones(40)),
        (ConstraintBlock(a, -(a.sum(-1) / 2).floor(), slack=torch.zeros(5)),),
    )


def test_time_limit_without_solution(name: str) -> None:
    solution = solve(hard_program(), backend=name, time_limit=0.2)
    assert solution.status == (Status.NO_SOLUTION,)
    assert solution.z.isnan().all()
    assert solution.objective.isnan()


def test_time_limit_with_solution(name: str) -> None:
    """A correlated knapsack in 60 dimensions: feasible points are easy, the proof is not."""
    generator = torch.Generator().manual_seed(1)
    a = torch.randint(1000, 2000, (20, 60), generator=generator).float()
    b = (a.sum(-1) / 2).floor()
    program = IntegerProgram(
        -(a.mean(0) + torch.randint(0, 50, (60,), generator=generator)),
        Bounds(torch.zeros(60), torch.ones(60)),
        (ConstraintBlock(-a, b),),
    )
    solution = solve(program, backend=name, time_limit=0.5)
    assert solution.status == (Status.FEASIBLE,)
    assert program.is_feasible(solution.z)


def test_interrupt_ends_a_solve(name: str) -> None:
    stop = StopSignal()
    timer = threading.Timer(0.3, stop.stop)
    timer.start()
    backend = BACKENDS[name]()
    with pytest.raises(Stopped):
        solve_instance(InstanceBatch(hard_program())[0], Settings(backend, time_limit=60.0), None, stop)
    timer.join()
    with pytest.raises(Stopped):
        solve_instance(InstanceBatch(hard_program())[0], Settings(backend), None, stop)


def test_tightened_tolerances_change_no_optimum(name: str) -> None:
    """3x + 5y >= 7.5 at least cost x + 1.1y: (1, 1) costs 2.1, (0, 2) costs 2.2, (3, 0) costs 3."""
    program = box([1.0, 1.1], 0.0, 9.0, row(3, 5, b=-7.5))
    model = BACKENDS[name]().build(InstanceBatch(program)[0])
    assert model.solve(None, None).status is Status.OPTIMAL
    model.tighten()
    for _ in range(2):
        result = model.solve(5.0, None)
        assert result.status is Status.OPTIMAL
        assert result.z is not None
        assert result.z.round().tolist() == [1.0, 1.0]


def test_warm_start(name: str) -> None:
    """A start changes no optimum, good, infeasible, outside the bounds, or NaN (which means none)."""
    program = box([-2.0, -3.0, -1.0], 0.0, 3.0, row(-1, -2, -1, b=4.5), row(1, -1, 0, b=1.0))
    expected = solve(program, backend=name)
    starts = [
        expected.z,
        torch.zeros(3),
        torch.full((3,), 3.0),
        torch.full((3,), 9.0),
        torch.tensor([float("nan")] * 3),
    ]
    for start in starts:
        solution = solve(program, backend=name, warm_start=start)
        assert solution.status == (Status.OPTIMAL,)
        assert solution.objective.item() == expected.objective.item()


def ball(size: int = 200) -> tuple[Tensor, Tensor]:
    """Tangents of the circle of radius 5.5 in the plane."""
    angle = torch.arange(size) * (2 * torch.pi / size)
    return -torch.stack([angle.cos(), angle.sin()], -1), torch.full((size,), 5.5)


@pytest.mark.parametrize("kind", ["pool", "function"])
def test_cuts_reach_the_optimum_of_all_rows(name: str, kind: str) -> None:
    a, b = ball()
    cost = torch.tensor([[-1.0, -0.4], [1.0, 0.3], [0.1, -1.0]])
    bounds = Bounds(torch.full((2,), -9.0), torch.full((2,), 9.0))
    asked: list[np.ndarray] = []

    def tangent(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        asked.append(z)
        length = np.linalg.norm(z)
        if length <= 5.5:
            return np.zeros((0, 2)), np.zeros(0)
        return -z[None] / length, np.array([5.5])

    cuts = CutPool(a, b, max_rows=2) if kind == "pool" else tangent
    solution = solve(IntegerProgram(cost, bounds), backend=name, cuts=cuts)
    full = solve(IntegerProgram(cost, bounds, (ConstraintBlock(a, b),)), backend=name)
    assert solution.counts() == {"optimal": 3}
    assert solution.objective.tolist() == pytest.approx(full.objective.tolist(), abs=1e-6)
    if kind == "function":
        assert len(asked) > 6, "one round an instance is not lazy"


def test_options_reach_the_solver(name: str) -> None:
    with pytest.raises(InputError, match="does not take the option no_such_option = 1"):
        solve(box([1.0], 0.0, 1.0, row(1, b=0.0)), backend=BACKENDS[name](options={"no_such_option": 1}))  # type: ignore[call-arg]
    assert solve(box([1.0], 0.0, 1.0), backend=name).status == (Status.OPTIMAL,)


@pytest.fixture
def without_package(name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    package = BACKENDS[name].package
    for module in [module for module in sys.modules if module == package or module.startswith(f"{package}.")]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, package, None)
    return package


def test_missing_package(name: str, without_package: str) -> None:
    assert name not in available_backends()
    with pytest.raises(BackendMissingError, match="pip install") as caught:
        solve(box([1.0], 0.0, 1.0), backend=name)
    assert f"neuralilp[{name}]" in str(caught.value) or name == "highs"
    assert without_package in str(caught.value)


def test_gurobi_licence() -> None:
    if "gurobi" not in available_backends():
        pytest.skip("gurobi is not installed: pip install 'neuralilp[gurobi]'")
    n = 2500
    program = IntegerProgram(torch.ones(n), Bounds(torch.zeros(n), torch.ones(n)))
    message = "2500 variables"
    try:
        # A full licence solves it.
        assert solve(program, backend="gurobi").status == (Status.OPTIMAL,)
    except LicenceError as error:
        message = str(error)
    assert "2500 variables" in message
