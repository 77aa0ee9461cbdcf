"""Solving one instance: rounds of cuts, unbounded or infeasible, rounding, and the check of the answer."""

from __future__ import annotations

import dataclasses
import time

import numpy as np

from neuralilp.solving.backend import Backend, Model, RawResult, Status
from neuralilp.solving.cuts import CutPool, Cuts, violated_rows
from neuralilp.solving.instance import FloatArray, Instance, Rows
from neuralilp.solving.stopping import StopSignal


@dataclasses.dataclass(frozen=True, eq=False)
class Settings:
    """What holds for every instance of a call of ``solve``."""

    backend: Backend
    time_limit: float | None = None
    cuts: Cuts | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """The checked answer for one instance; z is None exactly when the status has no solution."""

    status: Status
    z: FloatArray | None
    seconds: float
    message: str


def solve_instance(instance: Instance, settings: Settings, start: FloatArray | None, stop: StopSignal) -> Outcome:
    began = time.perf_counter()
    result = _Solve(instance, settings, stop, began).run(start)
    assert (result.z is not None) == result.status.has_solution
    return Outcome(result.status, result.z, time.perf_counter() - began, result.message)


class _Solve:
    """One solve; the instance grows by the cuts that are added, and the time limit covers all of it."""

    def __init__(self, instance: Instance, settings: Settings, stop: StopSignal, began: float) -> None:
        self.instance = instance
        self.settings = settings
        self.stop = stop
        self.deadline = None if settings.time_limit is None else began + settings.time_limit

    def run(self, start: FloatArray | None) -> RawResult:
        if not self.instance.empty_rows_hold:
            return RawResult(Status.INFEASIBLE, message="a row without variables cannot hold")
        model = self.settings.backend.build(self.instance)
        result = self._solve_and_check(model, start)
        cuts = self.settings.cuts
        if cuts is None:
            return result
        if result.status is Status.UNBOUNDED and isinstance(cuts, CutPool):
            # Without an answer there is nothing to separate, but the whole pool may bound the program.
            result = self._add(model, Rows.from_dense(cuts.a, lower=-cuts.b)) or self._solve_and_check(model, start)
        while result.z is not None:
            rows = violated_rows(cuts, result.z)
            if not rows.num_rows:
                return result
            if result.status is Status.FEASIBLE:
                return RawResult(Status.NO_SOLUTION, message="the best solution in time violates a cut")
            result = self._add(model, rows) or self._solve_and_check(model, start)
        return result

    def _add(self, model: Model, rows: Rows) -> RawResult | None:
        """Add cuts; an answer when that settles the instance."""
        rows, holds = rows.without_empty()
        if not holds:
            return RawResult(Status.INFEASIBLE, message="a cut without variables cannot hold")
        model.add_rows(rows)
        self.instance = dataclasses.replace(self.instance, rows=Rows.concatenate([self.instance.rows, rows]))
        return None

    def _solve_and_check(self, model: Model, start: FloatArray | None) -> RawResult:
        result = self._call(model, start)
        if result.status is Status.UNBOUNDED:
            return self._unbounded_or_infeasible()
        answer = self._checked(result)
        if answer.status is Status.ERROR and result.z is not None and model.tighten():
            result = self._call(model, start)
            if result.status is Status.UNBOUNDED:
                return self._unbounded_or_infeasible()
            answer = self._checked(result)
        return answer

    def _call(self, model: Model, start: FloatArray | None) -> RawResult:
        left = None
        if self.deadline is not None:
            left = max(0.0, self.deadline - time.perf_counter())
        with self.stop.watching(model):
            return model.solve(left, start)

    def _unbounded_or_infeasible(self) -> RawResult:
        """Solvers that find a ray need not know a point: look for one without the objective."""
        feasibility = dataclasses.replace(self.instance, cost=np.zeros_like(self.instance.cost))
        result = self._call(self.settings.backend.build(feasibility), None)
        if result.status is Status.INFEASIBLE:
            return RawResult(Status.INFEASIBLE)
        if result.status.has_solution:
            return RawResult(Status.UNBOUNDED)
        if result.status is Status.NO_SOLUTION:
            return RawResult(Status.NO_SOLUTION, message="unbounded if feasible; no feasible point was found in time")
        return RawResult(Status.ERROR, message=f"unbounded or infeasible, undecided: {result.message}")

    def _checked(self, result: RawResult) -> RawResult:
        """The answer with integers rounded, or ERROR when it then violates a row or a bound."""
        if result.z is None:
            return result
        instance = self.instance
        z = self._rounded(result.z)
        problem = self._violation(z)
        if problem and instance.is_mixed:
            # Rounding moved the integers, so the continuous variables must follow.
            refit = self._call(self.settings.backend.build(instance.fixed(z)), None)
            if refit.z is not None:
                z = self._rounded(refit.z)
                problem = self._violation(z)
        if problem:
            return RawResult(Status.ERROR, message=f"the solver's answer fails the check: {problem}")
        return RawResult(result.status, z, result.message)

    def _rounded(self, z: FloatArray) -> FloatArray:
        instance = self.instance
        z = np.where(instance.is_integer, np.round(z), z) + 0.0
        near = np.maximum(1.0, np.abs(z)) * 1e-6
        clipped = np.clip(z, instance.lower, instance.upper)
        return np.where(np.abs(clipped - z) <= near, clipped, z)

    def _violation(self, z: FloatArray) -> str:
        instance = self.instance
        if not np.isfinite(z).all():
            return "it is not finite"
        outside = (z < instance.lower) | (z > instance.upper)
        if outside.any():
            j = int(np.argmax(outside))
            return f"z[{j}] = {z[j]:g} is outside [{instance.lower[j]:g}, {instance.upper[j]:g}]"
        excess = instance.rows.excess(z)
        if (excess > 0).any():
            i = int(np.argmax(excess))
            return f"row {i} is violated by {excess[i]:g} more than its tolerance"
        return ""
