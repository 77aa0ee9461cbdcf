"""k-hop neighbours: exact sets, exact distances, even coverage; and those that improve the cost."""

from __future__ import annotations

import itertools
import math

import oracles
import pytest
import torch
from strategies import bounds_of, random_case, solutions_in
from torch import Tensor

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.errors import InputError
from neuralilp.negatives import ImprovingNeighbours, KHop, Negatives, OneHop, admissible
from neuralilp.program import IntegerProgram

SIZES = (2, 5, 24, 25, 40)
"""On both sides of the number of variables from which on negatives are sparse."""


def free_program(bounds: Bounds) -> IntegerProgram:
    n = bounds.lower.shape[-1]
    return IntegerProgram(torch.zeros(n), bounds)


def drawn(box: str, n: int, sampler: KHop | OneHop, generator: torch.Generator, batch: int = 3) -> Negatives:
    bounds = bounds_of(box, n)
    return sampler(free_program(bounds), solutions_in(bounds, (batch,), generator), generator=generator)


def moves(negatives: Negatives) -> Tensor:
    return negatives.points() - negatives.solution.unsqueeze(-2)


@pytest.mark.parametrize("n", SIZES)
def test_one_hop_binary(n: int, generator: torch.Generator) -> None:
    """Each variable flips once."""
    negatives = drawn("binary", n, OneHop(), generator)
    for y, points in zip(negatives.solution, negatives.points(), strict=True):
        expected = {tuple((y[i].item() + (i == j)) % 2 for i in range(n)) for j in range(n)}
        assert len(points) == n
        assert {tuple(point) for point in points.tolist()} == expected


@pytest.mark.parametrize("n", SIZES)
def test_one_hop_general(n: int, generator: torch.Generator) -> None:
    """Each variable goes up once and down once."""
    negatives = drawn("general", n, OneHop(), generator)
    for y, points in zip(negatives.solution, negatives.points(), strict=True):
        steps = itertools.product(range(n), (1.0, -1.0))
        expected = {tuple(y[i].item() + way * (i == j) for i in range(n)) for j, way in steps}
        assert len(points) == 2 * n
        assert {tuple(point) for point in points.tolist()} == expected


@pytest.mark.parametrize("sampler", [OneHop(), KHop((1, 2))])
@pytest.mark.parametrize("n", [3, 30])
def test_binary_need_not_be_zero_and_one(sampler: KHop | OneHop, n: int, generator: torch.Generator) -> None:
    """[3, 4] and [-0.5, 1.5] have two integers each: a flip leads to the other one."""
    for low, high, values in ((3.0, 4.0, (3, 4)), (-0.5, 1.5, (0, 1))):
        bounds = Bounds(torch.full((n,), low), torch.full((n,), high))
        y = torch.randint(values[0], values[1] + 1, (2, n), generator=generator).float()
        negatives = sampler(free_program(bounds), y, generator=generator)
        assert set(negatives.points().unique().tolist()) == set(values)


@pytest.mark.parametrize("hops", [1, 2, 3, 4])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("box", ["binary", "general", "unbounded"])
def test_exactly_k_away(box: str, n: int, hops: int, generator: torch.Generator) -> None:
    """L1 distance k for every negative; binary: in k distinct places, by one each. Few variables, many steps, too."""
    if box == "binary" and hops > n:
        with pytest.raises(InputError, match=f"hops must be at most the number of binary variables, {n}, got {hops}"):
            drawn(box, n, KHop(hops), generator)
        return
    move = moves(drawn(box, n, KHop(hops, count=50), generator))
    assert move.shape == (3, 50, n)
    assert bool((move.abs().sum(-1) == hops).all())
    if box == "binary":
        assert bool((move.abs() <= 1).all())


def test_one_variable(generator: torch.Generator) -> None:
    """All steps meet in it, and go the same way."""
    move = moves(drawn("general", 1, KHop(3, count=40), generator, batch=1))
    assert set(move.flatten().tolist()) == {-3.0, 3.0}


@pytest.mark.parametrize("n", [5, 40])
def test_several_hops_in_turn(n: int, generator: torch.Generator) -> None:
    """``count`` of each, first those of the first k."""
    for box in ("binary", "general"):
        distance = moves(drawn(box, n, KHop((3, 1, 2), count=7), generator)).abs().sum(-1)
        assert distance.tolist() == [[3] * 7 + [1] * 7 + [2] * 7] * 3


@pytest.mark.parametrize("n", [5, 24, 25, 40])
@pytest.mark.parametrize("box", ["binary", "general"])
def test_every_variable_equally_often(box: str, n: int, generator: torch.Generator) -> None:
    """With n negatives for each k, each variable takes k steps in all, in every example."""
    move = moves(drawn(box, n, KHop((1, 2, 4)), generator)).abs()
    for part, hops in zip(move.unflatten(-2, (3, n)).unbind(-3), (1, 2, 4), strict=True):
        assert part.sum(-2).tolist() == [[hops] * n] * 3


@pytest.mark.parametrize("n", [5, 30])
def test_counts_beside_n(n: int, generator: torch.Generator) -> None:
    """Fewer and more than n; with r rounds of n and a rest, each variable is used between kr and k(r + 1) times."""
    for count in (1, n - 1, n + 1, 3 * n + 2):
        for box in ("binary", "general"):
            move = moves(drawn(box, n, KHop(2, count=count), generator))
            assert move.shape[-2] == count
            used = move.abs().sum(-2)
            rounds = count // n
            assert int(used.min()) >= 2 * rounds
            assert int(used.max()) <= 2 * (rounds + 1)


def test_all_pairs_equally_likely(generator: torch.Generator) -> None:
    """Binary, n = 5, k = 2: ten sets, each with frequency 0.1 within five deviations over 20,000 independent draws."""
    count = 20_000
    move = moves(drawn("binary", 5, KHop(2, count=1), generator, batch=count))[:, 0].abs()
    together = move.mT @ move / count
    bound = 5 * math.sqrt(0.1 * 0.9 / count)
    for i, j in itertools.combinations(range(5), 2):
        assert together[i, j].item() == pytest.approx(0.1, abs=bound)


@pytest.mark.parametrize("n", [4, 30])
def test_general_steps_go_both_ways(n: int, generator: torch.Generator) -> None:
    """Up or down with probability 1/2, independently of the variable: five deviations over all of 10,000 draws."""
    count = 10_000
    move = moves(drawn("general", n, KHop(1, count=1), generator, batch=count))[:, 0]
    up = (move.sum(-1) == 1).float().mean().item()
    assert up == pytest.approx(0.5, abs=5 * 0.5 / math.sqrt(count))
    place = move.abs().mean(0)
    assert bool(((place - 1 / n).abs() <= 5 * math.sqrt((1 / n) * (1 - 1 / n) / count)).all())


def test_examples_draw_independently(generator: torch.Generator) -> None:
    """The same y* twice in a batch has other negatives."""
    for n in (8, 40):
        program = free_program(bounds_of("binary", n))
        points = KHop(2)(program, torch.zeros(2, n), generator=generator).points()
        assert not torch.equal(points[0], points[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hops": 0}, r"hops must be positive integers, got \(0,\)"),
        ({"hops": (2, -1)}, r"hops must be positive integers, got \(2, -1\)"),
        ({"hops": ()}, r"hops must be positive integers, got \(\)"),
        ({"hops": 2, "count": 0}, "count must be None or positive, got 0"),
    ],
)
@pytest.mark.parametrize("kind", [KHop, ImprovingNeighbours])
def test_bad_hops(kind: type[KHop], arguments: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        kind(**arguments)


def test_bad_tries() -> None:
    with pytest.raises(InputError, match="tries must be positive, got 0"):
        ImprovingNeighbours(1, tries=0)


@pytest.mark.parametrize("n", [5, 40])
@pytest.mark.parametrize("box", ["binary", "general", "unbounded"])
@pytest.mark.parametrize("rows", ["inequalities", "mixed", "restarts"])
def test_improving_neighbours(rows: str, box: str, n: int, generator: torch.Generator) -> None:
    """At the distance asked for, in bounds and known rows, no worse in cost; or y* itself where no try was."""
    case = random_case(rows, box, n=n)
    sampler = ImprovingNeighbours((1, 2, 3), count=6, tries=5)
    negatives = sampler(case.program, case.solution, generator=generator)
    points, distance = negatives.points(), moves(negatives).abs().sum(-1)
    found = distance > 0
    wanted = torch.tensor([1.0] * 6 + [2.0] * 6 + [3.0] * 6, dtype=distance.dtype).expand_as(distance)
    assert torch.equal(distance[found], wanted[found])
    assert torch.equal(oracles.mask(case.program, case.solution, points), found)
    cost = case.program.cost.expand_as(case.solution).unsqueeze(-2)
    assert bool(((points - case.solution.unsqueeze(-2)) * cost).sum(-1)[found].max() <= 0)
    plain = KHop((1, 2, 3), count=6)(case.program, case.solution, generator=generator)
    assert found.sum() > admissible(case.program, plain).sum()


@pytest.mark.parametrize("n", [4, 30])
def test_improving_where_nothing_improves(n: int, generator: torch.Generator) -> None:
    """y* = 0 at the lower bounds with positive costs is the best point there is: y* stands in for every negative."""
    program = IntegerProgram(torch.ones(n), bounds_of("binary", n))
    y = torch.zeros(2, n)
    negatives = ImprovingNeighbours((1, 2))(program, y, generator=generator)
    assert len(negatives) == 2 * n
    assert not moves(negatives).any()
    assert not admissible(program, negatives).any()


@pytest.mark.parametrize("n", [4, 30])
def test_improving_with_a_learned_cost(n: int, generator: torch.Generator) -> None:
    """No cost to compare with: only bounds count, and one step inward is always possible."""
    low, high = torch.zeros(n), torch.full((n,), 3.0)
    program = IntegerProgram(torch.ones(n), Bounds(low, high), cost_is_learned=True)
    for y in (low.expand(2, n), high.expand(2, n)):
        negatives = ImprovingNeighbours(1, tries=1)(program, y.clone(), generator=generator)
        assert bool((moves(negatives).abs().sum(-1) == 1).all())
        assert bool(admissible(program, negatives).all())


def test_improving_around_fixed_variables(generator: torch.Generator) -> None:
    """A variable with lower = upper has nowhere to go: negatives move the others, or none."""
    low, high = torch.tensor([0.0, 2.0, 0.0]), torch.tensor([4.0, 2.0, 4.0])
    program = IntegerProgram(torch.zeros(3), Bounds(low, high))
    negatives = ImprovingNeighbours((1, 2), count=9)(program, torch.tensor([[1.0, 2.0, 3.0]]), generator=generator)
    assert not moves(negatives)[..., 1].any()
    assert moves(negatives).any()


def test_improving_respects_known_rows(generator: torch.Generator) -> None:
    """x + y + z = 1 is known and y* on it: one hop always leaves it, two hops stay only by a swap."""
    block = ConstraintBlock(torch.ones(1, 3), -torch.ones(1), torch.zeros(1))
    program = IntegerProgram(torch.zeros(3), bounds_of("binary", 3), (block,))
    negatives = ImprovingNeighbours((1, 2), count=12, tries=8)(
        program, torch.tensor([[1.0, 0, 0]]), generator=generator
    )
    points = negatives.points()[0]
    assert {tuple(point) for point in points[:12].tolist()} == {(1, 0, 0)}
    assert {tuple(point) for point in points[12:].tolist()} == {(0, 1, 0), (0, 0, 1)}


@pytest.mark.parametrize(("count", "n"), [(1, 3), (7, 10), (12, 30)])
def test_two_hops_meet_as_often_as_independent_ones(count: int, n: int, generator: torch.Generator) -> None:
    """With general integers the two places are independent: they meet, as a step of ±2, in 1 of n draws.

    Of 6,000 draws or more with chance p = 1/n, the share lies within 5 standard deviations sqrt(p(1-p)/draws).
    """
    bounds = Bounds(torch.full((n,), -9.0), torch.full((n,), 9.0))
    program = IntegerProgram(torch.zeros(n), bounds, (ConstraintBlock(torch.ones(1, n), torch.ones(1), None, True),))
    y = torch.zeros(-(-6000 // count), n)
    steps = KHop(2, count)(program, y, generator=generator).points()
    draws, share = steps.shape[0] * count, float((steps.abs() == 2).any(-1).float().mean())
    p = 1 / n
    assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / draws)
