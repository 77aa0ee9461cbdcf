"""What all samplers share: the contract, the mask, and the ways to hold negatives."""

from __future__ import annotations

import dataclasses
import math

import oracles
import pytest
import torch
from hypothesis import given, settings
from strategies import BOXES, Numbers, numbers, random_case

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.dense import dense_mask
from neuralilp.errors import InputError, ShapeError
from neuralilp.negatives import (
    BatchNegatives,
    ImprovingNeighbours,
    KHop,
    Negatives,
    NegativeSampler,
    OneHop,
    ProjectAndSample,
    SolverNegatives,
    Union,
    admissible,
)
from neuralilp.program import IntegerProgram

SAMPLERS: dict[str, NegativeSampler] = {
    "one hop": OneHop(),
    "two hops": KHop(2),
    "many hops": KHop((1, 2, 3), count=7),
    "projection": ProjectAndSample(),
    "batch": BatchNegatives(),
    "improving": ImprovingNeighbours((1, 2), count=6),
    "union": Union(OneHop(), KHop((2, 3)), ProjectAndSample(), BatchNegatives()),
}
RANDOM = ("two hops", "many hops", "projection", "improving", "union")


def draw(name: str, rows: str, box: str, n: int, seed: int = 0) -> tuple[IntegerProgram, Negatives]:
    case = random_case(rows, box, n=n, dtype=torch.float32)
    return case.program, SAMPLERS[name](case.program, case.solution, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("n", [5, 40])
@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("rows", ["mixed", "network", "restarts"])
@pytest.mark.parametrize("name", SAMPLERS)
def test_contract(name: str, rows: str, box: str, n: int) -> None:
    """Integral points for each example; those that the loss may use differ from y* and are in bounds; no gradient."""
    program, negatives = draw(name, rows, box, n)
    points, y = negatives.points(), negatives.solution
    assert points.shape == (*y.shape[:-1], len(negatives), n)
    assert points.dtype == y.dtype
    assert not points.requires_grad
    assert bool((points == points.round()).all())
    usable = admissible(program, negatives)
    assert usable.shape == points.shape[:-1]
    assert bool((points != y.unsqueeze(-2)).any(-1)[usable].all())
    assert bool(program.bounds.contain(points).all(-1)[usable].all())
    assert bool(usable.any()) or name == "projection"  # its points may all be outside
    # No place has two nonzero steps: sorted by place, equal neighbours do not both move.
    place, order = torch.where(negatives.step != 0, negatives.place, -1).sort(-1)
    assert not bool(((place[..., 1:] == place[..., :-1]) & (place[..., 1:] >= 0)).any())
    assert order.shape == negatives.place.shape


@pytest.mark.parametrize("n", [5, 40])
@pytest.mark.parametrize("name", SAMPLERS)
def test_same_seed_same_negatives(name: str, n: int) -> None:
    torch.manual_seed(1)
    first = draw(name, "mixed", "general", n, seed=5)[1].points()
    torch.manual_seed(2)  # plays no part
    again = draw(name, "mixed", "general", n, seed=5)[1].points()
    other = draw(name, "mixed", "general", n, seed=6)[1].points()
    assert torch.equal(first, again)
    assert torch.equal(first, other) == (name not in RANDOM)


@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("cost_is_learned", [False, True])
@pytest.mark.parametrize("rows", ["inequalities", "mixed", "network", "restarts"])
@pytest.mark.parametrize("n", [4, 30])
def test_mask_agrees_with_the_loops(rows: str, box: str, cost_is_learned: bool, n: int) -> None:
    """With known rows, known or learned cost, sparse and dense negatives, in the order of the points."""
    case = random_case(rows, box, cost_is_learned=cost_is_learned, n=n, batch=2)
    points = case.negatives.points()
    expected = oracles.mask(case.program, case.solution, points)
    assert torch.equal(admissible(case.program, case.negatives), expected)
    assert torch.equal(dense_mask(case.program, case.solution, points), expected)
    assert 0 < int(expected.sum()) < expected.numel()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(drawn=numbers())
def test_mask_of_anything(drawn: Numbers) -> None:
    case = drawn.case()
    points = case.negatives.points()
    expected = oracles.mask(case.program, case.solution, points)
    assert torch.equal(admissible(case.program, case.negatives), expected)
    assert torch.equal(dense_mask(case.program, case.solution, points), expected)


def test_golden_mask() -> None:
    """Box [0, 2]², known x + y <= 3 and known cost (1, -1), at y* = (1, 1)."""
    known = ConstraintBlock(torch.tensor([[-1.0, -1.0]]), torch.tensor([3.0]))
    bounds = Bounds(torch.zeros(2), torch.full((2,), 2.0))
    program = IntegerProgram(torch.tensor([1.0, -1.0]), bounds, (known,))
    points = {
        (1, 1): False,  # y* itself
        (1, 2): True,  # cheaper
        (2, 2): False,  # as cheap, but violates the known row
        (0, 0): True,  # as cheap
        (2, 1): False,  # dearer
        (0, 3): False,  # out of the box
        (-1, 1): False,  # out of the box
    }
    y = torch.ones(2)
    negatives = Negatives.from_points(y, torch.tensor(list(points), dtype=torch.float32))
    assert admissible(program, negatives).tolist() == list(points.values())
    learned = dataclasses.replace(program, cost_is_learned=True)
    assert admissible(learned, negatives).tolist() == [False, True, False, True, True, False, False]


def test_points_from_sparse_and_dense() -> None:
    y = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])
    place = torch.tensor([[[0, 2], [1, 0]], [[2, 1], [0, 0]]])
    step = torch.tensor([[[1.0, -1.0], [2.0, 0.0]], [[1.0, 1.0], [-1.0, 0.0]]])
    sparse = Negatives.from_sparse(y, place, step)
    dense = Negatives.from_dense(y, torch.tensor([[0.0, 0.0, 5.0]]))
    both = Negatives.cat([dense, sparse, dense])
    assert (len(sparse), len(dense), len(both)) == (2, 1, 4)
    expected_sparse = [[[2, 2, 2], [1, 4, 3]], [[0, 1, 1], [-1, 0, 0]]]
    expected_dense = [[[1, 2, 8]], [[0, 0, 5]]]
    assert sparse.points().tolist() == expected_sparse
    assert dense.points().tolist() == expected_dense
    for example in range(2):  # the sparse ones come first
        expected = expected_sparse[example] + expected_dense[example] * 2
        assert both.points()[example].tolist() == expected
    assert torch.equal(Negatives.from_points(y, both.points()).points(), both.points())


def test_cat_pads_hops() -> None:
    y = torch.zeros(1, 3)
    one = Negatives.from_sparse(y, torch.tensor([[0]]), torch.ones(1, 1))
    two = Negatives.from_sparse(y, torch.tensor([[1, 2]]), torch.ones(1, 2))
    assert Negatives.cat([one, two]).points().tolist() == [[[1, 0, 0], [0, 1, 1]]]
    assert len(Negatives.cat([one])) == 1


def test_static_differences_broadcast() -> None:
    y = torch.zeros(2, 3, 4)
    negatives = Negatives.from_sparse(y, torch.tensor([[0], [3]]), torch.ones(2, 1))
    assert negatives.points().shape == (2, 3, 2, 4)
    assert Negatives.from_dense(y, torch.ones(5, 4)).points().shape == (2, 3, 5, 4)


@pytest.mark.parametrize("bad", [0.5, math.nan, math.inf])
def test_points_must_be_integral(bad: float) -> None:
    with pytest.raises(InputError, match="points must be integral"):
        Negatives.from_points(torch.zeros(2), torch.tensor([[0.0, bad]]))


@pytest.mark.wrong_types
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda y: Negatives.from_points(y, torch.zeros(2, 1, 4)), "points must be"),
        (lambda y: Negatives.from_points(y, torch.zeros(3)), "points must be"),
        (lambda y: Negatives.from_points(y, torch.zeros(3, 1, 3)), "points must"),
        (lambda y: Negatives.from_points(y, torch.zeros(2, 1, 3).double()), "points must have the dtype"),
        (lambda y: Negatives(y, torch.zeros(2, 1, 2).long(), torch.zeros(2, 1, 3), y[:, :0, None]), "place and step"),
        (
            lambda y: Negatives(y, torch.zeros(2, 0, 1).long(), torch.zeros(2, 0, 1), torch.zeros(2, 1, 4)),
            "dense must be",
        ),
    ],
    ids=["variables", "one point", "batch", "dtype", "hops", "dense"],
)
def test_negatives_that_do_not_fit(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ShapeError, match=message):
        make(torch.zeros(2, 3))


def bad_program() -> IntegerProgram:
    learned = ConstraintBlock(torch.ones(1, 3), torch.ones(1), None, True)
    known = ConstraintBlock(-torch.ones(1, 3), torch.full((1,), 2.0))
    return IntegerProgram(torch.ones(3), Bounds(torch.zeros(3), torch.ones(3)), (learned, known))


@pytest.mark.parametrize(
    ("solution", "message"),
    [
        ([[0.0, 0.5, 0.0]], r"solution must be integral: example 0 has z\[1\] = 0.5"),
        ([[0.0, 0.0, 0.0], [math.nan, 0.0, 0.0]], r"solution must be integral: example 1 has z\[0\] = nan"),
        ([[math.inf, 0.0, 0.0]], r"solution must be integral: example 0 has z\[0\] = inf"),
        ([[0.0, 0.0, 2.0]], r"solution must lie within the bounds: example 0 has z\[2\] = 2"),
        ([[1.0, 1.0, 1.0]], "solution must satisfy the known constraints: example 0 violates row 0"),
    ],
)
@pytest.mark.parametrize("name", SAMPLERS)
def test_bad_target(name: str, solution: list[list[float]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SAMPLERS[name](bad_program(), torch.tensor(solution))


@pytest.mark.wrong_types
@pytest.mark.parametrize("name", SAMPLERS)
def test_solution_that_does_not_fit(name: str) -> None:
    for solution, message in (
        (torch.zeros(2, 4), "solution must have shape"),
        (torch.zeros(2, 3).double(), "solution must have the dtype of the program, torch.float32, got torch.float64"),
        (torch.zeros(0, 3), "solution must hold at least one example"),
    ):
        with pytest.raises(ShapeError, match=message):
            SAMPLERS[name](bad_program(), solution)


@pytest.mark.parametrize("name", [*SAMPLERS, "solver"])
def test_batch_of_one_and_no_batch(name: str) -> None:
    program = dataclasses.replace(bad_program(), cost=-torch.ones(3))
    sampler = SAMPLERS.get(name, SolverNegatives())
    generator = torch.Generator().manual_seed(0)
    y = torch.zeros(3)
    one, none = sampler(program, y[None], generator=generator), sampler(program, y, generator=generator)
    assert one.points().shape == (1, len(none), 3)
    assert none.points().shape == (len(none), 3)
    assert len(none) == 0 or name != "batch"


def test_a_zero_step_is_padding() -> None:
    """Whatever place it names, and even where that place has a step already."""
    y = torch.zeros(1, 30)
    place = torch.tensor([[3, 3, 0], [29, 0, 0]])
    step = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    program = IntegerProgram(torch.zeros(30), Bounds(torch.zeros(30), torch.ones(30)))
    negatives = Negatives.from_sparse(y, place, step)
    assert admissible(program, negatives).tolist() == [[True, True]]
    assert negatives.points().sum().item() == 2


def test_mask_of_a_restarted_batch() -> None:
    """Costs `(3)` against solutions `(2, 3)`: the cost of an example holds in both runs."""
    cost = torch.tensor([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
    program = IntegerProgram(cost, Bounds(torch.zeros(2), torch.ones(2)))
    y = torch.zeros(2, 3, 2)
    y[1] = 1.0
    usable = admissible(program, OneHop()(program, y))
    assert usable.tolist() == [
        [[False, False], [True, True], [False, True]],
        [[True, True], [False, False], [True, False]],
    ]


@pytest.mark.parametrize("n", [3, 40])
def test_a_negative_that_is_not_integral_is_not_used(n: int) -> None:
    """As a sampler of one's own may draw by mistake; sparse and dense ones."""
    block = ConstraintBlock(torch.ones(1, n), torch.ones(1), None, True)
    program = IntegerProgram(-torch.ones(n), Bounds(torch.zeros(n), torch.ones(n)), (block,))
    y = torch.zeros(1, n)
    dense = torch.zeros(1, 2, n)
    dense[0, 0, 0], dense[0, 1, 0] = 0.5, 1.0
    assert admissible(program, Negatives.from_dense(y, dense)).tolist() == [[False, True]]
    place, step = torch.zeros(1, 2, 1, dtype=torch.long), torch.tensor([[[0.5], [1.0]]])
    assert admissible(program, Negatives.from_sparse(y, place, step)).tolist() == [[False, True]]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_known_cost_must_be_finite(bad: float) -> None:
    program, y = bad_program(), torch.zeros(2, 3)
    cost = torch.ones(2, 3)
    cost[1, 2] = bad
    with pytest.raises(InputError, match=r"cost must be finite: example 1 has c\[2\]"):
        OneHop()(dataclasses.replace(program, cost=cost), y)


def test_a_known_row_of_nan_is_refused() -> None:
    program = bad_program()
    known = dataclasses.replace(program.blocks[1], b=torch.full((1,), math.nan))
    with pytest.raises(InputError, match="violates row 0"):
        OneHop()(dataclasses.replace(program, blocks=(program.blocks[0], known)), torch.zeros(2, 3))
