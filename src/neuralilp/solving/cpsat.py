"""CP-SAT of OR-Tools. It takes integers only, so real coefficients are scaled and rounded within tolerance."""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
from collections.abc import Mapping
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from neuralilp.errors import InputError
from neuralilp.solving.backend import Backend, Model, RawResult, Status, option_error
from neuralilp.solving.highs import HighsBackend
from neuralilp.solving.instance import FloatArray, Instance, Rows

LARGEST_ACTIVITY = 2.0**53
"""Scaled activities stay exact in float64, and so far below the limit of int64."""
OBJECTIVE_ERROR = 1e-9
"""The error of the rounded objective that we aim at, relative to the largest cost."""
LARGEST_OBJECTIVE_ERROR = 1e-6


@dataclasses.dataclass(frozen=True)
class CpSatBackend(Backend):
    """CP-SAT: all variables integer and bounded. ``options`` are its parameters, by name, and win over ours."""

    name: ClassVar[str] = "cpsat"
    package: ClassVar[str] = "ortools"
    extra: ClassVar[str | None] = "cpsat"
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def build(self, instance: Instance) -> Model:
        return _CpSatModel(self.require("ortools.sat.python.cp_model"), instance, self.options)

    def require(self, module: str) -> ModuleType:
        """Import OR-Tools beside highspy.

        Both bring a shared library of one name, libhighs, in different versions, and the loader keeps the
        first. Ours must be highspy's, which needs its own. OR-Tools then misses a function that CP-SAT never
        calls: binding functions when they are first called, not at import, lets it load.
        """
        if module in sys.modules or not hasattr(sys, "setdlopenflags"):
            return super().require(module)
        with _import_lock:
            flags = sys.getdlopenflags()
            HighsBackend().load()
            sys.setdlopenflags(os.RTLD_LAZY)
            try:
                return super().require(module)
            finally:
                sys.setdlopenflags(flags)


_import_lock = threading.Lock()


class _CpSatModel(Model):
    def __init__(self, cp_model: Any, instance: Instance, options: Mapping[str, Any]) -> None:
        if not instance.is_integer.all():
            raise InputError(
                "the cpsat backend solves all-integer programs only: this one has continuous variables "
                "(relax=True makes them all continuous); use another backend such as 'highs'"
            )
        infinite = ~(np.isfinite(instance.lower) & np.isfinite(instance.upper))
        if infinite.any():
            raise InputError(
                f"the cpsat backend needs finite bounds: variable {int(np.argmax(infinite))} has "
                f"[{instance.lower[infinite][0]:g}, {instance.upper[infinite][0]:g}]; "
                "use another backend such as 'highs'"
            )
        self._cp_model = cp_model
        self._options = options
        self._solver: Any = None
        self._is_infeasible = False
        self._lower, self._upper = instance.lower, instance.upper
        self._extent = np.maximum(np.abs(instance.lower), np.abs(instance.upper))
        if self._extent.max() > LARGEST_ACTIVITY:
            raise InputError(
                f"the cpsat backend needs bounds below 2^53, got {self._extent.max():g}; use another backend"
            )
        self._model = model = cp_model.CpModel()
        self._variables = [
            model.new_int_var(int(lower), int(upper), "")
            for lower, upper in zip(instance.lower, instance.upper, strict=True)
        ]
        self._minimise(instance.cost)
        self.add_rows(instance.rows)

    def _minimise(self, cost: FloatArray) -> None:
        used = np.flatnonzero(cost)
        if not len(used):
            return
        largest = np.abs(cost).max()
        # |s c - c'| <= 1/2 each, so the objective is off by at most sum(extent) / (2 s) in units of c.
        wanted = 0.5 * self._extent[used].sum() / (OBJECTIVE_ERROR * largest)
        c, scale, error = _scaled(cost[used], self._extent[used], wanted)
        if error / scale > LARGEST_OBJECTIVE_ERROR * largest:
            raise InputError(
                "the cpsat backend cannot scale the cost to integers: its coefficients or bounds span too many "
                "magnitudes; use another backend such as 'highs'"
            )
        variables = [self._variables[j] for j in used]
        self._model.minimize(self._cp_model.LinearExpr.weighted_sum(variables, c.tolist()))

    def add_rows(self, rows: Rows) -> None:
        """Scale each row L <= a·z <= U by a power of two s, and round: a' = round(s a).

        With r = s a - a' (exact in float64), every z of the box has |s a·z - a'·z| <= e = sum |r_j| extent_j.
        Let t be the row's tolerance. The integer row ceil(s (L - t/2) - e) <= a'·z then
          - holds for every z that satisfies a·z >= L - t/2, and
          - implies a·z >= L - t/2 - 2 e/s, which is at least L - t when s >= 4 e/t.
        Since |r_j| <= 1/2, s >= 2 sum(extent)/t is enough. A smaller s that makes all s a_j integral has
        e = 0, is exact, and is preferred. The same for U. Activities must stay below 2^53.
        """
        for i, (columns, values, lower, upper) in enumerate(rows):
            extent = self._extent[columns]
            tolerance = float(rows.tolerance[i])
            a, scale, error = _scaled(values, extent, 2.0 * extent.sum() / tolerance)
            if 4.0 * error > scale * tolerance:
                raise InputError(
                    f"the cpsat backend cannot scale row {i} to integers: its coefficients or the bounds of its "
                    "variables span too many magnitudes; use another backend such as 'highs'"
                )
            left = np.where(a > 0, self._lower[columns], self._upper[columns])
            right = np.where(a > 0, self._upper[columns], self._lower[columns])
            smallest, largest = float(a @ left), float(a @ right)
            low = np.ceil(scale * (lower - tolerance / 2) - error)
            high = np.floor(scale * (upper + tolerance / 2) + error)
            if low > min(high, largest) or high < smallest:
                self._is_infeasible = True
                continue
            expression = self._cp_model.LinearExpr.weighted_sum(
                [self._variables[j] for j in columns], a.astype(np.int64).tolist()
            )
            self._model.add_linear_constraint(expression, int(max(low, smallest)), int(min(high, largest)))

    def solve(self, time_limit: float | None, start: FloatArray | None) -> RawResult:
        if self._is_infeasible:
            return RawResult(Status.INFEASIBLE)
        cp_model = self._cp_model
        self._model.clear_hints()
        if start is not None:
            for variable, value in zip(self._variables, np.round(start).tolist(), strict=True):
                self._model.add_hint(variable, int(value))
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.relative_gap_limit = 0.0
        solver.parameters.absolute_gap_limit = 0.0
        # Left on, CP-SAT takes SIGINT from Python.
        solver.parameters.catch_sigint_signal = False
        if time_limit is not None:
            solver.parameters.max_time_in_seconds = time_limit
        for name, value in self._options.items():
            try:
                setattr(solver.parameters, name, value)
            except (AttributeError, TypeError, ValueError):
                raise option_error("CP-SAT", name, value) from None
        self._solver = solver
        status = solver.solve(self._model)
        if status == cp_model.OPTIMAL:
            return RawResult(Status.OPTIMAL, self._values())
        if status == cp_model.FEASIBLE:
            return RawResult(Status.FEASIBLE, self._values())
        if status == cp_model.INFEASIBLE:
            return RawResult(Status.INFEASIBLE)
        if status == cp_model.UNKNOWN:
            return RawResult(Status.NO_SOLUTION)
        return RawResult(Status.ERROR, message=f"CP-SAT refused the model: {self._model.validate()}")

    def interrupt(self) -> None:
        if self._solver is not None:
            self._solver.stop_search()

    def _values(self) -> FloatArray:
        return np.array([self._solver.value(variable) for variable in self._variables], dtype=np.float64)


def _scaled(values: FloatArray, extent: FloatArray, wanted: float) -> tuple[NDArray[np.int64], float, float]:
    """(a', s, e): values times s rounded to integers, and the largest error of a'·z over the box, times s.

    s is the smallest power of two that is at least ``wanted`` or makes the values integral, and no
    larger than activities below 2^53 allow.
    """
    exponent = min(int(np.ceil(np.log2(max(wanted, 2.0**-60)))), _exponent_of_integrality(values))
    size = float(np.abs(values) @ np.maximum(extent, 1.0))
    exponent = min(exponent, int(np.floor(np.log2(LARGEST_ACTIVITY / size))))
    scale = 2.0**exponent
    exact = values * scale
    rounded = np.round(exact)
    return rounded.astype(np.int64), scale, float(np.abs(exact - rounded) @ extent)


def _exponent_of_integrality(values: FloatArray) -> int:
    """The smallest k for which every 2^k · value is an integer: the lowest set bit of the values."""
    mantissa, exponent = np.frexp(values)
    digits = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    lowest_bit = np.log2((digits & -digits).astype(np.float64)).astype(np.int64)
    return int(-(lowest_bit + exponent - 53).min())
