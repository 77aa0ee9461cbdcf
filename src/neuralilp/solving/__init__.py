"""Solving integer programs with the solvers that are installed."""

from neuralilp.solving.backend import Backend, Model, RawResult, Status
from neuralilp.solving.base import Solution, solve
from neuralilp.solving.cpsat import CpSatBackend
from neuralilp.solving.cuts import CutPool
from neuralilp.solving.gurobi import GurobiBackend
from neuralilp.solving.highs import HighsBackend
from neuralilp.solving.instance import Instance, Rows
from neuralilp.solving.registry import BACKENDS, available_backends
from neuralilp.solving.scip import ScipBackend

__all__ = [
    "BACKENDS",
    "Backend",
    "CpSatBackend",
    "CutPool",
    "GurobiBackend",
    "HighsBackend",
    "Instance",
    "Model",
    "RawResult",
    "Rows",
    "ScipBackend",
    "Solution",
    "Status",
    "available_backends",
    "solve",
]
