"""SCIP, through PySCIPOpt."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from neuralilp.solving.backend import Backend, Model, RawResult, Status, option_error
from neuralilp.solving.instance import FloatArray, Instance, Rows


@dataclasses.dataclass(frozen=True)
class ScipBackend(Backend):
    """SCIP. ``options`` are SCIP's parameters, by name, and win over ours."""

    name: ClassVar[str] = "scip"
    package: ClassVar[str] = "pyscipopt"
    extra: ClassVar[str | None] = "scip"
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def build(self, instance: Instance) -> Model:
        return _ScipModel(self.require("pyscipopt"), instance, self.options)


class _ScipModel(Model):
    def __init__(self, pyscipopt: Any, instance: Instance, options: Mapping[str, Any]) -> None:
        self._pyscipopt = pyscipopt
        self._model = model = pyscipopt.Model()
        model.hideOutput()
        # Python must see Ctrl-C, and not only SCIP.
        settings = {"limits/gap": 0.0, "limits/absgap": 0.0, "lp/threads": 1, "misc/catchctrlc": False}
        for name, value in {**settings, **options}.items():
            try:
                model.setParam(name, value)
            except Exception:  # KeyError, or a bare Exception for an error of SCIP
                raise option_error("SCIP", name, value) from None
        self._variables = [
            model.addVar(
                lb=float(lower) if np.isfinite(lower) else None,
                ub=float(upper) if np.isfinite(upper) else None,
                vtype="I" if is_integer else "C",
                obj=float(cost),
            )
            for lower, upper, is_integer, cost in zip(
                instance.lower, instance.upper, instance.is_integer, instance.cost, strict=True
            )
        ]
        self.add_rows(instance.rows)

    def add_rows(self, rows: Rows) -> None:
        model = self._model
        model.freeTransform()
        for columns, values, lower, upper in rows:
            terms = zip(values.tolist(), columns.tolist(), strict=True)
            expression = self._pyscipopt.quicksum(value * self._variables[j] for value, j in terms)
            if lower == upper:
                model.addCons(expression == lower)
            elif np.isfinite(lower) and np.isfinite(upper):
                model.addCons(lower <= (expression <= upper))
            elif np.isfinite(lower):
                model.addCons(expression >= lower)
            elif np.isfinite(upper):
                model.addCons(expression <= upper)

    def solve(self, time_limit: float | None, start: FloatArray | None) -> RawResult:
        model = self._model
        model.freeTransform()
        model.setParam("limits/time", 1e20 if time_limit is None else time_limit)
        if start is not None:
            solution = model.createSol()
            for variable, value in zip(self._variables, start.tolist(), strict=True):
                model.setSolVal(solution, variable, value)
            model.addSol(solution, free=True)
        try:
            model.optimizeNogil()
        except Exception as error:  # PySCIPOpt raises bare Exceptions for errors of SCIP
            return RawResult(Status.ERROR, message=f"SCIP failed: {error}")
        status = model.getStatus()
        if status == "optimal":
            return RawResult(Status.OPTIMAL, self._values())
        if status == "infeasible":
            return RawResult(Status.INFEASIBLE)
        if status in ("unbounded", "inforunbd"):
            return RawResult(Status.UNBOUNDED)
        if status in ("timelimit", "userinterrupt"):
            if model.getNSols():
                return RawResult(Status.FEASIBLE, self._values())
            return RawResult(Status.NO_SOLUTION)
        return RawResult(Status.ERROR, message=f"SCIP ended with: {status}")

    def interrupt(self) -> None:
        self._model.interruptSolve()

    def tighten(self) -> bool:
        self._model.freeTransform()
        self._model.setParam("numerics/feastol", 1e-9)
        return True

    def _values(self) -> FloatArray:
        best = self._model.getBestSol()
        return np.array([self._model.getSolVal(best, variable) for variable in self._variables])
