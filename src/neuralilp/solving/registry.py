"""The backends by name. A new one is added here, and the contract tests then run over it."""

from __future__ import annotations

from neuralilp.errors import InputError
from neuralilp.solving.backend import Backend
from neuralilp.solving.cpsat import CpSatBackend
from neuralilp.solving.gurobi import GurobiBackend
from neuralilp.solving.highs import HighsBackend
from neuralilp.solving.scip import ScipBackend

BACKENDS: dict[str, type[Backend]] = {
    "highs": HighsBackend,
    "cpsat": CpSatBackend,
    "scip": ScipBackend,
    "gurobi": GurobiBackend,
}


def available_backends() -> tuple[str, ...]:
    """The names of the backends whose package is installed; a licence is another matter."""
    return tuple(name for name, backend in BACKENDS.items() if backend().is_available())


def find_backend(backend: str | Backend) -> Backend:
    """A backend by its name, or the object itself."""
    if isinstance(backend, Backend):
        return backend
    if not isinstance(backend, str) or backend not in BACKENDS:
        raise InputError(f"backend must be one of {', '.join(map(repr, BACKENDS))} or a Backend, got {backend!r}")
    return BACKENDS[backend]()
