"""CombOptNet (Paulus et al. 2021): a solver as a layer, with gradients for the constraints and the cost.

The solver runs on every example of every training step; the incoming gradient g says where the answer y should move.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from neuralilp.blocks import TOLERANCE, Bounds, ConstraintBlock, broadcast
from neuralilp.errors import InputError
from neuralilp.loss import rate_of
from neuralilp.model import NeuralILP
from neuralilp.program import IntegerProgram
from neuralilp.solving import solve


class CombOptNetTerms(NamedTuple):
    """The loss of a batch, and what there is to see along the way; each is a mean over the examples."""

    mse: Float[Tensor, ""]
    """Squared error a variable, each scaled to unit range; 1 for an example without an answer."""
    violation: Float[Tensor, ""]
    """The distance by which y* violates learned rows, summed over them, for examples without an answer; else 0."""
    vector_accuracy: Float[Tensor, ""]
    """Share of the examples whose answer was y*."""
    unsolved: Float[Tensor, ""]
    """Share of the examples without an answer: infeasible, or out of time."""


class CombOptNetStep(nn.Module):
    """x, y* -> the loss of the solver's answers and its terms; ``backward`` and the optimiser are the caller's.

    The loss is the mean squared error of solutions scaled to unit range (and centred, which cancels), with
    :func:`differentiable_solve` in between. ``temperature`` is its τ; 0.5, constant, is the published setting.
    ``options`` go to :func:`neuralilp.solving.solve`.

    An example without an answer counts as wrong by the whole range in every variable, and learns from the total
    distance by which its y* violates learned rows, which is positive wherever the program is infeasible. Its weight,
    2/n² by the unit of the scale, is what the backward pass gives to the target y* of an answer that is wrong
    everywhere: on binary variables just what any made-up answer would give, but y* itself, which gives nothing.
    """

    def __init__(self, model: NeuralILP, **options: Any) -> None:
        super().__init__()
        _check_options(options)
        self.model = model
        self.options = options

    def forward(
        self,
        x: Any,
        solution: Float[Tensor, "*batch var"],
        *,
        temperature: float,
        generator: torch.Generator | None = None,
    ) -> tuple[Float[Tensor, ""], CombOptNetTerms]:
        """The published method draws nothing: ``generator`` is not used."""
        program = self.model(x)
        program.check_solution(solution)
        program.check_learned_part()
        scale = unit_range(program.bounds)
        y = differentiable_solve(program, temperature=temperature, **self.options).expand(solution.shape)
        unsolved = y.isnan().any(-1)
        error = torch.where(unsolved.unsqueeze(-1), 1, (y - solution) * scale)
        mse = error.square().mean()
        violation = torch.where(unsolved, _violation(program, solution), 0)
        weight = 2 * scale.mean(-1) / program.num_variables**2
        terms = CombOptNetTerms(
            mse=mse,
            violation=violation.detach().mean(),
            vector_accuracy=(y.detach() == solution).all(-1).to(mse.dtype).mean(),
            unsolved=unsolved.to(mse.dtype).mean(),
        )
        return mse + (weight * violation).mean(), terms


def differentiable_solve(
    program: IntegerProgram, *, temperature: float = 0.5, **options: Any
) -> Float[Tensor, "*batch var"]:
    """The solver's answers y, with CombOptNet's gradients for the learned rows and the learned cost.

    Given g, take d = -g, with zeros where y + sign(d) would leave the box. With the entries of |d| in ascending order,
    Δ_k is sign(d) at rank k and above, and λ_k the step from the magnitude before: d = Σ λ_k Δ_k. The targets
    y'_k = y + Δ_k lie in the box. Handed back is the gradient of the mean over k of λ_k P_k, the distances being
    those from unit rows, where P_k is

    - for the learned rows, if y'_k is feasible: the softmin (temperature τ) over them of the distance by which y is
      inside, which pushes the nearest over y; if not: the sum over them of the distances by which y'_k violates;
    - for the cost, max(0, c·y'_k - c·y) if y'_k is feasible, else 0.

    Known rows count for whether y'_k is feasible, and an equality is two inequalities. Only blocks and costs marked as
    learned have a gradient. A program without an answer has NaN in its place and none: what its examples should
    learn is a matter of the loss (see :class:`CombOptNetStep`). ``options`` go to :func:`neuralilp.solving.solve`.
    """
    _check_options(options)
    if program.is_integer is not None and not bool(program.is_integer.all()):
        raise InputError("program must be all integer: is_integer has a False")
    rate = rate_of(temperature, program.cost)
    fixed = program.detach()
    y = solve(fixed, **options).z
    rows, known = _unit_rows(program.learned, program), _unit_rows(fixed.known, program)
    return _Answer.apply(*rows, program.movable_cost, y, known, program.bounds, rate)  # type: ignore[no-untyped-call]


class _Answer(torch.autograd.Function):
    """a, b, c -> y, which has been solved for already."""

    @staticmethod
    def forward(
        ctx: Any,
        a: Tensor,
        b: Tensor,
        c: Tensor,
        y: Tensor,
        known: tuple[Tensor, Tensor],
        bounds: Bounds,
        rate: Tensor | None,
    ) -> Tensor:
        ctx.save_for_backward(a, b, c, y, *known)
        ctx.bounds, ctx.rate = bounds, rate
        return y.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        a, b, c, y, known_a, known_b = ctx.saved_tensors
        size, steps = decompose(-g, y, ctx.bounds)
        with torch.enable_grad():
            a, b, c = (tensor.detach().requires_grad_() for tensor in (a, b, c))
            total = mismatch(a, b, c, y.nan_to_num(), size, steps, (known_a, known_b), ctx.rate)
            return *torch.autograd.grad(total, (a, b, c), allow_unused=True), None, None, None, None


def decompose(
    d: Float[Tensor, "*batch var"], y: Float[Tensor, "*batch var"], bounds: Bounds
) -> tuple[Float[Tensor, "*batch step"], Float[Tensor, "*batch step var"]]:
    """λ >= 0 and Δ in {-1, 0, 1}, one step a variable, with d = Σ λ_k Δ_k once its entries that lead out are zero.

    λ_k is 0 wherever Δ_k is: no y'_k with a weight equals y. Everything is 0 where y is NaN.
    """
    d = torch.where(bounds.contain(y + d.sign()), d, 0)
    magnitude, order = d.abs().sort(-1)
    size = magnitude.diff(dim=-1, prepend=torch.zeros_like(magnitude[..., :1]))
    rank = order.argsort(-1).unsqueeze(-2)
    step = torch.arange(d.shape[-1], device=d.device).unsqueeze(-1)
    return size, torch.where(rank >= step, d.sign().unsqueeze(-2), 0)


def mismatch(
    a: Float[Tensor, "*#batch constr var"],
    b: Float[Tensor, "*#batch constr"],
    c: Float[Tensor, "*#batch var"],
    y: Float[Tensor, "*batch var"],
    size: Float[Tensor, "*batch step"],
    steps: Float[Tensor, "*batch step var"],
    known: tuple[Float[Tensor, "*#batch known var"], Float[Tensor, "*#batch known"]],
    rate: Float[Tensor, ""] | None,
) -> Float[Tensor, ""]:
    """Σ over the batch of mean_k λ_k P_k, for the rows (a, b) and the cost at once: neither's P_k holds the other.

    ``rate`` is -1/τ, or None for the limit in which the softmin is the minimum.
    """
    y = y.unsqueeze(-2)
    targets = y + steps
    room = _distances(targets, a, b)
    is_feasible = _hold(room) & _hold(_distances(targets, *known))
    difference = (steps @ c.unsqueeze(-1)).squeeze(-1)
    cost_part = torch.where(is_feasible, difference.relu(), 0)
    if not a.shape[-2]:
        return (size * cost_part).mean(-1).sum()
    inside = _distances(y, a, b)
    nearest = inside.amin(-1) if rate is None else torch.logsumexp(rate * inside, -1) / rate
    row_part = torch.where(is_feasible, nearest, (-room).relu().sum(-1))
    return (size * (row_part + cost_part)).mean(-1).sum()


def unit_range(bounds: Bounds) -> Float[Tensor, "*batch var"]:
    """1 / (upper - lower) of the integral bounds; 1 for a variable with only one value, which has no error."""
    if not bounds.is_finite:
        raise InputError("bounds must be finite: the loss scales the error of each variable to unit range")
    width = bounds.integral_upper - bounds.integral_lower
    return 1 / torch.where(width > 0, width, 1)


def _violation(program: IntegerProgram, z: Tensor) -> Float[Tensor, "*batch"]:
    """The distance by which z violates each learned row, summed over the rows."""
    a, b = _unit_rows(program.learned, program)
    return (-_distances(z.unsqueeze(-2), a, b)).relu().sum(-1).squeeze(-1)


def _unit_rows(blocks: Sequence[ConstraintBlock], program: IntegerProgram) -> tuple[Tensor, Tensor]:
    """(a, b) of all blocks as unit rows, an equality as two; not expanded to the batch unless some block is."""
    parts = [block.unit().explicit() for block in blocks]
    if not parts:
        return program.cost.new_zeros(0, program.num_variables), program.cost.new_zeros(0)
    a_shape = broadcast(*(a.shape[:-2] for a, _ in parts))
    b_shape = broadcast(*(b.shape[:-1] for _, b in parts))
    a = torch.cat([a.expand(*a_shape, -1, -1) for a, _ in parts], -2)
    return a, torch.cat([b.expand(*b_shape, -1) for _, b in parts], -1)


def _distances(z: Tensor, a: Tensor, b: Tensor) -> Float[Tensor, "*batch points constr"]:
    """a·z + b of points `*batch points var`; the batch dimensions of unit rows broadcast."""
    return z @ a.mT + b.unsqueeze(-2)


def _hold(room: Float[Tensor, "*batch points constr"]) -> Bool[Tensor, "*batch points"]:
    return (room >= -TOLERANCE).all(-1)


def _check_options(options: dict[str, Any]) -> None:
    if options.get("relax"):
        raise InputError("relax must not be set: the layer's answers are integral points")
