"""ConstraintBlock and Bounds."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.errors import InputError, ShapeError

INF = math.inf


def floats(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)


def test_unit_blocks() -> None:
    """|2x - 7| <= 1 is |x - 3.5| <= 0.5."""
    unit = ConstraintBlock(floats([2, 0]), floats(-7), floats(1)).unit()
    assert (unit.a.tolist(), unit.b.tolist(), unit.slack.tolist()) == ([[1, 0]], [-3.5], [0.5])
    assert unit.unit() is unit
    assert not unit.is_learned
    assert ConstraintBlock(floats([3, 4]), floats(-5), is_learned=True).unit().is_learned


@pytest.mark.parametrize(
    ("lower", "upper", "is_binary"),
    [
        ([0, 0], [1, 1], True),
        ([0, 3], [1, 4], True),
        ([-0.5, 0], [1.5, 1], True),
        ([-0.5, 0], [1, 1], False),  # not symmetric: distances from the bounds differ between 0 and 1
        ([0, 0], [1, 2], False),
        ([0, 0], [1, 0], False),
        ([0, 0], [1, INF], False),
        ([-INF, 0], [INF, 1], False),
    ],
)
def test_binary_bounds(lower: list[float], upper: list[float], is_binary: bool) -> None:
    bounds = Bounds(floats(*lower), floats(*upper))
    assert bounds.is_binary is is_binary
    assert bounds.is_finite is all(math.isfinite(value) for value in (*lower, *upper))
    assert bounds.contain(floats(*lower)).all()
    assert not bounds.contain(floats(*upper) + 1)[0] or upper[0] == INF
    assert not bounds.contain(torch.full((2,), math.nan)).any()


@pytest.mark.parametrize(
    ("lower", "upper", "where"),
    [([0, 2], [1, 1], 1), ([0.2, 0], [0.8, 1], 0), ([math.nan, 0], [1, 1], 0), ([0, 0], [1, math.nan], 1)],
    ids=["lower above upper", "no integer between", "NaN lower", "NaN upper"],
)
def test_bad_bounds(lower: list[float], upper: list[float], where: int) -> None:
    with pytest.raises(InputError, match=rf"lower must not be above upper, .*at \[{where}\] lower = .*, upper = "):
        Bounds(floats(*lower), floats(*upper))


@pytest.mark.parametrize(("lower", "upper"), [(INF, INF), (-INF, -INF)])
def test_bounds_at_infinity_leave_no_integer(lower: float, upper: float) -> None:
    with pytest.raises(InputError, match="lower"):
        Bounds(floats(lower), floats(upper))


@pytest.mark.wrong_types
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bounds(torch.zeros(2), torch.ones(3)), r"lower and upper must have one shape .* \(2,\) and \(3,\)"),
        (lambda: Bounds(torch.tensor(0.0), torch.tensor(1.0)), "lower and upper must have one shape"),
        (lambda: Bounds(torch.zeros(2), torch.ones(2).double()), "lower and upper must be floats of one dtype"),
        (lambda: Bounds(torch.zeros(2).long(), torch.ones(2).long()), "lower and upper must be floats of one dtype"),
        (lambda: ConstraintBlock(torch.ones(3), torch.ones(1)), r"a must be `\*batch constr var`, got shape \(3,\)"),
        (lambda: ConstraintBlock(torch.ones(2, 3), torch.ones(3)), "b must have one entry for each of the 2 rows of a"),
        (lambda: ConstraintBlock(torch.ones(2, 3), torch.tensor(1.0)), "b must have one entry for each"),
        (
            lambda: ConstraintBlock(torch.ones(2, 3), torch.ones(2), torch.ones(1)),
            "slack must have one entry for each of the 2 rows of a",
        ),
        (
            lambda: ConstraintBlock(torch.ones(2, 3), torch.ones(2).double()),
            "b must have the dtype of a, torch.float32",
        ),
        (
            lambda: ConstraintBlock(torch.ones(2, 3), torch.ones(2), torch.ones(2).half()),
            "slack must have the dtype of a, torch.float32, got torch.float16",
        ),
    ],
)
def test_shapes_that_do_not_fit(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ShapeError, match=message):
        make()
