"""Programs: signed distances, feasibility, explicit rows, broadcasting, and what is rejected."""

from __future__ import annotations

import dataclasses
import math

import oracles
import pytest
import torch
from hypothesis import given, settings
from strategies import Numbers, numbers, random_case
from torch import Tensor

from neuralilp.blocks import Bounds, ConstraintBlock, row_norm
from neuralilp.errors import InputError, NeuralILPError, ShapeError
from neuralilp.program import IntegerProgram

INF = math.inf


def floats(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)


def unit_box(n: int) -> Bounds:
    return Bounds(torch.zeros(n), torch.ones(n))


def golden() -> IntegerProgram:
    """3x + 4y - 5 >= 0 and |2x - 7| <= 1, with 0 <= x, y <= 9, minimise x - 2y."""
    blocks = (
        ConstraintBlock(floats([3, 4]), floats(-5), is_learned=True),
        ConstraintBlock(floats([2, 0]), floats(-7), floats(1)),
    )
    return IntegerProgram(floats(1, -2), Bounds(floats(0, 0), floats(9, 9)), blocks)


def test_golden_distances() -> None:
    """At z = (3, 1): (9 + 4 - 5)/5 = 1.6; 2·3 - 7 = -1 with slack 1 and |a| = 2: (-1 + 1)/2 and (1 + 1)/2; bounds."""
    program, z = golden(), floats(3, 1)
    assert program.signed_distance(z).tolist() == pytest.approx([1.6, 0, 1, 3, 1, 6, 8])
    assert program.objective(z).item() == 1.0
    assert program.num_variables == 2
    assert [block.num_rows for block in program.blocks] == [1, 2]


def test_golden_explicit() -> None:
    """An equality is two rows with the slack in both offsets; finite bounds are unit rows."""
    a, b = golden().explicit()
    assert a.tolist() == [[3, 4], [2, 0], [-2, 0], [1, 0], [0, 1], [-1, 0], [0, -1]]
    assert b.tolist() == [-5, -6, 8, 0, 0, 9, 9]


@pytest.mark.parametrize(
    ("z", "is_feasible"),
    [
        ([3, 1], True),  # on the border of the equality's slack
        ([4, 0], True),
        ([2, 1], False),  # |4 - 7| > 1
        ([4, -1], False),  # below a bound
        ([4, 10], False),  # above a bound
        ([3.5, 1], False),  # a fraction
        ([math.nan, 1], False),
        ([INF, 1], False),
    ],
)
def test_feasibility(z: list[float], is_feasible: bool) -> None:
    assert golden().is_feasible(floats(*z)).item() is is_feasible


def test_feasibility_has_a_tolerance_and_continuous_variables() -> None:
    program = golden()
    assert program.is_feasible(floats(4 + 1e-6, 1)).item()
    assert not program.is_feasible(floats(4 + 1e-3, 1)).item()
    assert program.is_feasible(floats(4 + 1e-3, 1), tolerance=1e-2).item()
    mixed = dataclasses.replace(program, is_integer=torch.tensor([True, False]))
    assert mixed.is_feasible(floats(4, 1.5)).item()
    assert not mixed.is_feasible(floats(3.5, 1)).item()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(drawn=numbers())
def test_distances_are_those_of_the_explicit_rows(drawn: Numbers) -> None:
    """And those of the naive loops, in their order; several points a program at once, or one."""
    case = drawn.case()
    program, points = case.program, case.negatives.points()
    distance = program.signed_distance(points)
    a, b = program.explicit()
    batch = case.solution.shape[:-1]
    a, b = a.expand(*batch, -1, -1), b.expand(*batch, -1)
    expected = (points @ a.mT + b.unsqueeze(-2)) / row_norm(a).unsqueeze(-2)
    torch.testing.assert_close(distance, expected, rtol=1e-12, atol=1e-12)
    for example in oracles.examples(batch):
        rows = oracles.rows_of(program, batch, example)
        naive = torch.stack([row.distance(points[(*example, 0)]) for row in rows])
        torch.testing.assert_close(distance[(*example, 0)], naive, rtol=1e-12, atol=1e-12)
        assert program.is_feasible(points)[(*example, 0)].item() == bool((naive >= -1e-5).all())
    torch.testing.assert_close(program.signed_distance(points[:, 0]), distance[:, 0], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(program.objective(points), (program.cost.unsqueeze(-2) * points).sum(-1))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(drawn=numbers())
def test_scaling_rows_leaves_distances(drawn: Numbers) -> None:
    case = drawn.case()
    block = dataclasses.replace(case.program, blocks=tuple(_scaled(block, 8.0) for block in case.program.blocks))
    nonzero = [bool(row.a.any()) for row in oracles.rows_of(case.program, (len(case.solution),), (0,))]
    before, after = (program.signed_distance(case.solution)[0] for program in (case.program, block))
    torch.testing.assert_close(after[nonzero], before[nonzero], rtol=1e-12, atol=1e-12)


def _scaled(block: ConstraintBlock, factor: float) -> ConstraintBlock:
    slack = None if block.slack is None else block.slack * factor
    return dataclasses.replace(block, a=block.a * factor, b=block.b * factor, slack=slack)


def test_static_rows_are_held_once() -> None:
    """A block without batch dimensions gives every example the same rows as copies of it would, and is not copied."""
    case = random_case("mixed", "general")
    program, batch = case.program, case.solution.shape[:-1]
    assert program.blocks[0].a.ndim == 2
    assert program.batch_shape == batch
    wide = dataclasses.replace(program, blocks=tuple(_expanded(block, batch) for block in program.blocks))
    for z in (case.solution, case.negatives.points()):
        torch.testing.assert_close(program.signed_distance(z), wide.signed_distance(z))
        assert torch.equal(program.is_feasible(z), wide.is_feasible(z))


def _expanded(block: ConstraintBlock, batch: torch.Size) -> ConstraintBlock:
    slack = None if block.slack is None else block.slack.expand(*batch, -1)
    return dataclasses.replace(block, a=block.a.expand(*batch, -1, -1), b=block.b.expand(*batch, -1), slack=slack)


def test_restarts_against_a_batch() -> None:
    """Rows `(2, 1)`, costs `(3)`, points `(2, 3)`: every pair its own program; so are its points `(2, 3, 5)`."""
    case = random_case("restarts", "general")
    program, y, points = case.program, case.solution, case.negatives.points()
    assert program.batch_shape == (2, 3)
    distance, many = program.signed_distance(y), program.signed_distance(points)
    assert many.shape == (*points.shape[:-1], distance.shape[-1])
    for r, i in oracles.examples((2, 3)):
        rows = oracles.rows_of(program, (2, 3), (r, i))
        naive = torch.stack([row.distance(y[r, i]) for row in rows])
        torch.testing.assert_close(distance[r, i], naive)
        naive = torch.stack([row.distance(points[r, i, 1]) for row in rows])
        torch.testing.assert_close(many[r, i, 1], naive)
    objective = (program.cost.expand(2, 3, -1).unsqueeze(-2) * points).sum(-1)
    torch.testing.assert_close(program.objective(points), objective)


def test_offsets_may_differ_where_normals_do_not() -> None:
    """One a for all examples with a b for each, and the other way round."""
    a, b = torch.eye(2), floats([0, 1], [2, 3], [4, 5])
    box = Bounds(torch.full((2,), -INF), torch.full((2,), INF))
    z = torch.zeros(3, 2)
    static = IntegerProgram(torch.ones(2), box, (ConstraintBlock(a, b),))
    assert static.batch_shape == (3,)
    assert static.signed_distance(z).tolist() == b.tolist()
    assert static.signed_distance(z.unsqueeze(-2).expand(3, 4, 2))[:, 3].tolist() == b.tolist()
    wide = IntegerProgram(torch.ones(2), box, (ConstraintBlock(a.expand(3, 2, 2), b[0], b[1]),))
    assert wide.signed_distance(z).tolist() == [[2, 4, 2, 2]] * 3


@pytest.mark.parametrize("index", range(6))
def test_instance(index: int) -> None:
    """One example of a batch, counted through the flattened batch, without batch dimensions."""
    case = random_case("restarts", "unbounded")
    one = case.program.instance(index)
    r, i = divmod(index, 3)
    assert one.batch_shape == ()
    torch.testing.assert_close(
        one.signed_distance(case.solution[r, i]), case.program.signed_distance(case.solution)[r, i]
    )
    torch.testing.assert_close(one.objective(case.solution[r, i]), case.program.objective(case.solution)[r, i])
    assert [block.is_learned for block in one.blocks] == [block.is_learned for block in case.program.blocks]


def test_instance_of_a_program_without_batch() -> None:
    program = golden()
    assert program.instance(0).explicit()[1].tolist() == program.explicit()[1].tolist()


def test_to_and_detach() -> None:
    case = random_case("mixed", dtype=torch.float32)
    is_integer = torch.tensor([True, False, True, True])
    program = dataclasses.replace(case.program, is_integer=is_integer)
    double = program.to(torch.float64)
    assert {tensor.dtype for tensor in _tensors(double)} == {torch.float64}
    assert double.is_integer is not None
    assert double.is_integer.tolist() == is_integer.tolist()
    assert double.blocks[0].a.requires_grad
    assert not any(tensor.requires_grad for tensor in _tensors(program.detach()))
    assert program.to(torch.float32).blocks[0].a is program.blocks[0].a


def _tensors(program: IntegerProgram) -> list[Tensor]:
    tensors = [program.cost, program.bounds.lower, program.bounds.upper]
    for block in program.blocks:
        tensors += [part for part in (block.a, block.b, block.slack) if part is not None]
    return tensors


def test_known_and_learned_are_explicit() -> None:
    """Never read from requires_grad."""
    program = golden()
    assert program.learned == program.blocks[:1]
    assert program.known == program.blocks[1:]
    assert program.has_learned_part
    known = dataclasses.replace(program, blocks=program.known)
    assert not known.has_learned_part
    assert dataclasses.replace(known, cost_is_learned=True).has_learned_part
    graded = dataclasses.replace(known, cost=program.cost.clone().requires_grad_())
    assert not graded.has_learned_part


def test_infinite_bounds_are_no_rows() -> None:
    program = IntegerProgram(torch.ones(3), Bounds(floats(0, -INF, -INF), floats(INF, 4, INF)))
    assert not program.bounds.is_finite
    a, b = program.explicit()
    assert a.tolist() == [[1, 0, 0], [0, -1, 0]]
    assert b.tolist() == [0, 4]
    z = floats(7, -100, 1e6)
    assert program.signed_distance(z).tolist() == [7, 104]
    assert program.is_feasible(z).item()
    assert not program.is_feasible(floats(-1, 0, 0)).item()


def test_bounds_that_are_infinite_in_some_examples() -> None:
    """Then the row is there for all of them, infinitely far where there is none."""
    program = IntegerProgram(torch.ones(1), Bounds(floats([0], [-INF]), floats([INF], [INF])))
    z = floats([-3], [-3])
    assert program.signed_distance(z).tolist() == [[-3], [INF]]
    assert program.is_feasible(z).tolist() == [False, True]


@pytest.mark.wrong_types
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: IntegerProgram(torch.tensor(1.0), unit_box(1)), "cost must be .* with at least one variable"),
        (lambda: IntegerProgram(torch.ones(0), Bounds(torch.ones(0), torch.ones(0))), "cost must be .* at least one"),
        (lambda: IntegerProgram(torch.ones(3), unit_box(2)), "bounds.lower must have 3 variables as cost has"),
        (
            lambda: IntegerProgram(torch.ones(3), unit_box(3), (ConstraintBlock(torch.ones(1, 2), torch.ones(1)),)),
            r"blocks\[0\].a must have 3 variables as cost has, got shape \(1, 2\)",
        ),
        (lambda: IntegerProgram(torch.ones(3).double(), unit_box(3)), "bounds.lower must have the dtype of cost"),
        (
            lambda: IntegerProgram(torch.ones(3), unit_box(3), is_integer=torch.ones(2, dtype=torch.bool)),
            r"is_integer must have shape \(3,\), got \(2,\)",
        ),
        (
            lambda: IntegerProgram(
                torch.ones(4, 3), unit_box(3), (ConstraintBlock(torch.ones(5, 1, 3), torch.ones(5, 1)),)
            ),
            "the leading dimensions of cost, blocks and bounds must broadcast",
        ),
    ],
)
def test_shapes_that_do_not_fit(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ShapeError, match=message):
        make()


@pytest.mark.wrong_types
@pytest.mark.parametrize("method", ["objective", "signed_distance", "is_feasible"])
def test_bad_points(method: str) -> None:
    program = IntegerProgram(torch.ones(4, 3), unit_box(3))
    evaluate = getattr(program, method)
    for z, message in (
        (torch.zeros(4, 2), r"z must be .* with 3 variables, got shape \(4, 2\)"),
        (torch.zeros(4, 3).double(), "z must have the dtype of the program, torch.float32, got torch.float64"),
        (torch.zeros(5, 3), r"z must start with the batch shape \(4,\) of the program, got \(5, 3\)"),
        (torch.tensor(1.0), "z must be"),
    ):
        with pytest.raises(ShapeError, match=message):
            evaluate(z)


@pytest.mark.wrong_types
@pytest.mark.parametrize("batch", [2, 3])
def test_points_need_the_batch_dimensions(batch: int) -> None:
    """A point without them is an error, also where there happen to be as many examples as variables."""
    program = IntegerProgram(torch.ones(batch, 3), unit_box(3))
    with pytest.raises(ShapeError, match="z must start with the batch shape"):
        program.objective(torch.ones(3))


def check_program() -> IntegerProgram:
    """Box [0, 5]², known x + y <= 6 and |x - y| <= 2, learned anything."""
    blocks = (
        ConstraintBlock(floats([1, 0]), floats(-100), is_learned=True),
        ConstraintBlock(floats([-1, -1]), floats(6)),
        ConstraintBlock(floats([0, 1], [1, -1]), floats(0, 0), floats(9, 2)),
    )
    return IntegerProgram(floats(1, 1), Bounds(floats(0, 0), floats(5, 5)), blocks)


@pytest.mark.parametrize(
    ("solution", "message"),
    [
        ([[1, 1], [1, 0.4]], r"solution must be integral: example 1 has z\[1\] = 0.4"),
        ([[math.nan, 1]], r"solution must be integral: example 0 has z\[0\] = nan"),
        ([[1, INF]], r"solution must be integral: example 0 has z\[1\] = inf"),
        ([1.5, 1], r"solution must be integral: it has z\[0\] = 1.5"),
        ([[[1, 1]], [[1, 0.5]]], r"solution must be integral: example \[1, 0\] has z\[1\] = 0.5"),
        ([[1, 6]], r"solution must lie within the bounds: example 0 has z\[1\] = 6, lower = 0, upper = 5"),
        ([[-1, 0]], r"solution must lie within the bounds: example 0 has z\[0\] = -1, lower = 0, upper = 5"),
        ([[1, 1], [4, 3]], r"solution must satisfy the known constraints: example 1 violates row 0 of blocks\[1\]"),
        ([[4, 1]], r"solution must satisfy the known constraints: example 0 violates row 1 of blocks\[2\]"),
    ],
)
def test_bad_solution(solution: list[object], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        check_program().check_solution(floats(*solution))
    assert isinstance(error.value, NeuralILPError)
    assert isinstance(error.value, ValueError)


def test_good_solution() -> None:
    """Learned rows may be violated: they are to be learned. Any batch dimensions will do for a static program."""
    program = check_program()
    for solution in (floats(3, 3), floats([3, 3], [1, 1]), floats([[3, 3], [1, 1]], [[0, 2], [5, 1 + 2]])[:1]):
        program.check_solution(solution)


@pytest.mark.wrong_types
def test_solution_that_does_not_fit() -> None:
    program = dataclasses.replace(check_program(), cost=torch.ones(4, 2))
    for solution, message in (
        (torch.ones(3, 2), r"solution must have shape \(4, 2\), got \(3, 2\)"),
        (torch.ones(2), r"solution must have shape \(4, 2\), got \(2,\)"),
        (torch.ones(4, 3), r"solution must have shape \(4, 2\), got \(4, 3\)"),
        (torch.ones(4, 2).double(), "solution must have the dtype of the program, torch.float32, got torch.float64"),
    ):
        with pytest.raises(ShapeError, match=message):
            program.check_solution(solution)
    mixed = dataclasses.replace(program, is_integer=torch.tensor([True, False]))
    with pytest.raises(InputError, match="is_integer has a False"):
        mixed.check_solution(torch.ones(4, 2))


@pytest.mark.parametrize("runs", [2, 3])
def test_solutions_with_more_batch_dimensions_than_the_program(runs: int) -> None:
    """Programs `(3)` against solutions `(runs, 3)`: the last dimension is the batch, and known rows are checked so.

    Example i has the known row x - i >= 0, and its solutions are x = i: good in every run. A solution i - 1 is not.
    """
    offsets = torch.arange(3.0).unsqueeze(-1)
    block = ConstraintBlock(torch.ones(3, 1, 1), -offsets)
    program = IntegerProgram(torch.ones(3, 1), Bounds(floats(-1), floats(5)), (block,))
    solution = offsets.expand(runs, 3, 1).clone()
    program.check_solution(solution)
    solution[1, 2] = 1.0
    with pytest.raises(InputError, match=r"example \[1, 2\] violates row 0 of blocks\[0\]"):
        program.check_solution(solution)


def test_zero_rows_have_distance_b() -> None:
    """A learned row of zeros is no hyperplane: its distance is b, with a finite gradient."""
    a, b = torch.zeros(1, 2, requires_grad=True), torch.full((1,), 0.5, requires_grad=True)
    free = Bounds(torch.full((2,), -INF), torch.full((2,), INF))
    program = IntegerProgram(torch.ones(2), free, (ConstraintBlock(a, b, is_learned=True),))
    distance = program.signed_distance(floats(3, 4))
    assert distance.tolist() == [0.5]
    slopes = torch.autograd.grad(distance.sum(), [a, b])
    assert slopes[0].tolist() == [[3.0, 4.0]]
    assert slopes[1].tolist() == [1.0]
