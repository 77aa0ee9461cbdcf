"""Modules that produce constraint blocks: learnable, known, or from a network; and the box of the bounds."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from neuralilp.blocks import TOLERANCE, Bounds, ConstraintBlock, row_norm
from neuralilp.errors import InputError, ShapeError

Start = Literal["uniform", "gaussian"]


class Box(nn.Module):
    """Known bounds lower <= z <= upper, a number for all variables or one each."""

    lower: Tensor
    upper: Tensor

    def __init__(self, lower: float | Tensor, upper: float | Tensor, num_variables: int | None = None) -> None:
        super().__init__()
        lower, upper = (torch.as_tensor(bound, dtype=torch.get_default_dtype()) for bound in (lower, upper))
        if num_variables is None and lower.ndim == 0 and upper.ndim == 0:
            raise InputError("num_variables must be given where lower and upper are plain numbers")
        if num_variables is not None and num_variables < 1:
            raise InputError(f"num_variables must be positive, got {num_variables}")
        try:
            shape = torch.broadcast_shapes(lower.shape, upper.shape, (num_variables or 1,))
        except RuntimeError:
            raise ShapeError(
                f"lower and upper must be numbers or have num_variables = {num_variables} entries, "
                f"got shapes {tuple(lower.shape)} and {tuple(upper.shape)}"
            ) from None
        self.register_buffer("lower", lower.expand(shape).clone())
        self.register_buffer("upper", upper.expand(shape).clone())
        self._bounds = Bounds(self.lower, self.upper)
        self.register_load_state_dict_post_hook(_look_again)  # type: ignore[no-untyped-call]

    @property
    def num_variables(self) -> int:
        return self.lower.shape[-1]

    def forward(self, x: Any = None) -> Bounds:
        if self._bounds.lower is not self.lower or self._bounds.upper is not self.upper:  # moved to another device
            _look_again(self)
        return self._bounds


def _look_again(box: Box, _: Any = None) -> None:
    box._bounds = Bounds(box.lower, box.upper)


class LearnableConstraints(nn.Module):
    r"""Static learnable rows, each with a normal a, a radius r and its own origin o.

    The hyperplane lies at distance r from its origin: b = r|a| - a·o, hence d(z) = a·(z - o)/|a| + r
    ("Over-parameterization of constraints", Section 3.2). The paper prints r - o·a/|a| for the offset, which is
    the same for unit rows; the form here keeps the radius a distance whatever the norm of a.

    The block that it produces has unit rows, a/|a|: the same hyperplanes, whose offsets are distances.

    ``slack`` None makes inequalities; a number makes equalities with that ε on both sides of a·z + b = 0, hence ε/|a|
    as a distance. With ``slack_is_distance`` it is the distance, whatever the norm of a.

    ``restarts`` of them are learnt at once: blocks with the batch dimensions (restarts, 1), over which
    :class:`~neuralilp.LossStep` broadcasts the solutions; x has one batch dimension then. :meth:`restart` is one of
    them on its own, and :meth:`NeuralILP.restart <neuralilp.NeuralILP.restart>` the model with it.
    """

    def __init__(
        self,
        num_constraints: int,
        num_variables: int,
        *,
        slack: float | None = None,
        start: Start = "uniform",
        radius: float = 0.2,
        origin: tuple[float | Tensor, float | Tensor] = (0.0, 0.0),
        slack_is_distance: bool = False,
        restarts: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """``start``: a from U(-0.5, 0.5) or a standard Gaussian; ``origin``: each o uniform between these two."""
        super().__init__()
        if num_constraints < 1 or num_variables < 1:
            raise InputError(
                f"num_constraints and num_variables must be positive, got {num_constraints} and {num_variables}"
            )
        if slack is not None and not slack >= 0:
            raise InputError(f"slack must be None or at least 0, got {slack}")
        if start not in ("uniform", "gaussian"):
            raise InputError(f"start must be 'uniform' or 'gaussian', got {start!r}")
        self.slack = slack
        self.slack_is_distance = slack_is_distance
        if restarts is not None and restarts < 1:
            raise InputError(f"restarts must be None or positive, got {restarts}")
        batch = () if restarts is None else (restarts, 1)
        shape = (*batch, num_constraints, num_variables)
        if start == "uniform":
            a = torch.rand(shape, generator=generator) - 0.5
        else:
            a = torch.randn(shape, generator=generator)
        low, high = (torch.as_tensor(end, dtype=a.dtype) for end in origin)
        self.a = nn.Parameter(a)
        self.radius = nn.Parameter(torch.full(shape[:-1], float(radius)))
        self.origin = nn.Parameter(low + (high - low) * torch.rand(shape, generator=generator))

    @classmethod
    def from_rows(
        cls, a: Float[Tensor, "constr var"], b: Float[Tensor, " constr"], *, slack: float | None = None
    ) -> LearnableConstraints:
        """Rows that start as a·z + b, scaled to unit norm, with the radius as their offset; ``slack`` is a distance."""
        check_rows(a, b)
        norm = row_norm(a)
        rows = cls(*a.shape, slack=slack, slack_is_distance=True, generator=torch.Generator())
        with torch.no_grad():
            rows.a.copy_(a / norm.unsqueeze(-1))
            rows.radius.copy_(b / norm)
        return rows

    @property
    def num_variables(self) -> int:
        return self.a.shape[-1]

    def forward(self, x: Any = None) -> ConstraintBlock:
        norm = row_norm(self.a)
        a = self.a / norm.unsqueeze(-1)
        b = self.radius - torch.linalg.vecdot(a, self.origin)
        slack = None
        if self.slack is not None:
            slack = torch.full_like(norm, self.slack) if self.slack_is_distance else self.slack / norm
        return ConstraintBlock(a, b, slack, is_learned=True, is_unit=True)

    @torch.no_grad()
    def touching(self, solution: Float[Tensor, "example var"]) -> LearnableConstraints:
        """The same inequalities, each moved along its normal until the nearest of the solutions lies on it.

        Rows that keep a margin from both sides let in what is just inside of it. No solution is lost: a row that cuts
        some off moves out.
        """
        if self.slack is not None or self.restarts is not None:
            raise InputError(
                "touching must be called on inequalities without restarts, "
                f"got slack {self.slack} and {self.restarts} restarts"
            )
        if solution.ndim != 2 or not len(solution) or solution.shape[-1] != self.num_variables:
            raise ShapeError(f"solution must be `example {self.num_variables}`, got {tuple(solution.shape)}")
        moved = copy.deepcopy(self)
        moved.radius.sub_(self().room(solution).amin(0) - TOLERANCE)  # sums differ in their last digits
        return moved

    @property
    def restarts(self) -> int | None:
        return None if self.a.ndim == 2 else self.a.shape[0]

    def restart(self, index: int) -> LearnableConstraints:
        """One of the restarts, with weights of its own."""
        if self.restarts is None:
            raise InputError("restart must be called where there are restarts: these constraints have none")
        if not 0 <= index < self.restarts:
            raise InputError(f"index must be from 0 to {self.restarts - 1}, got {index}")
        one = LearnableConstraints(**{**self.config(), "restarts": None}, generator=torch.Generator())
        one.load_state_dict({name: value[index, 0].clone() for name, value in self.state_dict().items()}, assign=True)
        return one.train(self.training)

    def config(self) -> dict[str, Any]:
        *_, num_constraints, num_variables = self.a.shape
        return {
            "num_constraints": num_constraints,
            "num_variables": num_variables,
            "slack": self.slack,
            "slack_is_distance": self.slack_is_distance,
            "restarts": self.restarts,
        }


def check_rows(a: Tensor, b: Tensor) -> None:
    """Rows to start from, or to keep to: a·z + b with finite numbers and a direction each."""
    if a.ndim != 2 or b.shape != a.shape[:1]:
        raise ShapeError(f"a must be `constr var` and b `constr`, got shapes {tuple(a.shape)} and {tuple(b.shape)}")
    for name, value in (("a", a), ("b", b)):
        if not bool(value.isfinite().all()):
            raise InputError(f"{name} must be finite: row {int((~value.isfinite()).nonzero()[0, 0])} is not")
    zero = (a == 0).all(-1)
    if bool(zero.any()):
        raise InputError(f"every row of a must have a nonzero entry: row {int(zero.nonzero()[0, 0])} has none")


class KnownConstraints(nn.Module):
    """Known linear rows ``a·z + b >= 0``, or ``|a·z + b| <= slack`` where a slack (0 for exact) is given."""

    a: Tensor
    b: Tensor

    def __init__(
        self, a: Float[Tensor, "constr var"], b: Float[Tensor, " constr"], *, slack: float | None = None
    ) -> None:
        super().__init__()
        dtype = torch.get_default_dtype()
        a, b = torch.as_tensor(a, dtype=dtype), torch.as_tensor(b, dtype=dtype)
        check_rows(a, b)
        if slack is not None and not slack >= 0:
            raise InputError(f"slack must be None or at least 0, got {slack}")
        self.slack = slack
        self.register_buffer("a", a.clone())
        self.register_buffer("b", b.clone())

    @property
    def num_variables(self) -> int:
        return self.a.shape[-1]

    def forward(self, x: Any = None) -> ConstraintBlock:
        slack = None if self.slack is None else torch.full_like(self.b, self.slack)
        return ConstraintBlock(self.a, self.b, slack, is_learned=False)

    def config(self) -> dict[str, Any]:
        num_constraints, num_variables = self.a.shape
        return {"num_constraints": num_constraints, "num_variables": num_variables, "slack": self.slack}


class NetworkConstraints(nn.Module):
    """Rows made from x for each instance: A(x), b(x) of Eq. 3.

    With ``offset`` a number, or one a row, ``network(x)`` returns A as `*batch constr var` and b is fixed to that (the
    knapsack of the paper has b = 1); with ``offset`` None it returns the pair (A, b).
    """

    def __init__(
        self, network: nn.Module, *, offset: float | Sequence[float] | None = None, slack: float | None = None
    ) -> None:
        super().__init__()
        if slack is not None and not slack >= 0:
            raise InputError(f"slack must be None or at least 0, got {slack}")
        self.network = network
        self.offset = offset if offset is None or isinstance(offset, int | float) else [float(b) for b in offset]
        self.slack = slack

    def forward(self, x: Any) -> ConstraintBlock:
        output = self.network(x)
        if self.offset is None:
            if not (isinstance(output, tuple) and len(output) == 2):
                raise InputError(
                    f"network must return the pair (a, b) where offset is None, got {type(output).__name__}"
                )
            a, b = output
        else:
            a = output
            fixed = torch.tensor(self.offset, dtype=a.dtype, device=a.device)
            if fixed.ndim and fixed.shape[0] != a.shape[-2]:
                raise ShapeError(f"offset must be a number or have {a.shape[-2]} entries, got {fixed.shape[0]}")
            b = fixed.expand(a.shape[:-1])
        slack = None if self.slack is None else torch.full_like(b, self.slack)
        return ConstraintBlock(a, b, slack, is_learned=True)

    def config(self) -> dict[str, Any]:
        return {"offset": self.offset, "slack": self.slack}
