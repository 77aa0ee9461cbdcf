"""What a solver backend must offer; one file a backend implements it."""

from __future__ import annotations

import abc
import dataclasses
import enum
import importlib
import importlib.util
from types import ModuleType
from typing import ClassVar

from neuralilp.errors import BackendMissingError, InputError
from neuralilp.solving.instance import FloatArray, Instance, Rows


class Status(enum.Enum):
    """How a solve ended. ``advice`` is one sentence for a person; ``has_solution`` says whether z is there."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    NO_SOLUTION = "no_solution"
    ERROR = "error"

    @property
    def advice(self) -> str:
        return _ADVICE[self]

    @property
    def has_solution(self) -> bool:
        return self in (Status.OPTIMAL, Status.FEASIBLE)


_ADVICE = {
    Status.OPTIMAL: "The solution is proven optimal.",
    Status.FEASIBLE: "The time limit ended the search with a feasible solution that may not be optimal; "
    "raise time_limit to prove or improve it.",
    Status.INFEASIBLE: "No point satisfies the constraints and bounds; learned constraints may be too tight, "
    "train longer or raise the slack of equalities.",
    Status.UNBOUNDED: "The objective can fall without end; give the variables finite bounds.",
    Status.NO_SOLUTION: "The time limit ended the search before any solution was found; raise time_limit or "
    "simplify the constraints.",
    Status.ERROR: "The solver failed or its answer did not pass the check; read the message, or try another backend.",
}


@dataclasses.dataclass(frozen=True, eq=False)
class RawResult:
    """What a backend answers, before rounding and checking. UNBOUNDED may also mean infeasible."""

    status: Status
    z: FloatArray | None = None
    message: str = ""


def option_error(solver: str, name: str, value: object) -> InputError:
    return InputError(f"{solver} does not take the option {name} = {value!r}")


class Model(abc.ABC):
    """A live model of one instance in a solver, one thread. It is used by one thread, save ``interrupt``."""

    @abc.abstractmethod
    def add_rows(self, rows: Rows) -> None:
        """Add rows, none of them empty, to the model that may have been solved before."""

    @abc.abstractmethod
    def solve(self, time_limit: float | None, start: FloatArray | None) -> RawResult:
        """Solve to a gap of zero within ``time_limit`` seconds from now; ``start`` is a hint without NaN."""

    @abc.abstractmethod
    def interrupt(self) -> None:
        """Make a solve that runs in another thread return soon; called again until it does."""

    def tighten(self) -> bool:
        """Set tolerances to about 1e-9 for a second try; False where there is nothing to tighten."""
        return False


class Backend(abc.ABC):
    """A solver. Its package is imported only when a model is built."""

    name: ClassVar[str]
    package: ClassVar[str]
    """The importable package that the backend needs."""
    extra: ClassVar[str | None] = None
    """The extra of neuralilp that installs it; None when neuralilp itself requires it."""

    @abc.abstractmethod
    def build(self, instance: Instance) -> Model:
        """A model of the instance."""

    def is_available(self) -> bool:
        """Is the package installed? Says nothing of a licence, which only a solve can tell."""
        try:
            return importlib.util.find_spec(self.package) is not None
        except (ImportError, ValueError):
            return False

    def require(self, module: str) -> ModuleType:
        """Import a module of the solver, or raise with the command that installs it."""
        try:
            return importlib.import_module(module)
        except ImportError as error:
            what = f"neuralilp[{self.extra}]" if self.extra else self.package
            raise BackendMissingError(
                f"the {self.name} backend needs the package {self.package}, which cannot be imported ({error}); "
                f"install it with: pip install '{what}'"
            ) from None
