"""HiGHS, the default backend."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from neuralilp.errors import BackendMissingError
from neuralilp.solving.backend import Backend, Model, RawResult, Status, option_error
from neuralilp.solving.instance import FloatArray, Instance, Rows

SMALL = 64
"""Up to so many variables, restarts, feasibility jump and symmetry detection cost more than they save (15-35 %)."""


@dataclasses.dataclass(frozen=True)
class HighsBackend(Backend):
    """HiGHS. ``options`` are HiGHS's own, by name, and win over ours."""

    name: ClassVar[str] = "highs"
    package: ClassVar[str] = "highspy"
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def build(self, instance: Instance) -> Model:
        return _HighsModel(self.load(), instance, self.options)

    def load(self) -> ModuleType:
        """The module highspy."""
        try:
            return self.require("highspy")
        except BackendMissingError:
            if "ortools" in sys.modules and self.is_available():
                raise BackendMissingError(
                    "highspy cannot be imported after ortools, whose copy of HiGHS has the same name: "
                    "put `import highspy` before the import of ortools, or pip install 'highspy<1.15'"
                ) from None
            raise


class _HighsModel(Model):
    def __init__(self, highspy: Any, instance: Instance, options: Mapping[str, Any]) -> None:
        self._highspy = highspy
        self._is_integer = bool(instance.is_integer.any())
        self._error = ""
        settings: dict[str, Any] = {
            "output_flag": False,
            "threads": 1,
            # The default relative gap of 1e-4 returns answers that are not optimal.
            "mip_rel_gap": 0.0,
            "mip_abs_gap": 0.0,
            "small_matrix_value": 1e-12,
        }
        if instance.num_variables <= SMALL:
            settings["mip_allow_restart"] = False
            settings["mip_heuristic_run_feasibility_jump"] = False
            settings["mip_detect_symmetry"] = False
        self._highs = highs = highspy.Highs()
        for name, value in {**settings, **options}.items():
            # Older versions of HiGHS lack some of ours, which only save time.
            if highs.setOptionValue(name, value) != highspy.HighsStatus.kOk and name in options:
                raise option_error("HiGHS", name, value)
        # A list and not an attribute: a callback that held the model would keep both alive in a cycle.
        self._stop = stop = [False]

        def check(event: Any) -> None:
            if stop[0]:
                event.interrupt()

        highs.cbMipInterrupt += check
        highs.cbSimplexInterrupt += check
        highs.cbIpmInterrupt += check

        rows = instance.rows
        status = highs.passModel(
            instance.num_variables,
            rows.num_rows,
            len(rows.values),
            int(highspy.MatrixFormat.kRowwise),
            int(highspy.ObjSense.kMinimize),
            0.0,
            instance.cost,
            instance.lower,
            instance.upper,
            rows.lower,
            rows.upper,
            rows.starts,
            rows.columns,
            rows.values,
            instance.is_integer.astype(np.int32),
        )
        if status == highspy.HighsStatus.kError:
            self._error = "HiGHS refused the model; are there coefficients above 1e15?"

    def add_rows(self, rows: Rows) -> None:
        self._highs.addRows(
            rows.num_rows, rows.lower, rows.upper, len(rows.values), rows.starts[:-1], rows.columns, rows.values
        )

    def solve(self, time_limit: float | None, start: FloatArray | None) -> RawResult:
        if self._error:
            return RawResult(Status.ERROR, message=self._error)
        highs, statuses = self._highs, self._highspy.HighsModelStatus
        if time_limit is not None:
            # HiGHS limits each solve of an integer program, but the sum over all solves of a linear one.
            spent = 0.0 if self._is_integer else highs.getRunTime()
            highs.setOptionValue("time_limit", spent + time_limit)
        if start is not None and self._is_integer:
            highs.setSolution(len(start), np.arange(len(start), dtype=np.int32), start)
        highs.run()
        status = highs.getModelStatus()
        if status in (statuses.kOptimal, statuses.kModelEmpty):
            return RawResult(Status.OPTIMAL, self._values())
        if status == statuses.kInfeasible:
            return RawResult(Status.INFEASIBLE)
        if status in (statuses.kUnbounded, statuses.kUnboundedOrInfeasible):
            return RawResult(Status.UNBOUNDED)
        if status in (statuses.kTimeLimit, statuses.kInterrupt, statuses.kHighsInterrupt):
            if highs.getInfo().primal_solution_status == int(self._highspy.SolutionStatus.kSolutionStatusFeasible):
                return RawResult(Status.FEASIBLE, self._values())
            return RawResult(Status.NO_SOLUTION)
        return RawResult(Status.ERROR, message=f"HiGHS ended with: {highs.modelStatusToString(status)}")

    def interrupt(self) -> None:
        self._stop[0] = True

    def tighten(self) -> bool:
        for name in ("mip_feasibility_tolerance", "primal_feasibility_tolerance", "dual_feasibility_tolerance"):
            self._highs.setOptionValue(name, 1e-9)
        self._highs.clearSolver()
        return True

    def _values(self) -> FloatArray:
        return np.array(self._highs.getSolution().col_value, dtype=np.float64)
