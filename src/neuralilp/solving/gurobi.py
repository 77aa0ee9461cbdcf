"""Gurobi. The package installs with a licence that allows small programs only."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from neuralilp.errors import LicenceError
from neuralilp.solving.backend import Backend, Model, RawResult, Status, option_error
from neuralilp.solving.instance import FloatArray, Instance, Rows

_local = threading.local()


@dataclasses.dataclass(frozen=True)
class GurobiBackend(Backend):
    """Gurobi. ``options`` are Gurobi's parameters, by name, and win over ours."""

    name: ClassVar[str] = "gurobi"
    package: ClassVar[str] = "gurobipy"
    extra: ClassVar[str | None] = "gurobi"
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def build(self, instance: Instance) -> Model:
        return _GurobiModel(self.require("gurobipy"), instance, self.options)


class _GurobiModel(Model):
    def __init__(self, gurobipy: Any, instance: Instance, options: Mapping[str, Any]) -> None:
        self._gurobipy = gurobipy
        self._is_stopped = False
        n = instance.num_variables
        with _licence_errors(gurobipy, instance):
            self._model = model = gurobipy.Model(env=_environment(gurobipy))
            settings = {
                "Threads": 1,
                "MIPGap": 0.0,
                "MIPGapAbs": 0.0,
                "IntFeasTol": 1e-9,
                "FeasibilityTol": 1e-9,
                "OptimalityTol": 1e-9,
            }
            for name, value in {**settings, **options}.items():
                try:
                    model.setParam(name, value)
                except (gurobipy.GurobiError, TypeError, ValueError):
                    raise option_error("Gurobi", name, value) from None
            types = np.where(instance.is_integer, "I", "C")
            self._z = model.addMVar(n, lb=instance.lower, ub=instance.upper, obj=instance.cost, vtype=types)
        self._instance = instance
        self.add_rows(instance.rows)

    def add_rows(self, rows: Rows) -> None:
        if not rows.num_rows:
            return
        with _licence_errors(self._gurobipy, self._instance):
            matrix = np.zeros((rows.num_rows, self._instance.num_variables))
            matrix[rows.row_of_entry, rows.columns] = rows.values
            both = np.isfinite(rows.lower) & np.isfinite(rows.upper) & (rows.lower != rows.upper)
            equal = rows.lower == rows.upper
            # A row with two different bounds is written twice: a range constraint of Gurobi's is an
            # equality with a hidden variable, which counts against the licence's size.
            for sense, keep, right in (
                ("=", equal, rows.lower),
                (">", both | (np.isfinite(rows.lower) & ~equal), rows.lower),
                ("<", both | (np.isfinite(rows.upper) & ~equal), rows.upper),
            ):
                index = np.flatnonzero(keep)
                if len(index):
                    self._model.addMConstr(matrix[index], self._z, sense, right[index])

    def solve(self, time_limit: float | None, start: FloatArray | None) -> RawResult:
        model, codes = self._model, self._gurobipy.GRB
        with _licence_errors(self._gurobipy, self._instance):
            model.setParam("TimeLimit", codes.INFINITY if time_limit is None else time_limit)
            if start is not None and model.IsMIP:
                self._z.Start = start
            try:
                model.optimize()
            except self._gurobipy.GurobiError as error:
                if error.errno in _licence_codes(self._gurobipy):
                    raise
                return RawResult(Status.ERROR, message=f"Gurobi failed: {error}")
        status = model.Status
        if status == codes.INTERRUPTED and not self._is_stopped:
            # While it solves, Gurobi takes Ctrl-C from Python and ends the solve without telling it.
            raise KeyboardInterrupt
        if status == codes.OPTIMAL:
            return RawResult(Status.OPTIMAL, np.asarray(self._z.X))
        if status == codes.INFEASIBLE:
            return RawResult(Status.INFEASIBLE)
        if status in (codes.UNBOUNDED, codes.INF_OR_UNBD):
            return RawResult(Status.UNBOUNDED)
        if status in (codes.TIME_LIMIT, codes.INTERRUPTED, codes.SUBOPTIMAL):
            if model.SolCount:
                return RawResult(Status.FEASIBLE, np.asarray(self._z.X))
            return RawResult(Status.NO_SOLUTION)
        return RawResult(Status.ERROR, message=f"Gurobi ended with status code {status}")

    def interrupt(self) -> None:
        self._is_stopped = True
        self._model.terminate()


def _environment(gurobipy: Any) -> Any:
    """One environment a thread: Gurobi forbids two threads in one."""
    environment = getattr(_local, "environment", None)
    if environment is None:
        _local.environment = environment = gurobipy.Env(params={"OutputFlag": 0})
    return environment


def _licence_codes(gurobipy: Any) -> tuple[int, ...]:
    error = gurobipy.GRB.Error
    return error.NO_LICENSE, error.SIZE_LIMIT_EXCEEDED


@contextlib.contextmanager
def _licence_errors(gurobipy: Any, instance: Instance) -> Iterator[None]:
    try:
        yield
    except gurobipy.GurobiError as error:
        if error.errno not in _licence_codes(gurobipy):
            raise
        raise LicenceError(
            f"Gurobi's licence does not allow this solve, which has {instance.num_variables} variables and "
            f"{instance.rows.num_rows} rows: {error}. The licence that comes with the package is limited to small "
            "programs; install your own licence, or use another backend such as 'highs'."
        ) from None
