"""LP and MPS files: round trips to the same optimum, other solvers' readers, broken files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.errors import FileFormatError, InputError, ShapeError
from neuralilp.export import export, read_program, safe_names
from neuralilp.program import IntegerProgram
from neuralilp.solving import Status, available_backends, solve

INF = float("inf")


def example(seed: int = 0, dtype: torch.dtype = torch.float32) -> IntegerProgram:
    """Inequalities, an equality, a ranged row, an empty row, mixed bounds, a variable without cost."""
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(3, 5, generator=generator)
    cost = torch.randn(5, generator=generator)
    cost[0] = 0.0
    program = IntegerProgram(
        cost,
        Bounds(torch.tensor([-0.5, 0.0, -3.0, 0.0, -2.0]), torch.tensor([1.5, 1.0, 3.0, 7.0, 2.0])),
        (
            ConstraintBlock(torch.cat([a, torch.zeros(1, 5)]), torch.full((4,), 1.5), is_learned=True),
            ConstraintBlock(torch.tensor([[1.0, 1.0, 1.0, 0.0, 0.0]]), -torch.ones(1), slack=torch.zeros(1)),
            ConstraintBlock(torch.tensor([[0.0, 1.0, 2.0, 3.0, -1.0]]), torch.ones(1), slack=torch.tensor([2.5])),
        ),
    )
    return program.to(dtype)


@pytest.mark.parametrize("suffix", [".lp", ".mps"])
@settings(max_examples=15, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 10_000))
def test_round_trip_has_the_same_optimum(tmp_path_factory: pytest.TempPathFactory, suffix: str, seed: int) -> None:
    program = example(seed)
    path = export(program, tmp_path_factory.mktemp("files") / f"program{suffix}")
    read, names = read_program(path)
    expected, got = solve(program), solve(read)
    assert got.status == expected.status
    if expected.status[0].has_solution:
        assert got.objective.item() == pytest.approx(expected.objective.item(), abs=1e-6)
        order = [names.variables.index(f"z{j}") for j in range(5)]
        assert bool(program.is_feasible(got.z[order].float()))
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_numbers_and_names_survive(tmp_path: Path) -> None:
    variables, rows = ["a", "b", "c", "d", "long_variable.name"], ["r0", "r1", "r2", "gone", "sum", "range"]
    program = example()
    read, names = read_program(
        export(program, tmp_path / "p.mps", variable_names=variables, row_names=rows), dtype=torch.float32
    )
    assert names.variables == tuple(variables)
    assert names.rows == ("r0", "r1", "r2", "sum", "range")
    assert (names.is_maximised, names.objective_offset) == (False, 0.0)
    assert torch.equal(read.cost, program.cost)
    assert read.is_integer is None
    assert read.bounds.lower.tolist() == [0.0, 0.0, -3.0, 0.0, -2.0]
    assert read.bounds.upper.tolist() == [1.0, 1.0, 3.0, 7.0, 2.0]
    inequalities, equalities = read.blocks
    assert torch.equal(inequalities.a, program.blocks[0].a[:3])
    assert torch.equal(inequalities.b, program.blocks[0].b[:3])
    assert torch.equal(equalities.a, torch.cat([program.blocks[1].a, program.blocks[2].a]))
    assert equalities.slack is not None
    assert equalities.slack.tolist() == [0.0, 2.5]
    assert equalities.b.tolist() == [-1.0, 1.0]


def test_infinite_bounds_and_continuous_variables(tmp_path: Path) -> None:
    program = IntegerProgram(
        torch.tensor([1.0, 1.0, -1.0, 1.0]),
        Bounds(torch.tensor([0.0, -INF, -INF, 0.25]), torch.tensor([INF, INF, 4.5, 2.5])),
        (ConstraintBlock(torch.tensor([[1.0, 1.0, 0.0, 0.0]]), torch.tensor([-2.5])),),
        is_integer=torch.tensor([True, True, False, False]),
    )
    for suffix in (".lp", ".mps"):
        read, names = read_program(export(program, tmp_path / f"p{suffix}"))
        assert names.variables == ("z0", "z1", "z2", "z3")
        assert read.is_integer is not None
        assert read.is_integer.tolist() == [True, True, False, False]
        assert read.bounds.lower.tolist() == [0.0, -INF, -INF, 0.25]
        assert read.bounds.upper.tolist() == [INF, INF, 4.5, 2.5]


@pytest.mark.parametrize("suffix", [".lp", ".mps"])
def test_other_solvers_read_the_files(tmp_path: Path, suffix: str) -> None:
    program = example(1)
    path = export(program, tmp_path / f"program{suffix}")
    expected = solve(program).objective.item()
    if "scip" in available_backends():
        pyscipopt = pytest.importorskip("pyscipopt")
        model = pyscipopt.Model()
        model.hideOutput()
        model.readProblem(str(path))
        model.optimize()
        assert model.getObjVal() == pytest.approx(expected, abs=1e-6)
    if "gurobi" in available_backends():
        gurobipy = pytest.importorskip("gurobipy")
        with gurobipy.Env(params={"OutputFlag": 0}) as environment, gurobipy.read(str(path), env=environment) as model:
            model.optimize()
            assert model.ObjVal == pytest.approx(expected, abs=1e-6)


def test_maximisation_offset_free_and_ranged_rows(tmp_path: Path) -> None:
    r"""Maximise 3x + 2y + 10 with 1 <= x + y <= 3 and x <= 2: at (2, 1), 18; the program minimises -3x - 2y."""
    lp = tmp_path / "max.lp"
    lp.write_text(
        "max\n obj: 3 x + 2 y + 10\nst\n lo: x + y >= 1\n up: x + y <= 3\n c2: x <= 2\n"
        "bounds\n y <= 9\ngen\n x y\nend\n"
    )
    mps = tmp_path / "max.mps"
    mps.write_text(
        "NAME p\nOBJSENSE\n  MAX\nROWS\n N obj\n N ignored\n L c1\n L c2\nCOLUMNS\n"
        " M1 'MARKER' 'INTORG'\n x obj 3 c1 1\n x c2 1 ignored 7\n y obj 2 c1 1\n M2 'MARKER' 'INTEND'\n"
        "RHS\n RHS obj -10 c1 3\n RHS c2 2\nRANGES\n R c1 2\nBOUNDS\n UP B x 9\n UP B y 9\nENDATA\n"
    )
    for path in (lp, mps):
        program, names = read_program(path)
        assert names.is_maximised
        assert names.objective_offset == 10.0
        assert program.cost.tolist() == [-3.0, -2.0]
        solution = solve(program)
        assert solution.status == (Status.OPTIMAL,)
        assert solution.z.tolist() == [2.0, 1.0]
        assert names.file_objective(solution.objective.item()) == 18.0
        assert names.rows == (("lo", "up", "c2") if path == lp else ("c2", "c1"))
    ranged = program.blocks[1]
    assert ranged.b.tolist() == [-2.0]
    assert ranged.slack is not None
    assert ranged.slack.tolist() == [1.0]
    lp.write_text("min\n obj: x\nst\n c1: 1 <= x + y <= 3\nend\n")
    with pytest.raises(FileFormatError, match="must be written as two"):
        read_program(lp)


def test_bad_programs_and_names(tmp_path: Path) -> None:
    program = example()
    with pytest.raises(InputError, match=r"path must end in \.lp or \.mps"):
        export(program, tmp_path / "program.txt")
    with pytest.raises(InputError, match="folder that exists"):
        export(program, tmp_path / "missing" / "program.lp")
    batch = IntegerProgram(torch.ones(2, 5), program.bounds, program.blocks)
    with pytest.raises(ShapeError, match=r"batch shape \(2,\): export program.instance\(i\)"):
        export(batch, tmp_path / "program.lp")
    export(batch.instance(1), tmp_path / "program.lp")
    with pytest.raises(InputError, match="variable_names must hold 5 names, got 2"):
        export(program, tmp_path / "p.lp", variable_names=["a", "b"])
    for bad in ("two words", "2x", "e5", "E", "free", "St", "", "x[1]", "größe", "a" * 300):
        with pytest.raises(InputError, match="variable_names must be letters"):
            export(program, tmp_path / "p.lp", variable_names=["a", "b", "c", "d", bad])
    with pytest.raises(InputError, match="unique: 'a' occurs twice"):
        export(program, tmp_path / "p.lp", variable_names=["a", "b", "c", "d", "a"])
    with pytest.raises(InputError, match="'rup' is needed for one half"):
        export(program, tmp_path / "p.lp", row_names=["rup", "b", "c", "d", "e_", "r"])
    nan = IntegerProgram(torch.full((5,), float("nan")), program.bounds)
    with pytest.raises(InputError, match="cost must be finite"):
        export(nan, tmp_path / "p.lp")
    empty = ConstraintBlock(torch.zeros(1, 5), -torch.ones(1))
    with pytest.raises(InputError, match="row0 has no variables and cannot hold"):
        export(IntegerProgram(program.cost, program.bounds, (empty,)), tmp_path / "p.lp")
    assert [entry.name for entry in tmp_path.iterdir()] == ["program.lp"], "a failed export leaves nothing behind"


def test_a_variable_that_an_lp_file_cannot_mention(tmp_path: Path) -> None:
    program = IntegerProgram(
        torch.tensor([1.0, 0.0]),
        Bounds(torch.zeros(2), torch.full((2,), INF)),
        is_integer=torch.tensor([True, False]),
    )
    with pytest.raises(InputError, match=r"write an \.mps file"):
        export(program, tmp_path / "p.lp")
    assert read_program(export(program, tmp_path / "p.mps"))[0].num_variables == 2


def test_safe_names(tmp_path: Path) -> None:
    names = safe_names(["item 1", "item-1", "2x", "free", "e5", "größe"])
    assert names == ["item_1", "item_1_2", "_2x", "_free", "_e5", "gr__e"]
    export(example(), tmp_path / "p.lp", variable_names=names[:5])


@pytest.mark.parametrize("suffix", [".lp", ".mps"])
def test_broken_files(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(FileFormatError, match="there is no file"):
        read_program(tmp_path / f"missing{suffix}")
    whole = export(example(), tmp_path / f"whole{suffix}").read_text()
    broken = tmp_path / f"broken{suffix}"
    for text in (whole[: len(whole) // 2], whole[: -len(whole.splitlines()[-1]) - 2], "", "what is this?\nend\n"):
        broken.write_text(text)
        with pytest.raises(FileFormatError):
            read_program(broken)
    broken.write_bytes(b"\x89PNG\x00\xff\xfe")
    with pytest.raises(FileFormatError, match="cannot be read as text"):
        read_program(broken)


def test_programs_that_are_not_linear(tmp_path: Path) -> None:
    quadratic = tmp_path / "quadratic.lp"
    quadratic.write_text("min\n obj: x + [ 2 x ^ 2 ] / 2\nst\n c: x + y >= 1\nend\n")
    with pytest.raises(FileFormatError, match="quadratic"):
        read_program(quadratic)
    semi = tmp_path / "semi.lp"
    semi.write_text("min\n obj: x\nst\n c: x + y >= 1\nbounds\n 2 <= x <= 9\nsemi\n x\nend\n")
    with pytest.raises(FileFormatError, match="semi-continuous"):
        read_program(semi)
