"""ILP-Loss (Section 3.2, Eqs. 5-9): separate y* from its negatives by the learned hyperplanes, without a solver."""

from __future__ import annotations

import math
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from neuralilp.blocks import TOLERANCE, row_norm
from neuralilp.errors import InputError
from neuralilp.negatives.base import Examined, Negatives, examine
from neuralilp.program import IntegerProgram
from neuralilp.rows import UnitRows
from neuralilp.separation import KnownRows, NegativeTerm, compiler_is_present
from neuralilp.terms import LossTerms

COMPILE_FROM = 2**20
"""Distances a step (negatives × learned rows) from which on compiling is worth the seconds that it takes."""


class ILPLoss(nn.Module):
    r"""The loss of Eq. 5 before its weights λ, for a batch of programs, solutions and negatives.

    - L₊ = 1/m Σ_i max(0, μ⁺ - d(y*; [a_i|b_i])) over the m learned rows (Eq. 6)
    - L₋ = 1/|N| Σ_{y⁻} Σ_{i ≤ m+1} w_i max(0, μ⁻ + d(y⁻; [a_i|b_i])) (Eq. 7), w the softmin of the distances at
      temperature τ (Eq. 9), without a gradient, over learned rows, known rows, bounds, and the cost row of Eq. 4;
      without known rows and bounds if ``known_rows_compete`` is False
    - L_o, the mean over the variables of the squared mean of the learned unit rows (Eq. 8 up to a constant factor)

    Each is a mean over the examples. An equality is two rows, whose unit vectors cancel in L_o. τ = 0 is the limit:
    the nearest row takes all the weight, and exact ties share it.

    Every negative that counts satisfies what is known. Where bounds or known rows compete for it in Eq. 9 they separate
    nothing, and take from the learned rows the weight of all negatives that lie nearer to them.

    ``margins_in_temperatures`` makes the margins multiples of τ, so that they fall with it: wide at first, and in the
    end narrow enough to fit between points that a fixed margin would not tell apart. Beyond the paper.

    ``compile`` runs the inner pass through ``torch.compile``: "auto" for large problems where a C++ compiler is found.
    """

    def __init__(
        self,
        *,
        positive_margin: float = 0.01,
        negative_margin: float = 0.01,
        margins_in_temperatures: bool = False,
        known_rows_compete: bool = True,
        compile: bool | Literal["auto"] = "auto",
    ) -> None:
        super().__init__()
        for name, margin in (("positive_margin", positive_margin), ("negative_margin", negative_margin)):
            if not (math.isfinite(margin) and margin >= 0):
                raise InputError(f"{name} must be at least 0, got {margin}")
        if compile not in (True, False, "auto"):
            raise InputError(f"compile must be True, False or 'auto', got {compile!r}")
        self.positive_margin = positive_margin
        self.negative_margin = negative_margin
        self.margins_in_temperatures = margins_in_temperatures
        self.known_rows_compete = known_rows_compete
        self.compile_mode = compile

    def forward(
        self,
        program: IntegerProgram,
        solution: Float[Tensor, "*batch var"],
        negatives: Negatives,
        *,
        temperature: float,
    ) -> LossTerms:
        self._check(program, solution, negatives)
        rate = rate_of(temperature, solution)
        return self.terms(program, solution, negatives, rate, *self.margins(temperature))

    def margins(self, temperature: float) -> tuple[float, float]:
        """μ⁺ and μ⁻ at a temperature."""
        unit = temperature if self.margins_in_temperatures else 1.0
        return unit * self.positive_margin, unit * self.negative_margin

    def terms(
        self,
        program: IntegerProgram,
        solution: Tensor,
        negatives: Negatives,
        rate: Tensor | None,
        positive_margin: float | Tensor,
        negative_margin: float | Tensor,
    ) -> LossTerms:
        """The terms for arguments that are known to be good, with ``rate`` as in :func:`rate_of`."""
        rows = UnitRows.of(program.learned, solution)
        examined = examine(program, negatives)
        differences = examined.differences
        weight, used = mean_weights(examined, solution.shape[:-1].numel())
        negative, nearest = NegativeTerm.apply(  # type: ignore[no-untyped-call]
            rows.table.stacked,
            rows.slack,
            cost_distance(program, solution, examined),
            rows,
            differences,
            weight,
            known_rows(program, solution, examined, rate, negative_margin)
            if self.known_rows_compete
            else KnownRows.none(examined.cost_change),
            rate,
            negative_margin,
            self.is_compiled(differences.num_rows * rows.table.stacked.shape[-1]),
        )
        positive, inside = positive_term(rows, positive_margin)
        return LossTerms(
            positive=positive,
            negative=negative,
            covariance=covariance_term(rows),
            masked=1 - used / max(len(negatives) * solution.shape[:-1].numel(), 1),
            separated=separated_share(nearest, weight, differences.example, solution.shape[:-1].numel()),
            inside=inside,
        )

    def is_compiled(self, distances: int) -> bool:
        """Whether a step with that many distances takes the compiled path."""
        if torch.compiler.is_compiling():  # as part of a larger graph
            return False
        if self.compile_mode == "auto":
            return distances >= COMPILE_FROM and compiler_is_present()
        return self.compile_mode

    def _check(self, program: IntegerProgram, solution: Tensor, negatives: Negatives) -> None:
        program.check_learned_part()
        if negatives.checked_for is program and negatives.solution is solution:  # the sampler has looked at it
            return
        program.check_solution(solution)
        if negatives.solution.shape != solution.shape or not bool((negatives.solution == solution).all()):
            raise InputError("negatives must have been drawn for this solution: they hold differences from another one")


def rate_of(temperature: float, like: Tensor) -> Float[Tensor, ""] | None:
    """-1/τ; None, which stands for the limit, where τ is 0 or so low that twice that overflows."""
    if not (math.isfinite(temperature) and temperature >= 0):
        raise InputError(f"temperature must be at least 0, got {temperature}")
    if temperature * torch.finfo(like.dtype).max < 4:
        return None
    return like.new_full((), -1 / temperature)


def mean_weights(examined: Examined, examples: int) -> tuple[Float[Tensor, " row"], Float[Tensor, ""]]:
    """1/(examples · |N|) for each usable negative: a mean over N, then over the examples; and how many there are."""
    usable = examined.is_usable.to(examined.cost_change.dtype)
    count = usable.new_zeros(examples).index_add_(0, examined.differences.example, usable)
    share = 1 / (count.clamp(min=1) * examples)
    return share.index_select(0, examined.differences.example) * usable, count.sum()


def separated_share(
    nearest: Float[Tensor, " row"], weight: Float[Tensor, " row"], example: Int[Tensor, " row"], examples: int
) -> Float[Tensor, ""]:
    """The share of examples without a negative that counts and is inside, ``nearest`` its least distance."""
    is_left = (~(nearest < -TOLERANCE) & (weight > 0)).to(weight.dtype)
    left = is_left.new_zeros(examples).index_add_(0, example, is_left)
    return (left == 0).to(weight.dtype).mean()


def positive_term(rows: UnitRows, margin: float | Tensor) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """L₊ of Eq. 6, and the share of examples inside every learned row."""
    base = rows.table.at_solution
    d, s = base[:, : rows.num_inequalities], base[:, rows.num_inequalities :]
    total, inside = base.new_zeros(()), base.new_ones(base.shape[0], dtype=torch.bool)
    if d.shape[-1]:
        total = (margin - d).relu().sum()
        inside = (d >= 0).all(-1)
    if s.shape[-1]:
        slack = rows.slack_of(slice(None))
        room, size = margin - slack, s.abs()
        total = total + (room + size).relu().sum() + (room - size).relu().sum()
        inside = inside & (size <= slack).all(-1)
    return total / max(rows.num_rows * base.shape[0], 1), inside.to(base.dtype).mean()


def covariance_term(rows: UnitRows) -> Float[Tensor, ""]:
    """L_o of Eq. 8; the two sides of an equality cancel in the sum of the unit rows."""
    columns = rows.table.columns[:, : rows.num_inequalities]
    if not rows.num_inequalities:
        return columns.new_zeros(())
    return (columns.sum(-1) / rows.num_rows).square().mean()


def cost_distance(program: IntegerProgram, solution: Tensor, examined: Examined) -> Float[Tensor, " row"]:
    """d(y⁻; [-c | c·y*]) = -c·(y⁻ - y*)/|c|: the distance from the (m+1)-th hyperplane, the cost row of Eq. 4."""
    norm = row_norm(program.movable_cost.unsqueeze(-2)).squeeze(-1).expand(solution.shape[:-1]).reshape(-1)
    return -examined.cost_change / norm.index_select(0, examined.differences.example)


def known_rows(
    program: IntegerProgram, solution: Tensor, examined: Examined, rate: Tensor | None, margin: float | Tensor
) -> KnownRows:
    """The bounds and the known constraints of each negative, summed up."""
    example, n, bounds = examined.differences.example, solution.shape[-1], program.bounds
    y = solution.reshape(-1, n)
    lower, upper = (bound.expand(solution.shape).reshape(-1, n) for bound in (bounds.lower, bounds.upper))
    if bounds.is_binary:  # then every point within the bounds has the same distances from them
        summary = KnownRows.summarise(torch.cat([y - lower, upper - y], -1), rate, margin).rows(example)
    else:
        z = examined.differences.points(y)
        room = torch.cat([z - lower.index_select(0, example), upper.index_select(0, example) - z], -1)
        summary = KnownRows.summarise(room, rate, margin)
    if examined.known_distance is None or not examined.known_distance.shape[-1]:
        return summary
    return summary.merge(KnownRows.summarise(examined.known_distance, rate, margin), rate)
