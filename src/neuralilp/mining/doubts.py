"""Examples that break what hardly any other breaks: wrong decisions among right ones, found without costs.

A rule that all right examples keep is broken by the few wrong ones that happen to. Were variables independent, many
examples would break it; that only few do is no accident, so those few are in doubt. It may also be a habit and no
rule, and its exceptions may be right: whether to leave them out is for held-out examples to decide.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from neuralilp.distill.sentences import Axes
from neuralilp.mining.candidates import slices
from neuralilp.mining.chance import SHUFFLES, shuffled
from neuralilp.mining.selecting import least_evidence

MOST, RATIO = 0.05, 0.1
"""Examples that break a rule: at most so many of all, and of those that would were variables independent."""

BINARY = 0.9
"""A variable counts as one between 0 and 1 if that share of the examples has it so."""


def doubtful(solutions: Float[Tensor, "example var"], axes: Axes | None = None) -> Bool[Tensor, " example"]:
    """Which examples break a rule of two variables, or on a sum along the axes, that hardly any other breaks."""
    doubts = _by_pairs(solutions)
    return doubts if axes is None else doubts | _by_sums(solutions, axes)


def strength(broken: Tensor, expected: Tensor) -> Tensor:
    """-log of a bound on the chance that so few break a rule where so many would by accident (Chernoff's)."""
    log = torch.where(broken > 0, (broken / expected.clamp(min=1e-9)).clamp(min=1e-9).log(), 0.0)
    return torch.where(expected > broken, expected - broken + broken * log, 0.0)


def _is_rule(broken: Tensor, expected: Tensor, examples: int, tried: int) -> Tensor:
    few = (broken > 0) & (broken <= MOST * examples) & (broken <= RATIO * expected)
    return few & (strength(broken, expected) >= least_evidence(tried))


def _by_pairs(solutions: Float[Tensor, "example var"]) -> Bool[Tensor, " example"]:
    """Not both, not neither, and not the one without the other."""
    is_binary = ((solutions == 0) | (solutions == 1)).double().mean(0) >= BINARY
    there = solutions[:, is_binary] > 0.5
    doubts, n = torch.zeros(len(there), dtype=torch.bool), there.shape[1]
    pairs = torch.ones(n, n, dtype=torch.bool).triu(1)
    for left, right, which in (
        (there, there, pairs),
        (~there, ~there, pairs),
        (there, ~there, pairs | pairs.mT),
    ):
        one, other = left.double(), right.double()
        expected = len(there) * one.mean(0).unsqueeze(-1) * other.mean(0)
        found = which & _is_rule(one.mT @ other, expected, len(there), 3 * n * n)
        doubts |= ((one @ found.double()) * other > 0).any(-1)
    return doubts


def _by_sums(solutions: Float[Tensor, "example var"], axes: Axes) -> Bool[Tensor, " example"]:
    """Sums over whole axes that are hardly ever below a level, or above."""
    sums = torch.stack(list(slices(axes, solutions)))
    doubts = torch.zeros(len(solutions), dtype=torch.bool)
    independent = [order @ sums.mT for order in shuffled(solutions, SHUFFLES)]
    seen = solutions @ sums.mT
    for value, others in ((seen, independent), (-seen, [-each for each in independent])):
        best = torch.zeros(len(sums), dtype=torch.float64)
        level = torch.full_like(best, -torch.inf)
        for least in value.unique().tolist():
            broken = (value < least).double().sum(0)
            expected = torch.stack([(each < least).double().sum(0) for each in others]).mean(0)
            better = _is_rule(broken, expected, len(value), 2 * len(sums)) & (strength(broken, expected) > best)
            best, level = torch.where(better, strength(broken, expected), best), torch.where(better, least, level)
        doubts |= (value < level).any(-1)
    return doubts
