"""ILP-Loss: two variables by hand, the naive loops, the gradient with frozen weights, and invariants."""

from __future__ import annotations

import dataclasses
import math
import pathlib
import subprocess
import sys

import oracles
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import BOXES, Case, Numbers, numbers, random_case
from torch import Tensor

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.constraints import Box, LearnableConstraints
from neuralilp.costs import KnownCost
from neuralilp.dense import assignment, dense_mask, dense_rows, dense_terms
from neuralilp.errors import InputError, ShapeError
from neuralilp.loss import ILPLoss
from neuralilp.model import NeuralILP
from neuralilp.negatives import BatchNegatives, KHop, Negatives, OneHop, Union
from neuralilp.program import IntegerProgram
from neuralilp.separation import compiler_is_present
from neuralilp.terms import LossTerms

INF = math.inf
TERMS = ("positive", "negative", "covariance")
FIGURES = (*TERMS, "masked", "separated", "inside")
TEMPERATURES = (1.0, 0.1, 0.01, 0.0)


def doubles(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def free(n: int = 2) -> Bounds:
    """No bounds at all, so that only the rows named in a golden case are there."""
    return Bounds(torch.full((n,), -INF, dtype=torch.float64), torch.full((n,), INF, dtype=torch.float64))


def values(terms: LossTerms | oracles.Terms) -> list[float]:
    figures = [getattr(terms, name) for name in FIGURES]
    return [figure.item() if isinstance(figure, Tensor) else figure for figure in figures]


def gradients(terms: LossTerms | oracles.Terms | tuple[Tensor, ...], leaves: tuple[Tensor, ...]) -> list[Tensor]:
    """Of each of the three terms for each leaf; zeros where a term does not depend on it."""
    parts = [getattr(terms, name) for name in TERMS] if isinstance(terms, LossTerms | oracles.Terms) else terms
    found = []
    for part in parts:
        if not part.requires_grad:
            found += [torch.zeros_like(leaf) for leaf in leaves]
            continue
        slopes = torch.autograd.grad(part, leaves, retain_graph=True, allow_unused=True)
        found += [
            torch.zeros_like(leaf) if slope is None else slope for leaf, slope in zip(leaves, slopes, strict=True)
        ]
    return found


def assert_close(actual: list[Tensor], expected: list[Tensor], relative: float) -> None:
    """Relative to the largest entry of each tensor: entries that cancel have no relative accuracy of their own."""
    for mine, its in zip(actual, expected, strict=True):
        scale = max(float(its.abs().max()), 1e-3)
        torch.testing.assert_close(mine.double(), its.double(), rtol=0, atol=relative * scale)


def test_golden_positive_term() -> None:
    """Eq. 6 at y* = (1, 1), margin 1/2.

    Row 1: 3x + 4y - 5 >= 0, d = (3 + 4 - 5)/5 = 0.4, hinge 0.5 - 0.4 = 0.1.
    Row 2: -2y + 1 >= 0, d = (-2 + 1)/2 = -0.5, hinge 1. The mean is 0.55, and y* is not inside.
    By b: row 1 has -1/5 over 2 rows, row 2 has -1/2 over 2 rows.
    """
    b = doubles(-5, 1).requires_grad_()
    program = IntegerProgram(doubles(1, 1), free(), (ConstraintBlock(doubles([3, 4], [0, -2]), b, None, True),))
    y = doubles([1, 1])
    terms = ILPLoss(positive_margin=0.5)(program, y, OneHop()(program, y), temperature=1.0)
    assert terms.positive.item() == pytest.approx(0.55, rel=1e-14)
    assert terms.inside.item() == 0.0
    assert torch.autograd.grad(terms.positive, b)[0].tolist() == pytest.approx([-0.1, -0.25], rel=1e-14)


def test_golden_positive_term_of_an_equality() -> None:
    """|4y - 5| <= 1 at y* = (1, 1): s = -1/4 and σ = 1/4, so the two distances are 0 and 1/2.

    With margin 3/4 the hinges are 3/4 and 1/4, and their mean is 1/2. On the border still means inside.
    """
    block = ConstraintBlock(doubles([0, 4]), doubles(-5), doubles(1), True)
    program = IntegerProgram(doubles(1, 1), free(), (block,))
    y = doubles([1, 1])
    terms = ILPLoss(positive_margin=0.75)(program, y, OneHop()(program, y), temperature=1.0)
    assert terms.positive.item() == 0.5
    assert terms.inside.item() == 1.0
    assert terms.covariance.item() == 0.0


def test_golden_negative_term() -> None:
    """Eqs. 7 and 9 with one learned row and the known cost row, at y* = (1, 1) and y⁻ = (1, 2), margin 1/2.

    Row: 3x + 4y - 5 >= 0, d₁ = (3 + 8 - 5)/5 = 1.2. Cost c = (0, -2): d₂ = -c·(0, 1)/|c| = 1.
    At τ = 0.2/ln 3, w₁ : w₂ = exp(-0.2/τ) : 1 = 1 : 3, so L₋ = 1/4·(0.5 + 1.2) + 3/4·(0.5 + 1) = 1.55.
    With w fixed: ∂/∂b = w₁/|a| = 1/20, and ∂/∂a = w₁·(y⁻/|a| - d₁·a/|a|²) = 1/4·((0.2, 0.4) - 1.2·(0.12, 0.16))
    = (0.014, 0.052). Were the weights differentiated, ∂/∂b would also hold -w₁w₂/τ·(h₁ - h₂)/|a|, about -0.04.
    """
    a, b = doubles([3, 4]).requires_grad_(), doubles(-5).requires_grad_()
    program = IntegerProgram(doubles(0, -2), free(), (ConstraintBlock(a, b, None, True),))
    y = doubles([1, 1])
    negatives = Negatives.from_points(y, doubles([[1, 2]]))
    terms = ILPLoss(negative_margin=0.5)(program, y, negatives, temperature=0.2 / math.log(3))
    assert terms.negative.item() == pytest.approx(1.55, rel=1e-13)
    slopes = torch.autograd.grad(terms.negative, [a, b])
    assert slopes[0].flatten().tolist() == pytest.approx([0.014, 0.052], rel=1e-12)
    assert slopes[1].item() == pytest.approx(0.05, rel=1e-12)
    assert (terms.masked.item(), terms.separated.item()) == (0.0, 0.0)


def test_golden_negative_term_of_an_equality() -> None:
    """|x - y| <= 1/2·√2 with y* = (0, 0), y⁻ = (2, 0), cost row at distance 2, margin 1, τ → 0 and τ = 1.

    s = 2/√2 = √2 and σ = 1/2: distances 1/2 + √2 and 1/2 - √2 = -0.914. At τ = 0 the second has all the weight, its
    hinge is 1 + 1/2 - √2 = 0.0858. It falls with s: ∂/∂b = -1/√2, and rises with the slack: ∂/∂slack = 1/√2.
    """
    root = math.sqrt(2)
    b, slack = doubles(0.0).requires_grad_(), doubles(root / 2).requires_grad_()
    block = ConstraintBlock(doubles([1.0, -1.0]), b, slack, True)
    program = IntegerProgram(doubles(-1, 0), free(), (block,))
    y = doubles([0.0, 0.0])
    negatives = Negatives.from_points(y, doubles([[2.0, 0.0]]))
    loss = ILPLoss(negative_margin=1.0)
    terms = loss(program, y, negatives, temperature=0.0)
    assert terms.negative.item() == pytest.approx(1.5 - root, rel=1e-13)
    slopes = torch.autograd.grad(terms.negative, [b, slack])
    assert [slope.item() for slope in slopes] == pytest.approx([-1 / root, 1 / root], rel=1e-13)
    d = [0.5 + root, 0.5 - root, 2.0]
    e = [math.exp(-value) for value in d]
    expected = sum(e[i] * (1 + d[i]) for i in range(3)) / sum(e)
    assert loss(program, y, negatives, temperature=1.0).negative.item() == pytest.approx(expected, rel=1e-13)


def test_golden_cost_row() -> None:
    """A learned cost alone: c = (3, 4), y⁻ - y* = (1, 0), so d = -3/5, with margin 1 the loss is 0.4, w = 1.

    ∂d/∂c = -(Δ/|c| - (c·Δ)·c/|c|³) = -((0.2, 0) - 3·(3, 4)/125) = (-0.128, 0.096).
    """
    cost = doubles(3, 4).requires_grad_()
    program = IntegerProgram(cost, free(), cost_is_learned=True)
    y = doubles([5, 7])
    negatives = Negatives.from_points(y, doubles([[6, 7]]))
    terms = ILPLoss(negative_margin=1.0)(program, y, negatives, temperature=0.3)
    assert terms.negative.item() == pytest.approx(0.4, rel=1e-13)
    assert torch.autograd.grad(terms.negative, cost)[0].tolist() == pytest.approx([-0.128, 0.096], rel=1e-12)
    assert (terms.positive.item(), terms.covariance.item(), terms.inside.item()) == (0.0, 0.0, 1.0)
    # With margin 1/2 the cost row keeps y⁻ out by more than it: nothing left to learn.
    separated = ILPLoss(negative_margin=0.5)(program, y, negatives, temperature=0.3)
    assert (separated.negative.item(), separated.separated.item()) == (0.0, 1.0)


def test_golden_bounds_take_weight() -> None:
    """In [0, 3]², y⁻ = (1, 3) is at 1, 3 (lower), 2, 0 (upper), and at 1 from the cost row of c = (0, -1), y* = (1, 2).

    One learned row x - 0.5 >= 0 at distance 0.5. At τ = 0 the upper bound of y, at distance 0, has all the weight:
    L₋ = μ⁻. At τ = 1 it is the softmin over all six.
    """
    bounds = Bounds(doubles(0, 0), doubles(3, 3))
    b = doubles(-0.5).requires_grad_()
    program = IntegerProgram(doubles(0, -1), bounds, (ConstraintBlock(doubles([1.0, 0.0]), b, None, True),))
    y = doubles([1, 2])
    negatives = Negatives.from_points(y, doubles([[1, 3]]))
    terms = ILPLoss(negative_margin=0.25)(program, y, negatives, temperature=0.0)
    assert terms.negative.item() == pytest.approx(0.25, rel=1e-14)
    assert torch.autograd.grad(terms.negative, b)[0].item() == 0.0
    d = [1.0, 3.0, 2.0, 0.0, 1.0, 0.5]
    total = sum(math.exp(-value) for value in d)
    expected = sum(math.exp(-value) * (0.25 + value) for value in d) / total
    terms = ILPLoss(negative_margin=0.25)(program, y, negatives, temperature=1.0)
    assert terms.negative.item() == pytest.approx(expected, rel=1e-13)
    assert torch.autograd.grad(terms.negative, b)[0].item() == pytest.approx(math.exp(-0.5) / total, rel=1e-13)
    # Where bounds do not compete, the learned row at 0.5 is the nearest; at τ = 1 the cost row at 1 has a share.
    loss = ILPLoss(negative_margin=0.25, known_rows_compete=False)
    terms = loss(program, y, negatives, temperature=0.0)
    assert terms.negative.item() == pytest.approx(0.75, rel=1e-14)
    assert torch.autograd.grad(terms.negative, b)[0].item() == 1.0
    share = 1 / (1 + math.exp(-0.5))
    terms = loss(program, y, negatives, temperature=1.0)
    assert terms.negative.item() == pytest.approx(0.75 * share + 1.25 * (1 - share), rel=1e-13)
    assert torch.autograd.grad(terms.negative, b)[0].item() == pytest.approx(share, rel=1e-13)


def test_golden_covariance_term() -> None:
    """Eq. 8: unit rows (0.6, 0.8) and (0, -1) have the mean (0.3, -0.1), whose mean square is 0.05.

    An equality adds two rows that cancel: the mean over four is (0.15, -0.05), hence 0.0125.
    """
    rows = ConstraintBlock(doubles([3, 4], [0, -2]), doubles(0, 0), None, True)
    equality = ConstraintBlock(doubles([5, 1]), doubles(0), doubles(1), True)
    known = ConstraintBlock(doubles([7, 1]), doubles(9))
    y = doubles([0, 0])
    for blocks, expected in (((rows,), 0.05), ((equality, rows, known), 0.0125), ((equality,), 0.0)):
        program = IntegerProgram(doubles(1, 1), free(), blocks)
        terms = ILPLoss()(program, y, OneHop()(program, y), temperature=1.0)
        assert terms.covariance.item() == pytest.approx(expected, rel=1e-14)


def test_golden_means() -> None:
    """First over the usable negatives of an example, then over the examples.

    One learned row x >= 0 in one variable with cost -1, no bounds, τ = 0 and margin 0, y* = 0 twice: a negative k > 0
    has distance k from both rows, which share it. Example 1 has 1 and 3 (and -1, which costs more, masked): mean 2.
    Example 2 has 8, and y* itself twice, masked: mean 8. Together 5; 3 of 6 negatives are masked.
    """
    program = IntegerProgram(doubles(-1), free(1), (ConstraintBlock(doubles([1]), doubles(0), None, True),))
    y = doubles([0.0], [0.0])
    negatives = Negatives.from_points(y, doubles([[1.0], [3.0], [-1.0]], [[8.0], [0.0], [0.0]]))
    terms = ILPLoss(negative_margin=0.0)(program, y, negatives, temperature=0.0)
    assert terms.negative.item() == 5.0
    assert terms.masked.item() == 0.5


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize(
    ("box", "cost_is_learned"), [("binary", False), ("binary", True), ("general", False), ("unbounded", True)]
)
@pytest.mark.parametrize("rows", ["inequalities", "equalities", "mixed", "network", "restarts"])
def test_agrees_with_naive_loops(rows: str, box: str, cost_is_learned: bool, temperature: float) -> None:
    case = random_case(rows, box, cost_is_learned=cost_is_learned, batch=2)
    terms = ILPLoss()(case.program, case.solution, case.negatives, temperature=temperature)
    expected = oracles.terms(case.program, case.solution, case.negatives.points(), temperature)
    assert 0 < expected.masked < 1
    assert values(terms) == pytest.approx(values(expected), rel=1e-10, abs=1e-13)
    assert_close(gradients(terms, case.leaves), gradients(expected, case.leaves), 1e-10)


@pytest.mark.parametrize("temperature", [0.1, 0.0])
@pytest.mark.parametrize(
    ("rows", "box", "cost_is_learned"),
    [
        ("mixed", "binary", False),
        ("network", "general", True),
        ("restarts", "binary", True),
        ("none", "unbounded", True),
    ],
)
def test_agrees_with_naive_loops_in_many_variables(
    rows: str, box: str, cost_is_learned: bool, temperature: float
) -> None:
    """More variables than are held densely: sparse and dense negatives together."""
    case = random_case(rows, box, cost_is_learned=cost_is_learned, n=30, batch=2)
    assert case.negatives.place.shape[-2] > 0
    assert case.negatives.dense.shape[-2] > 0
    terms = ILPLoss()(case.program, case.solution, case.negatives, temperature=temperature)
    expected = oracles.terms(case.program, case.solution, case.negatives.points(), temperature)
    assert values(terms) == pytest.approx(values(expected), rel=1e-10, abs=1e-13)
    assert_close(gradients(terms, case.leaves), gradients(expected, case.leaves), 1e-10)


@pytest.mark.parametrize("temperature", [0.1, 0.0])
@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("rows", ["inequalities", "mixed", "network", "none"])
def test_agrees_with_naive_loops_where_known_rows_do_not_compete(rows: str, box: str, temperature: float) -> None:
    case = random_case(rows, box, cost_is_learned=True, batch=2)
    points = case.negatives.points()
    terms = ILPLoss(known_rows_compete=False)(case.program, case.solution, case.negatives, temperature=temperature)
    expected = oracles.terms(case.program, case.solution, points, temperature, known_rows_compete=False)
    assert values(terms) == pytest.approx(values(expected), rel=1e-10, abs=1e-13)
    assert_close(gradients(terms, case.leaves), gradients(expected, case.leaves), 1e-10)
    plain = dense_terms(case.program, case.solution, points, temperature, known_rows_compete=False)
    assert values(plain) == pytest.approx(values(expected), rel=1e-10, abs=1e-6)
    assert_close(gradients(plain, case.leaves), gradients(expected, case.leaves), 1e-9)


@pytest.mark.parametrize("n", [4, 40])
@pytest.mark.parametrize("temperature", [1.0, 0.1, 0.0])
@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("rows", ["inequalities", "equalities", "mixed", "network", "restarts"])
def test_agrees_with_the_dense_formula(rows: str, box: str, temperature: float, n: int) -> None:
    for seed in range(2):
        case = random_case(rows, box, cost_is_learned=seed == 1, n=n, seed=seed)
        terms = ILPLoss()(case.program, case.solution, case.negatives, temperature=temperature)
        expected = dense_terms(case.program, case.solution, case.negatives.points(), temperature)
        assert values(terms)[:3] == pytest.approx(values(expected)[:3], rel=1e-10, abs=1e-13)
        assert values(terms)[3:] == pytest.approx(values(expected)[3:], abs=1e-6)
        assert_close(gradients(terms, case.leaves), gradients(expected, case.leaves), 1e-10)


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("n", [4, 40])
@pytest.mark.parametrize("rows", ["inequalities", "equalities", "mixed", "network", "restarts"])
def test_float32(rows: str, n: int, temperature: float) -> None:
    """Against float64 on the same numbers. A distance has an error of some 1e-7, which the weights see over τ."""
    for box in BOXES:
        case = random_case(rows, box, cost_is_learned=True, n=n, dtype=torch.float32)
        terms = ILPLoss()(case.program, case.solution, case.negatives, temperature=temperature)
        assert terms.negative.dtype == torch.float32
        points = case.negatives.points().double()
        expected = dense_terms(case.program.to(torch.float64), case.solution.double(), points, temperature)
        relative = 1e-5 if temperature in (0.0, 1.0, 0.1) else 1e-4
        assert values(terms) == pytest.approx(values(expected), rel=1e-5, abs=1e-7)
        assert_close(gradients(terms, case.leaves), gradients(expected, case.leaves), relative)


@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize("rows", ["mixed", "network", "restarts", "none"])
@pytest.mark.parametrize("n", [4, 30])
def test_slabs_and_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch, rows: str, n: int, size: int) -> None:
    case = random_case(rows, "general", cost_is_learned=True, n=n)
    loss = ILPLoss()
    whole = loss(case.program, case.solution, case.negatives, temperature=0.1)
    monkeypatch.setattr("neuralilp.separation.CHUNK", size)
    chunks = loss(case.program, case.solution, case.negatives, temperature=0.1)
    monkeypatch.setattr("neuralilp.separation.SLAB", 3 * size)
    slabs = loss(case.program, case.solution, case.negatives, temperature=0.1)
    for parts in (chunks, slabs):
        assert values(parts) == pytest.approx(values(whole), rel=1e-12)
        assert_close(gradients(parts, case.leaves), gradients(whole, case.leaves), 1e-12)


@pytest.mark.parametrize("rows", ["inequalities", "equalities", "mixed", "network", "restarts"])
def test_temperature_zero_is_the_limit(rows: str) -> None:
    case = random_case(rows, "general", cost_is_learned=True)
    at_zero = ILPLoss()(case.program, case.solution, case.negatives, temperature=0.0)
    near_zero = ILPLoss()(case.program, case.solution, case.negatives, temperature=1e-5)
    assert values(at_zero) == pytest.approx(values(near_zero), rel=1e-9)
    assert_close(gradients(at_zero, case.leaves), gradients(near_zero, case.leaves), 1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [1e-30, 4e-39, 1e-44, 1e-310])
def test_temperatures_however_small(dtype: torch.dtype, temperature: float) -> None:
    """1/τ may overflow; the loss is then that of temperature 0."""
    case = random_case("mixed", "general", cost_is_learned=True, dtype=dtype)
    terms = ILPLoss()(case.program, case.solution, case.negatives, temperature=temperature)
    at_zero = ILPLoss()(case.program, case.solution, case.negatives, temperature=0.0)
    assert values(terms) == pytest.approx(values(at_zero), rel=1e-6)
    assert all(bool(slope.isfinite().all()) for slope in gradients(terms, case.leaves))


def test_ties_share_at_temperature_zero() -> None:
    """Two equal rows x >= 0.5 and the cost row c = (-1, 0) at y* = (0, 0): y⁻ = (1, 0) is at 0.5, 0.5 and 1.

    Each of the two rows has half of the weight, so each b half of the slope, and L₋ = 0.5 + μ⁻.
    """
    b = doubles(-0.5, -0.5).requires_grad_()
    program = IntegerProgram(doubles(-1, 0), free(), (ConstraintBlock(doubles([1, 0], [1, 0]), b, None, True),))
    y = doubles([0, 0])
    negatives = Negatives.from_points(y, doubles([[1, 0]]))
    terms = ILPLoss(negative_margin=0.25)(program, y, negatives, temperature=0.0)
    assert terms.negative.item() == 0.75
    assert torch.autograd.grad(terms.negative, b)[0].tolist() == [0.5, 0.5]


def with_leaves(case: Case, leaves: tuple[Tensor, ...]) -> IntegerProgram:
    """The program of the case, with other leaves in the places of its own."""
    replace = {id(old): new for old, new in zip(case.leaves, leaves, strict=True)}
    return case.program.map(lambda tensor: replace.get(id(tensor), tensor))


@pytest.mark.parametrize("temperature", [1.0, 0.1, 0.0])
@pytest.mark.parametrize("rows", ["inequalities", "mixed", "network", "restarts"])
def test_gradcheck_with_frozen_weights(rows: str, temperature: float) -> None:
    """With w held fixed L₋ is piecewise smooth: finite differences agree with autograd, and our backward with both."""
    case = random_case(rows, "general", cost_is_learned=True, n=3, batch=2)
    points = case.negatives.points()
    a, b, _ = dense_rows(case.program, case.solution)
    frozen = assignment((points @ a.mT + b.unsqueeze(-2)).detach(), temperature)
    mask = dense_mask(case.program, case.solution, points)

    def negative(*leaves: Tensor) -> Tensor:
        a, b, _ = dense_rows(with_leaves(case, leaves), case.solution)
        hinge = (0.01 + points @ a.mT + b.unsqueeze(-2)).relu()
        return (((frozen * hinge).sum(-1) * mask).sum(-1) / mask.sum(-1)).mean()

    assert torch.autograd.gradcheck(negative, case.leaves, eps=1e-7, atol=1e-6)
    terms = ILPLoss()(case.program, case.solution, case.negatives, temperature=temperature)
    expected = negative(*case.leaves)
    assert terms.negative.item() == pytest.approx(expected.item(), rel=1e-12)
    assert_close(gradients((terms.negative,), case.leaves), gradients((expected,), case.leaves), 1e-11)


@pytest.mark.parametrize("rows", ["mixed", "network", "restarts"])
def test_gradcheck_of_the_smooth_terms(rows: str) -> None:
    """L₊ and L_o have no weights: finite differences of the loss itself."""
    case = random_case(rows, cost_is_learned=True, n=3, batch=2)

    def smooth(*leaves: Tensor) -> tuple[Tensor, Tensor]:
        program = with_leaves(case, leaves)
        terms = ILPLoss(positive_margin=3.0)(program, case.solution, case.negatives, temperature=1.0)
        return terms.positive, terms.covariance

    assert torch.autograd.gradcheck(smooth, case.leaves, eps=1e-7, atol=1e-6)


def test_backward_scales_and_adds_up() -> None:
    """The gradient is made in the forward pass: backward must still honour what comes from above."""
    case = random_case("mixed", "general", cost_is_learned=True)
    terms = ILPLoss()(case.program, case.solution, case.negatives, temperature=0.1)
    once = gradients((terms.negative,), case.leaves)
    scaled = gradients((-3 * terms.negative + 2 * terms.positive,), case.leaves)
    positive = gradients((terms.positive,), case.leaves)
    assert_close(scaled, [-3 * mine + 2 * its for mine, its in zip(once, positive, strict=True)], 1e-12)


def test_no_gradient_without_learning() -> None:
    """Under no_grad, and where nothing requires a gradient, the values are the same."""
    case = random_case("mixed", "general", cost_is_learned=True)
    terms = ILPLoss()(case.program, case.solution, case.negatives, temperature=0.1)
    with torch.no_grad():
        quiet = ILPLoss()(case.program, case.solution, case.negatives, temperature=0.1)
    detached = ILPLoss()(case.program.detach(), case.solution, case.negatives, temperature=0.1)
    assert values(quiet) == values(detached) == values(terms)
    assert not quiet.negative.requires_grad
    assert not detached.negative.requires_grad


def test_known_parts_get_no_gradient() -> None:
    """Known rows and a known cost stay as they are, even where their tensors ask for a gradient."""
    known = ConstraintBlock(doubles([1, 1]).requires_grad_(), doubles(5))
    learned = ConstraintBlock(doubles([1, -2]).requires_grad_(), doubles(1), None, True)
    program = IntegerProgram(doubles(-1, -1).requires_grad_(), Bounds(doubles(0, 0), doubles(3, 3)), (known, learned))
    y = doubles([1, 1])
    terms = ILPLoss()(program, y, OneHop()(program, y), temperature=1.0)
    total = terms.positive + terms.negative + terms.covariance
    slopes = torch.autograd.grad(total, [known.a, learned.a], allow_unused=True)
    assert slopes[0] is None or not bool(slopes[0].any())
    assert bool(slopes[1].any())


@pytest.mark.parametrize("n", [4, 30])
def test_masked_negatives_contribute_nothing(n: int) -> None:
    case = random_case("mixed", "general", n=n)
    mask = oracles.mask(case.program, case.solution, case.negatives.points())
    assert 0 < int(mask.sum()) < mask.numel()
    loss = ILPLoss()
    terms = loss(case.program, case.solution, case.negatives, temperature=0.1)
    # The same with every masked negative replaced by y*, which is masked for another reason.
    points = torch.where(mask.unsqueeze(-1), case.negatives.points(), case.solution.unsqueeze(-2))
    only = loss(case.program, case.solution, Negatives.from_points(case.solution, points), temperature=0.1)
    assert values(only) == pytest.approx(values(terms), rel=1e-11)
    assert_close(gradients(only, case.leaves), gradients(terms, case.leaves), 1e-11)


def test_a_solution_is_separated_where_no_negative_is_inside() -> None:
    """Under z1 <= 1/2 with margin 1, (1, 0) is out and (0, 1) inside, which for the second cost is worse than y*."""
    a, b = doubles([-1, 0]).requires_grad_(), doubles(0.5)
    program = IntegerProgram(doubles([[-1, -1], [-1, 1]]), free(), (ConstraintBlock(a, b, None, True),))
    y = doubles([[0, 0], [0, 0]])
    points = doubles([[[1, 0], [0, 1]], [[1, 0], [0, 1]]])
    terms = ILPLoss(negative_margin=1.0)(program, y, Negatives.from_points(y, points), temperature=0.1)
    assert (terms.masked.item(), terms.separated.item()) == (0.25, 0.5)


@pytest.mark.parametrize("kind", ["y* only", "none at all", "worse cost"])
@pytest.mark.parametrize("rows", ["inequalities", "mixed", "network", "restarts"])
def test_all_negatives_masked(rows: str, kind: str) -> None:
    case = random_case(rows)
    points = case.solution.unsqueeze(-2).repeat_interleave(3, -2)
    program = case.program
    if kind == "none at all":
        points = points[..., :0, :]
    if kind == "worse cost":
        points = 1 - points
        program = dataclasses.replace(program, cost=1 - 2 * case.solution)  # leaving y* costs 1 a variable
    negatives = Negatives.from_points(case.solution, points)
    terms = ILPLoss()(program, case.solution, negatives, temperature=0.1)
    assert terms.negative.item() == 0.0
    assert (terms.masked.item(), terms.separated.item()) == (1.0, 1.0)
    expected = oracles.terms(program, case.solution, points[..., :0, :], 0.1)
    assert values(terms)[0] == pytest.approx(values(expected)[0], rel=1e-12)
    slopes = gradients(terms, case.leaves)
    assert all(bool(slope.isfinite().all()) for slope in slopes)
    assert not any(bool(slope.any()) for slope in gradients((terms.negative,), case.leaves))


def test_zero_rows_are_finite() -> None:
    """A learned row that has shrunk to zero has the distance b, with a gradient, and no NaN anywhere."""
    a, b = torch.zeros(2, 3, requires_grad=True), torch.tensor([0.5, -0.5], requires_grad=True)
    slack = torch.full((2,), 0.1, requires_grad=True)
    cost = torch.zeros(3, requires_grad=True)
    blocks = (ConstraintBlock(a, b, None, True), ConstraintBlock(a, b, slack, True))
    program = IntegerProgram(cost, Bounds(torch.zeros(3), torch.ones(3)), blocks, cost_is_learned=True)
    y = torch.zeros(2, 3)
    for temperature in TEMPERATURES:
        terms = ILPLoss()(program, y, OneHop()(program, y), temperature=temperature)
        expected = oracles.terms(program, y, OneHop()(program, y).points(), temperature)
        assert values(terms) == pytest.approx(values(expected), rel=1e-5, abs=1e-7)
        slopes = gradients(terms, (a, b, slack, cost))
        assert all(bool(slope.isfinite().all()) for slope in slopes)


def test_bounds_that_differ_between_examples() -> None:
    """One example is bounded where another is not, and fractional bounds count from where they are."""
    lower, upper = doubles([0, -INF], [-0.5, 0]), doubles([INF, 2.5], [1.5, 4])
    a, b = doubles([1, -2], [2, 1]).requires_grad_(), doubles(0.5, -1).requires_grad_()
    program = IntegerProgram(doubles(-1, -2), Bounds(lower, upper), (ConstraintBlock(a, b, None, True),))
    y = doubles([1, 1], [0, 2])
    negatives = KHop((1, 2), count=6)(program, y, generator=torch.Generator().manual_seed(0))
    for temperature in TEMPERATURES:
        terms = ILPLoss()(program, y, negatives, temperature=temperature)
        expected = oracles.terms(program, y, negatives.points(), temperature)
        assert values(terms) == pytest.approx(values(expected), rel=1e-11)
        assert_close(gradients(terms, (a, b)), gradients(expected, (a, b)), 1e-11)


def test_restarts_are_independent_runs() -> None:
    """Two programs `(2, 1)` against a batch `(2, 3)` give the mean of the two runs on their own."""
    case = random_case("restarts")
    both = ILPLoss()(case.program, case.solution, case.negatives, temperature=0.1)
    points, single = case.negatives.points(), []
    for r in range(2):
        blocks = tuple(
            dataclasses.replace(
                block,
                a=block.a[r, 0] if block.a.ndim > 2 else block.a,
                b=block.b[r, 0] if block.b.ndim > 1 else block.b,
                slack=None if block.slack is None else block.slack[r, 0],
            )
            for block in case.program.blocks
        )
        y = case.solution[r]
        program = dataclasses.replace(case.program, blocks=blocks)
        single.append(values(ILPLoss()(program, y, Negatives.from_points(y, points[r]), temperature=0.1)))
    assert values(both)[:3] == pytest.approx([(x + y) / 2 for x, y in zip(single[0][:3], single[1][:3], strict=True)])


def test_one_example_without_batch_dimension() -> None:
    case = random_case("inequalities")
    program = case.program.instance(1)
    y, points = case.solution[1], case.negatives.points()[1]
    terms = ILPLoss()(program, y, Negatives.from_points(y, points), temperature=0.1)
    batched = ILPLoss()(program, y[None], Negatives.from_points(y[None], points[None]), temperature=0.1)
    assert values(terms) == pytest.approx(values(batched), rel=1e-14)
    assert values(terms) == pytest.approx(values(oracles.terms(program, y, points, 0.1)), rel=1e-11)


def test_batch_of_one_with_batch_negatives() -> None:
    """There is no other solution: no negatives, a zero term, and the rest as ever."""
    case = random_case("inequalities", batch=1)
    terms = ILPLoss()(case.program, case.solution, BatchNegatives()(case.program, case.solution), temperature=0.1)
    assert (terms.negative.item(), terms.masked.item()) == (0.0, 1.0)
    assert math.isfinite(terms.positive.item())


def test_stack() -> None:
    case = random_case("mixed")
    terms = ILPLoss()(case.program, case.solution, case.negatives, temperature=1.0)
    assert terms.stack().tolist() == values(terms)[:3]


def test_learns_a_hidden_row(generator: torch.Generator) -> None:
    """x + y <= 1 in {0, 1}² with costs that want both: some steps, hot and then cold, must separate every negative."""
    model = NeuralILP(KnownCost(), [LearnableConstraints(2, 2, generator=generator)], Box(0, 1, 2))
    cost = torch.tensor([[-1.0, -2.0], [-2.0, -1.0], [-1.0, 1.0], [1.0, -1.0]])
    y = torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    loss = ILPLoss()
    for step in range(100):
        program, temperature = model(cost), 1.0 if step < 70 else 0.01
        terms = loss(program, y, KHop((1, 2))(program, y, generator=generator), temperature=temperature)
        optimiser.zero_grad()
        (terms.positive + terms.negative).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    assert (terms.inside.item(), terms.separated.item()) == (1.0, 1.0)
    corner = torch.ones(4, 2)
    assert not bool(model(cost).is_feasible(corner).any())


# Invariants over programs of any numbers.

INVARIANT = settings(max_examples=30, deadline=None, derandomize=True)
ANY_TEMPERATURE = st.sampled_from(TEMPERATURES)


@INVARIANT
@given(drawn=numbers(), temperature=ANY_TEMPERATURE)
def test_everything_is_finite_and_as_the_loops_say(drawn: Numbers, temperature: float) -> None:
    case = drawn.case()
    terms = ILPLoss()(case.program, case.solution, case.negatives, temperature=temperature)
    assert all(math.isfinite(value) for value in values(terms))
    assert all(value >= 0 for value in values(terms))
    if temperature:  # at 0, rounding decides between rows that tie
        expected = oracles.terms(case.program, case.solution, case.negatives.points(), temperature)
        assert values(terms)[:4] == pytest.approx(values(expected)[:4], rel=1e-9, abs=1e-12)


@INVARIANT
@given(drawn=numbers(), temperature=st.sampled_from((1.0, 0.1)), exponent=st.integers(-8, 8))
def test_scaling_rows_changes_nothing(drawn: Numbers, temperature: float, exponent: int) -> None:
    """A hyperplane is the same whatever its scale; only a zero row has none, and keeps its b."""
    case = drawn.case()

    def scale(block: ConstraintBlock) -> ConstraintBlock:
        factor = torch.where((block.a != 0).any(-1), 2.0**exponent, 1.0)
        slack = None if block.slack is None else block.slack * factor
        return dataclasses.replace(block, a=block.a * factor.unsqueeze(-1), b=block.b * factor, slack=slack)

    blocks = tuple(scale(block) for block in case.program.blocks)
    scaled = dataclasses.replace(case.program, blocks=blocks, cost=case.program.cost * 2.0**exponent)
    loss = ILPLoss()
    before = loss(case.program, case.solution, case.negatives, temperature=temperature)
    after = loss(scaled, case.solution, case.negatives, temperature=temperature)
    assert values(after) == pytest.approx(values(before), rel=1e-12, abs=1e-14)


@INVARIANT
@given(drawn=numbers(), temperature=ANY_TEMPERATURE, data=st.data())
def test_order_of_rows_and_negatives_changes_nothing(drawn: Numbers, temperature: float, data: st.DataObject) -> None:
    case = drawn.case()

    def shuffled(count: int) -> list[int]:
        return list(data.draw(st.permutations(range(count))))

    def shuffle(block: ConstraintBlock) -> ConstraintBlock:
        order = shuffled(block.a.shape[-2])
        slack = None if block.slack is None else block.slack[..., order]
        return dataclasses.replace(block, a=block.a[..., order, :], b=block.b[..., order], slack=slack)

    blocks = tuple(shuffle(case.program.blocks[i]) for i in shuffled(len(case.program.blocks)))
    program = dataclasses.replace(case.program, blocks=blocks)
    points = case.negatives.points()
    points = points[..., shuffled(points.shape[-2]), :]
    loss = ILPLoss()
    before = loss(case.program, case.solution, case.negatives, temperature=temperature)
    negatives = Negatives.from_points(case.solution, points)
    after = loss(program, case.solution, negatives, temperature=temperature)
    assert values(after) == pytest.approx(values(before), rel=1e-12, abs=1e-14)


COMPILED = """
import torch
from strategies import random_case
from neuralilp.loss import ILPLoss

torch.set_num_threads(1)
for n, rows, dtype, temperature in ((4, "mixed", torch.float64, 0.1), (40, "network", torch.float32, 0.0)):
    case = random_case(rows, "general", cost_is_learned=True, dtype=dtype, n=n)
    results = []
    for compiled in (False, True):
        loss = ILPLoss(compile=compiled)
        assert loss.is_compiled(1) == compiled
        terms = loss(case.program, case.solution, case.negatives, temperature=temperature)
        slopes = torch.autograd.grad(terms.negative, case.leaves, allow_unused=True)
        results.append([terms.negative, terms.separated, *slopes])
    for eager, fast in zip(*results):
        torch.testing.assert_close(fast, eager)
print("equal")
"""


@pytest.mark.skipif(not compiler_is_present(), reason="torch.compile needs a C++ compiler: install g++ or clang++")
def test_compiled_equals_eager() -> None:
    """In a process of its own: the run-time shape checks of the test run cannot be compiled."""
    ran = subprocess.run(
        [sys.executable, "-c", COMPILED], capture_output=True, text=True, cwd=pathlib.Path(__file__).parent, check=False
    )
    assert ran.stdout.strip().endswith("equal"), ran.stderr


# What cannot be used.


def good() -> tuple[IntegerProgram, Tensor, Negatives]:
    block = ConstraintBlock(torch.ones(1, 3), torch.ones(1), None, True)
    program = IntegerProgram(-torch.ones(3), Bounds(torch.zeros(3), torch.ones(3)), (block,))
    y = torch.zeros(2, 3)
    return program, y, OneHop()(program, y)


@pytest.mark.parametrize("temperature", [-1.0, -1e-9, math.nan, INF])
def test_bad_temperature(temperature: float) -> None:
    program, y, negatives = good()
    with pytest.raises(InputError, match="temperature must be at least 0, got"):
        ILPLoss()(program, y, negatives, temperature=temperature)


@pytest.mark.parametrize("name", ["positive_margin", "negative_margin"])
@pytest.mark.parametrize("margin", [-0.1, math.nan, INF])
def test_bad_margin(name: str, margin: float) -> None:
    with pytest.raises(InputError, match=f"{name} must be at least 0, got {margin}"):
        ILPLoss(**{name: margin})


def test_nothing_to_learn() -> None:
    program, y, negatives = good()
    known = dataclasses.replace(program, blocks=(dataclasses.replace(program.blocks[0], is_learned=False),))
    with pytest.raises(InputError, match="program must have a learned part"):
        ILPLoss()(known, y, negatives, temperature=1.0)
    none = dataclasses.replace(program, blocks=())
    with pytest.raises(InputError, match="program must have a learned part"):
        ILPLoss()(none, y, negatives, temperature=1.0)


def test_negatives_of_another_solution() -> None:
    program, y, negatives = good()
    other = y.clone()
    other[1, 2] = 1.0
    with pytest.raises(InputError, match="negatives must have been drawn for this solution"):
        ILPLoss()(program, other, negatives, temperature=1.0)
    with pytest.raises(InputError, match="negatives must have been drawn for this solution"):
        ILPLoss()(program, y[:1], negatives, temperature=1.0)
    # An equal solution in another tensor is the same solution.
    equal = ILPLoss()(program, y.clone(), negatives, temperature=1.0)
    assert values(equal) == values(ILPLoss()(program, y, negatives, temperature=1.0))


BAD_TARGETS = {
    "fraction": ([[0.0, 0.0, 0.0], [0.0, 0.4, 0.0]], r"solution must be integral: example 1 has z\[1\] = 0.4"),
    "nan": ([[0.0, 0.0, math.nan]], r"solution must be integral: example 0 has z\[2\] = nan"),
    "infinite": ([[INF, 0.0, 0.0]], r"solution must be integral: example 0 has z\[0\] = inf"),
    "outside": (
        [[0.0, 2.0, 0.0]],
        r"solution must lie within the bounds: example 0 has z\[1\] = 2, lower = 0, upper = 1",
    ),
    "known row": ([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], r"solution must satisfy the known constraints: example 1"),
}


@pytest.mark.parametrize("by_hand", [False, True], ids=["checked by the loss", "negatives made by hand"])
@pytest.mark.parametrize("kind", BAD_TARGETS)
def test_bad_target(kind: str, by_hand: bool) -> None:
    """Whether the negatives hold the very tensor or another, a bad target is an error."""
    program, _, _ = good()
    known = ConstraintBlock(-torch.ones(1, 3), torch.full((1,), 2.0))
    program = dataclasses.replace(program, blocks=(*program.blocks, known))
    target, message = BAD_TARGETS[kind]
    y = torch.tensor(target)
    held = y if by_hand else y.clone()
    negatives = Negatives.from_points(held, torch.ones(len(y), 1, 3))
    with pytest.raises(InputError, match=message):
        ILPLoss()(program, y, negatives, temperature=1.0)


@pytest.mark.wrong_types
@pytest.mark.parametrize("by_hand", [False, True], ids=["checked by the loss", "negatives made by hand"])
def test_mismatched_solution(by_hand: bool) -> None:
    program, _, negatives = good()
    for bad, message in (
        (torch.zeros(2, 4), r"solution must have shape .*3.*, got \(2, 4\)"),
        (
            torch.zeros(2, 3, dtype=torch.float64),
            "solution must have the dtype of the program, torch.float32, got torch.float64",
        ),
        (
            torch.zeros(2, 3, dtype=torch.long),
            "solution must have the dtype of the program, torch.float32, got torch.int64",
        ),
    ):
        held = Negatives.from_points(bad, bad.unsqueeze(-2) + 1) if by_hand and bad.is_floating_point() else negatives
        with pytest.raises(ShapeError, match=message):
            ILPLoss()(program, bad, held, temperature=1.0)


@pytest.mark.parametrize("n", [3, 40])
def test_empty_batch(n: int) -> None:
    """An empty batch has no mean: it is an error, wherever the negatives come from."""
    block = ConstraintBlock(torch.ones(1, n), torch.ones(1), None, True)
    program = IntegerProgram(-torch.ones(n), Bounds(torch.zeros(n), torch.ones(n)), (block,))
    y = torch.zeros(0, n)
    negatives = Negatives.from_points(y, torch.zeros(0, 2, n))
    for solution in (y, y.clone()):
        with pytest.raises(ShapeError, match="solution must hold at least one example"):
            ILPLoss()(program, solution, negatives, temperature=1.0)


def test_known_block_without_rows() -> None:
    """A table of known rules may be empty; so may a block of learned ones."""
    program, y, negatives = good()
    empty = ConstraintBlock(torch.zeros(0, 3), torch.zeros(0))
    for block in (empty, dataclasses.replace(empty, is_learned=True)):
        more = dataclasses.replace(program, blocks=(*program.blocks, block))
        terms = ILPLoss()(more, y, negatives, temperature=1.0)
        assert values(terms) == values(ILPLoss()(program, y, negatives, temperature=1.0))


def test_a_known_cost_gets_no_gradient() -> None:
    """Known is what the program says, whatever autograd knows of the tensor."""
    program, y, _ = good()
    cost = program.cost.clone().requires_grad_()
    program = dataclasses.replace(program, cost=cost)
    terms = ILPLoss()(program, y, OneHop()(program, y), temperature=1.0)
    assert not terms.negative.requires_grad


def test_margins_that_fall_with_the_temperature(generator: torch.Generator) -> None:
    """Multiples of τ are the same as these margins themselves, at each temperature."""
    rows = LearnableConstraints(3, 6, generator=generator)
    model = NeuralILP(KnownCost(), [rows], Box(0, 1, 6))
    cost, solution = torch.randn(5, 6, generator=generator), torch.randint(2, (5, 6), generator=generator).float()
    program = model(cost)
    negatives = Union(OneHop(), KHop((2,)))(program, solution, generator=generator)
    falling = ILPLoss(positive_margin=3.0, negative_margin=2.0, margins_in_temperatures=True)
    for temperature in (0.5, 0.01):
        fixed = ILPLoss(positive_margin=3 * temperature, negative_margin=2 * temperature)
        expected = fixed(program, solution, negatives, temperature=temperature)
        assert expected.positive > 0
        torch.testing.assert_close(falling(program, solution, negatives, temperature=temperature), expected)
