"""The integers that CP-SAT gets: exact where they can be, else within tolerance, else refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.errors import InputError
from neuralilp.program import IntegerProgram
from neuralilp.solving import Status, available_backends, solve
from neuralilp.solving.cpsat import _exponent_of_integrality, _scaled

needs_cpsat = pytest.mark.skipif(
    "cpsat" not in available_backends(), reason="cpsat is not installed: pip install 'neuralilp[cpsat]'"
)


def test_exponent_of_integrality() -> None:
    assert _exponent_of_integrality(np.array([3.0, -5.0])) == 0
    assert _exponent_of_integrality(np.array([0.75, 1.0])) == 2
    assert _exponent_of_integrality(np.array([12.0, 20.0])) == -2
    # 0.1 in float64 is an odd 52-bit integer, halved: 0.1 = 0x1.999999999999ap-4 has its last set bit at 2^-55.
    assert _exponent_of_integrality(np.array([0.1])) == 55


def test_integral_coefficients_stay_exact() -> None:
    a, scale, error = _scaled(np.array([3.0, -5.0, 7.0]), np.ones(3), wanted=1e6)
    assert a.tolist() == [3, -5, 7]
    assert (scale, error) == (1.0, 0.0)


def test_the_error_bounds_every_point_of_the_box() -> None:
    generator = np.random.default_rng(0)
    values, extent = generator.normal(size=6), np.array([1.0, 2.0, 3.0, 1.0, 5.0, 9.0])
    a, scale, error = _scaled(values, extent, wanted=1000.0)
    assert 1000 <= scale < 2048
    z = generator.integers(-extent, extent + 1, size=(1000, 6))
    assert (np.abs(z @ a - scale * (z @ values)) <= error + 1e-9).all()
    assert error <= 0.5 * extent.sum()


@needs_cpsat
def test_coefficients_of_many_magnitudes_are_refused() -> None:
    bounds = Bounds(torch.full((2,), -1e6), torch.full((2,), 1e6))
    a = torch.tensor([[1.0 / 3.0, 1e-9]])
    with pytest.raises(InputError, match="cannot scale row 0 to integers"):
        solve(IntegerProgram(torch.ones(2), bounds, (ConstraintBlock(a * 3e7, torch.ones(1)),)), backend="cpsat")


@needs_cpsat
def test_large_integers_are_exact() -> None:
    """2^20 x - (2^20 - 1) y = 1 with 0 <= x, y <= 2^20 - 1 has the one solution x = y = 1 (or x = 2^20 beyond)."""
    big = 2.0**20
    program = IntegerProgram(
        torch.tensor([0.0, 0.0], dtype=torch.float64),
        Bounds(torch.zeros(2, dtype=torch.float64), torch.full((2,), big - 1, dtype=torch.float64)),
        (
            ConstraintBlock(
                torch.tensor([[big, 1.0 - big]], dtype=torch.float64),
                torch.tensor([-1.0], dtype=torch.float64),
                slack=torch.zeros(1, dtype=torch.float64),
            ),
        ),
    )
    solution = solve(program, backend="cpsat")
    assert solution.status == (Status.OPTIMAL,)
    assert solution.z.tolist() == [1.0, 1.0]
