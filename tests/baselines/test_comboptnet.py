"""CombOptNet's backward pass: one case by hand for each of its branches, and the naive loops.

Most cases share a program on {0, .., 3}²: minimise -z₁ - 2 z₂ subject to 1.5 - z₁ >= 0. Its answer is y = (1, 3), at
distance 0.5 from the row. With two variables, the mean over k halves everything.
"""

from __future__ import annotations

import itertools
from random import Random

import oracles
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import ROWS, random_case
from torch import Tensor

from neuralilp.baselines import differentiable_solve
from neuralilp.baselines.comboptnet import decompose, mismatch
from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.errors import InputError
from neuralilp.program import IntegerProgram

Rows = list[tuple[list[float], float]]
ROW: Rows = [([-1.0, 0.0], 1.5)]


def doubles(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def box(lower: float = 0.0, upper: float = 3.0, n: int = 2) -> Bounds:
    return Bounds(doubles([lower] * n), doubles([upper] * n))


class Backward:
    """The answer, and the gradients that come back to each part of the program for a gradient g of the answer."""

    def __init__(
        self,
        g: list[float],
        rows: Rows = ROW,
        *,
        cost: tuple[float, float] = (-1.0, -2.0),
        temperature: float = 0.5,
        known: Rows | None = None,
        bounds: Bounds | None = None,
        is_unit: bool = True,
        slack: float | None = None,
    ) -> None:
        a, b, c = (doubles(part).requires_grad_() for part in ([a for a, _ in rows], [b for _, b in rows], cost))
        s = None if slack is None else doubles([slack]).requires_grad_()
        blocks = [ConstraintBlock(a, b, s, is_learned=True, is_unit=is_unit)]
        if known:
            blocks.append(ConstraintBlock(doubles([a for a, _ in known]), doubles([b for _, b in known])))
        program = IntegerProgram(c, bounds or box(), tuple(blocks), cost_is_learned=True)
        answer = differentiable_solve(program, temperature=temperature)
        answer.backward(doubles(g))
        self.y = answer.tolist()
        self.a, self.b, self.c = a.grad, b.grad, c.grad
        self.slack = None if s is None else s.grad

    def check(self, a: object, b: object, c: object) -> None:
        torch.testing.assert_close(self.a, doubles(a), rtol=0, atol=1e-12)
        torch.testing.assert_close(self.b, doubles(b), rtol=0, atol=1e-12)
        torch.testing.assert_close(self.c, doubles(c), rtol=0, atol=1e-12)


def test_feasible_targets_pull_the_row_over_the_answer() -> None:
    """d = (-0.4, -0.1): Δ₁ = (-1, -1), λ₁ = 0.1 and Δ₂ = (-1, 0), λ₂ = 0.3; targets (0, 2) and (0, 3), both feasible.

    P is a·y + b twice, with gradients y and 1: (0.1 + 0.3)/2 = 0.2 times these. The cost differences c·Δ are 3 and 1,
    both positive: (0.1 Δ₁ + 0.3 Δ₂)/2.
    """
    found = Backward([0.4, 0.1])
    assert found.y == [1, 3]
    found.check([[0.2, 0.6]], [0.2], [-0.2, -0.05])


def test_softmin_shares_the_pull_among_rows() -> None:
    """As above with a second row 3.25 - z₂ >= 0: distances 0.5 and 0.25 at y.

    At τ = 0.5 the shares are e^-1 and e^-0.5 over their sum, that is 1/(1 + e^0.5) = 0.3775406688 and the rest.
    At τ = 0 the nearer row takes all.
    """
    rows: Rows = [*ROW, ([0.0, -1.0], 3.25)]
    share = 0.37754066879814546
    Backward([0.4, 0.1], rows).check(
        [[0.2 * share, 0.6 * share], [0.2 * (1 - share), 0.6 * (1 - share)]],
        [0.2 * share, 0.2 * (1 - share)],
        [-0.2, -0.05],
    )
    Backward([0.4, 0.1], rows, temperature=0.0).check([[0, 0], [0.2, 0.6]], [0, 0.2], [-0.2, -0.05])


def test_infeasible_targets_pull_the_violated_rows_outwards() -> None:
    """d = (0.4, -0.1): Δ₁ = (1, -1), λ₁ = 0.1 and Δ₂ = (1, 0), λ₂ = 0.3; targets (2, 2) and (2, 3).

    Row 1 is violated by both, with P = -(a·y' + b): -(0.1 (2, 2) + 0.3 (2, 3))/2 = (-0.4, -0.55) and -0.4/2. Row 2,
    3.3 - 0.6 z₁ - 0.8 z₂ >= 0, is 0.5 at (2, 2) and -0.3 at (2, 3): only k = 2 counts, -0.3/2 (2, 3) and -0.15.
    Row 3, 9 - z₁ >= 0, holds at both. No feasible target, so nothing for the cost.
    """
    rows: Rows = [*ROW, ([-0.6, -0.8], 3.3), ([-1.0, 0.0], 9.0)]
    found = Backward([-0.4, 0.1], rows)
    assert found.y == [1, 3]
    found.check([[-0.4, -0.55], [-0.3, -0.45], [0, 0]], [-0.2, -0.15, 0], [0, 0])


def test_each_target_has_its_own_branch() -> None:
    """d = (0.1, -0.4): Δ₁ = (1, -1), λ₁ = 0.1, to (2, 2), infeasible; Δ₂ = (0, -1), λ₂ = 0.3, to (1, 2), feasible.

    Row: (-0.1 (2, 2) + 0.3 (1, 3))/2 and (-0.1 + 0.3)/2. Cost: c·Δ₂ = 2 > 0, so 0.3 (0, -1)/2.
    """
    Backward([-0.1, 0.4]).check([[0.05, 0.35]], [0.1], [0, -0.15])


@pytest.mark.parametrize("bounds", [box(), box(-0.5, 3.5)], ids=["integral bounds", "bounds between integers"])
def test_steps_out_of_the_box_are_left_out(bounds: Bounds) -> None:
    """d = (-0.4, 0.1) would lead z₂ from 3 to 4: d = (-0.4, 0), so λ₁ = 0, and λ₂ = 0.4 with Δ₂ = (-1, 0).

    The target (0, 3) is feasible and c·Δ₂ = 1: 0.4/2 times (1, 3), 1 and Δ₂.
    """
    Backward([0.4, -0.1], bounds=bounds).check([[0.2, 0.6]], [0.2], [-0.2, 0])


@pytest.mark.parametrize("g", [[0.0, 0.0], [0.0, -1.0]], ids=["no gradient", "every step leaves the box"])
def test_targets_equal_to_the_answer_give_nothing(g: list[float]) -> None:
    Backward(g).check([[0, 0]], [0], [0, 0])


def test_zeros_of_the_gradient_stay() -> None:
    """d = (0, -0.4): λ₁ = 0 and λ₂ = 0.4 with Δ₂ = (0, -1), to (1, 2), feasible, c·Δ₂ = 2."""
    Backward([0.0, 0.4]).check([[0.2, 0.6]], [0.2], [0, -0.2])


def test_ties_move_together() -> None:
    """d = (-0.4, -0.4): λ₁ = 0.4 with Δ₁ = (-1, -1), to (0, 2), feasible, c·Δ₁ = 3; λ₂ = 0."""
    Backward([0.4, 0.4]).check([[0.2, 0.6]], [0.2], [-0.2, -0.2])


def test_known_rows_decide_feasibility_and_share_nothing() -> None:
    """With the known row z₂ - 2.5 >= 0 the target (0, 2) of the first case is infeasible for no fault of a learned row.

    Only λ₂ = 0.3 to (0, 3) is left: 0.15 times (1, 3), 1 and Δ₂ = (-1, 0). The known row, scaled by 2 and at distance
    0.5 from y, takes no share in the softmin.
    """
    Backward([0.4, 0.1], known=[([0.0, 2.0], -5.0)]).check([[0.15, 0.45]], [0.15], [-0.15, 0])


def test_distances_are_from_unit_rows() -> None:
    """The row of the first case as 3 - 2 z₁ >= 0, the other numbers as there.

    Its distance (a·y + b)/|a| = 0.5 has the gradients y/|a| - 0.5 a/|a|² = (0.75, 1.5) and 1/|a| = 0.5, times 0.2.
    """
    Backward([0.4, 0.1], [([-2.0, 0.0], 3.0)], is_unit=False).check([[0.15, 0.3]], [0.1], [-0.2, -0.05])


def test_an_equality_is_two_rows() -> None:
    """|z₁ - 1| <= 0.5: y = (1, 3) is 0.5 inside of both, 0.5 + (z₁ - 1) >= 0 and 0.5 - (z₁ - 1) >= 0.

    d = (0, -0.4) leads to (1, 2), feasible: half of 0.2 goes to each, so that a and b cancel and the slack adds up.
    d = (0.4, 0) leads to (2, 3), outside of the second, P = a·y' + b - slack: 0.4/2 times (2, 3), 1 and -1.
    """
    rows: Rows = [([1.0, 0.0], -1.0)]
    for g, a, b, c, slack in (
        ([0.0, 0.4], [[0, 0]], [0], [0, -0.2], 0.2),
        ([-0.4, 0.0], [[0.4, 0.6]], [0.2], [0, 0], -0.2),
    ):
        found = Backward(g, rows, slack=0.5)
        assert found.y == [1, 3]
        found.check(a, b, c)
        assert found.slack is not None
        assert found.slack.item() == pytest.approx(slack)


def test_cost_differences_that_are_not_positive_give_nothing() -> None:
    """y = (1, 1) is not optimal, as after a time limit: both targets (2, 2) and (2, 1) are feasible.

    c = (-1, 3): c·Δ₁ = 2 with Δ₁ = (1, 1) counts, c·Δ₂ = -1 with Δ₂ = (1, 0) does not: 0.1/2 (1, 1).
    c = (-1, 1): c·Δ₁ = 0, at which max(0, ·) counts as flat: nothing at all.
    """
    y, bounds, none = doubles([1, 1]), box(), (doubles([]).reshape(0, 2), doubles([]))
    size, steps = decompose(doubles([0.4, 0.1]), y, bounds)
    torch.testing.assert_close(size, doubles([0.1, 0.3]))
    assert steps.tolist() == [[1, 1], [1, 0]]
    for cost, expected in (([-1.0, 3.0], [0.05, 0.05]), ([-1.0, 1.0], [0, 0])):
        c = doubles(cost).requires_grad_()
        mismatch(*none, c, y, size, steps, none, None).backward()
        torch.testing.assert_close(c.grad, doubles(expected))


def test_no_answer_is_nan_and_has_no_gradient() -> None:
    """Row 0 of the batch asks for z₁ <= -1; row 1 is the usual one, whose gradient is that of the first case."""
    a = doubles([[-1.0, 0.0]]).requires_grad_()
    b = doubles([[-1.0], [1.5]]).requires_grad_()
    block = ConstraintBlock(a, b, is_learned=True, is_unit=True)
    y = differentiable_solve(IntegerProgram(doubles([-1, -2]), box(), (block,)))
    assert y[0].isnan().all()
    assert y[1].tolist() == [1, 3]
    y.backward(doubles([[0.4, 0.1], [0.4, 0.1]]))
    torch.testing.assert_close(a.grad, doubles([[0.2, 0.6]]))
    torch.testing.assert_close(b.grad, doubles([[0.0], [0.2]]))


def naive(program: IntegerProgram, y: Tensor, g: Tensor, temperature: float, branches: set[str]) -> Tensor:
    """Σ over the examples of mean_k λ_k P_k with loops; its gradient is what must be handed back."""
    total, batch = [], y.shape[:-1]
    for example in oracles.examples(batch):
        answer, d, n = y[example], [-v for v in g[example].tolist()], y.shape[-1]
        if answer.isnan().any():
            branches.add("no answer")
            continue
        rows = oracles.rows_of(program, batch, example)
        learned = [row for row in rows if row.is_learned]
        c = oracles.pick(program.movable_cost, 1, batch, example)
        low, high = (oracles.pick(bound, 1, batch, example) for bound in (program.bounds.lower, program.bounds.upper))
        for j in range(n):
            sign = (d[j] > 0) - (d[j] < 0)
            if not low[j] <= answer[j] + sign <= high[j]:
                d[j] = 0.0
                branches.add("leaves the box")
        order = sorted(range(n), key=lambda j: abs(d[j]))
        before = 0.0
        for k in range(n):
            weight, before = abs(d[order[k]]) - before, abs(d[order[k]])
            step = doubles([(d[j] > 0) - (d[j] < 0) if j in order[k:] else 0 for j in range(n)])
            target = answer + step
            if torch.equal(target, answer):
                branches.add("equal")
                continue
            if any(row.distance(target).item() < -oracles.TOLERANCE for row in rows):
                branches.add("infeasible")
                parts = [torch.relu(-row.distance(target)) for row in learned]
            else:
                branches.add("feasible")
                inside = [row.distance(answer) for row in learned]
                shares = oracles.softmin([d.item() for d in inside], temperature) if inside else []
                parts = [share * distance for share, distance in zip(shares, inside, strict=True)]
                parts.append(torch.relu(c @ target - c @ answer))
            total.append(weight * oracles.sum_of(parts) / n)
    return oracles.sum_of(total)


def test_the_naive_loops_agree() -> None:
    """Static rows, rows an example, equalities, known rows, several runs at once; gradients with zeros and ties."""
    branches: set[str] = set()
    temperatures = enumerate((0.5, 0.01, 0.0))
    for kind, bounds, (seed, temperature) in itertools.product(ROWS, ("binary", "general"), temperatures):
        for cost_is_learned in (True,) if kind == "none" else (False, True):
            case = random_case(kind, bounds, cost_is_learned=cost_is_learned, seed=seed)
            y = differentiable_solve(case.program, temperature=temperature)
            assert y.shape == (*case.program.batch_shape, case.program.num_variables)
            g = torch.randn(y.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
            if seed % 2:
                g = (2 * g).round() / 2
            expected = naive(case.program, y.detach(), g, temperature, branches)
            found = torch.autograd.grad(y, case.leaves, g, allow_unused=True, materialize_grads=True)
            if not expected.requires_grad:
                assert not any(slope.any() for slope in found)
                continue
            wanted = torch.autograd.grad(expected, case.leaves, allow_unused=True, materialize_grads=True)
            for slope, other in zip(found, wanted, strict=True):
                torch.testing.assert_close(slope, other, rtol=1e-10, atol=1e-10)
    assert branches == {"feasible", "infeasible", "equal", "leaves the box", "no answer"}


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_the_steps_add_up_to_the_gradient(entries: list[int], random: Random) -> None:
    """d = Σ λ_k Δ_k wherever no step leaves the box, λ >= 0, and the supports of the Δ_k are nested."""
    n = len(entries)
    d, y = doubles(entries), doubles([float(random.randint(0, 3)) for _ in entries])
    size, steps = decompose(d, y, box(n=n))
    stays = (y + d.sign() >= 0) & (y + d.sign() <= 3)
    torch.testing.assert_close(size @ steps, torch.where(stays, d, 0))
    assert (size >= 0).all()
    assert (steps[1:].abs() <= steps[:-1].abs()).all()
    assert ((y + steps >= 0) & (y + steps <= 3)).all()


def test_only_learned_parts_have_gradients() -> None:
    a, b, c = (doubles(part).requires_grad_() for part in ([[-1.0, 0.0]], [1.5], [-1.0, -2.0]))
    for learned in (True, False):
        block = ConstraintBlock(a, b, is_learned=learned)
        y = differentiable_solve(IntegerProgram(c, box(), (block,), cost_is_learned=not learned))
        slopes = torch.autograd.grad(y, (a, b, c), torch.ones_like(y), allow_unused=True)
        assert [slope is not None for slope in slopes] == [learned, learned, not learned]


def test_what_cannot_be_solved_for_is_refused() -> None:
    program = IntegerProgram(doubles([-1, -2]), box(), (), cost_is_learned=True)
    with pytest.raises(InputError, match="relax must not be set"):
        differentiable_solve(program, relax=True)
    with pytest.raises(InputError, match="temperature must be at least 0, got -1"):
        differentiable_solve(program, temperature=-1.0)
    mixed = IntegerProgram(doubles([-1, -2]), box(), (), torch.tensor([True, False]), cost_is_learned=True)
    with pytest.raises(InputError, match="program must be all integer"):
        differentiable_solve(mixed)
