"""The slow, obvious version of everything in the core: loops over examples, negatives and rows, as the paper prints it.

Nothing here calls the package beyond reading the fields of a program. Rows keep their gradients, so that a sum of loops
can be differentiated by autograd; assignment weights are Python floats, through which no gradient flows.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from neuralilp.program import IntegerProgram

TOLERANCE = 1e-5
"""How far a known row may be violated before it counts."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One inequality a·z + b >= 0."""

    a: Tensor
    b: Tensor
    is_learned: bool = False
    is_bound: bool = False

    def distance(self, z: Tensor) -> Tensor:
        """d(z; [a|b]) = (a·z + b)/|a|; a zero row counts as norm 1."""
        return (self.a @ z + self.b) / self.norm()

    def norm(self) -> Tensor | float:
        return (self.a @ self.a).sqrt() if bool((self.a != 0).any()) else 1.0


@dataclasses.dataclass(frozen=True)
class Terms:
    positive: Tensor
    negative: Tensor
    covariance: Tensor
    masked: float
    separated: float
    inside: float


def sum_of(values: Sequence[Tensor]) -> Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for value in values:
        total = total + value
    return total


def examples(batch: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(size) for size in batch))


def pick(tensor: Tensor, own: int, batch: Sequence[int], example: tuple[int, ...]) -> Tensor:
    """What a tensor with ``own`` dimensions after its batch dimensions is for one example, in float64."""
    return tensor.expand(*batch, *tensor.shape[tensor.ndim - own :])[example].double()


def rows_of(program: IntegerProgram, batch: Sequence[int], example: tuple[int, ...]) -> list[Row]:
    """Eq. 2 for one example: inequalities, each equality as two of them with its slack, then finite bounds."""
    rows = []
    for block in program.blocks:
        a, b = pick(block.a, 2, batch, example), pick(block.b, 1, batch, example)
        if block.slack is None:
            rows += [Row(a[i], b[i], block.is_learned) for i in range(len(b))]
            continue
        slack = pick(block.slack, 1, batch, example)
        rows += [Row(a[i], b[i] + slack[i], block.is_learned) for i in range(len(b))]
        rows += [Row(-a[i], slack[i] - b[i], block.is_learned) for i in range(len(b))]
    n = program.cost.shape[-1]
    for sign, bound in ((1.0, program.bounds.lower), (-1.0, program.bounds.upper)):
        value = pick(bound, 1, batch, example)
        for j in range(n):
            if math.isfinite(value[j]):
                unit = torch.zeros(n, dtype=torch.float64)
                unit[j] = sign
                rows.append(Row(unit, -sign * value[j], is_bound=True))
    return rows


def cost_row(program: IntegerProgram, batch: Sequence[int], example: tuple[int, ...], y: Tensor) -> Row:
    """The row m + 1 of Eq. 4: -c·z + c·y* >= 0."""
    c = pick(program.cost, 1, batch, example)
    return Row(-c, c @ y)


@torch.no_grad()
def is_admissible(program: IntegerProgram, rows: Sequence[Row], cost: Row, y: Tensor, z: Tensor) -> bool:
    """Not y*, within bounds and known rows, and where the cost is known, no worse than y*."""
    if torch.equal(z, y):
        return False
    for row in rows:
        if not row.is_learned and row.distance(z).item() < (0 if row.is_bound else -TOLERANCE):
            return False
    return program.cost_is_learned or (-cost.a @ (z - y)).item() <= 0


def mask(program: IntegerProgram, solution: Tensor, points: Tensor) -> Tensor:
    """Which of the points, `*batch neg var`, the loss may use."""
    batch = solution.shape[:-1]
    result = torch.zeros(points.shape[:-1], dtype=torch.bool)
    for example in examples(batch):
        y = solution[example].double()
        rows, cost = rows_of(program, batch, example), cost_row(program, batch, example, y)
        for k in range(points.shape[-2]):
            result[(*example, k)] = is_admissible(program, rows, cost, y, points[(*example, k)].double())
    return result


def softmin(distances: Sequence[float], temperature: float) -> list[float]:
    """w of Eq. 9; at temperature 0 the nearest rows share the weight."""
    nearest = min(distances)
    if temperature == 0:
        weights = [float(d == nearest) for d in distances]
    else:
        weights = [math.exp(-(d - nearest) / temperature) for d in distances]
    return [weight / sum(weights) for weight in weights]


def terms(
    program: IntegerProgram,
    solution: Tensor,
    points: Tensor,
    temperature: float,
    positive_margin: float = 0.01,
    negative_margin: float = 0.01,
    known_rows_compete: bool = True,
) -> Terms:
    """Eqs. 6-9, a mean over the examples, and the diagnostics."""
    batch = solution.shape[:-1]
    positive, negative, covariance = [], [], []
    used = separated = inside = 0
    for example in examples(batch):
        y = solution[example].double()
        rows, cost = rows_of(program, batch, example), cost_row(program, batch, example, y)
        learned = [row for row in rows if row.is_learned]
        distances = [row.distance(y) for row in learned]
        inside += all(d.item() >= 0 for d in distances)
        if learned:
            positive.append(sum_of([torch.relu(positive_margin - d) for d in distances]) / len(learned))
            means = [sum_of([row.a[j] / row.norm() for row in learned]) / len(learned) for j in range(len(y))]
            covariance.append(sum_of([mean**2 for mean in means]) / len(y))
        hinges, is_apart = [], True
        for k in range(points.shape[-2]):
            z = points[(*example, k)].double()
            if not is_admissible(program, rows, cost, y, z):
                continue
            competing = rows if known_rows_compete else learned
            d = [row.distance(z) for row in (*competing, cost)]
            w = softmin([value.item() for value in d], temperature)
            hinges.append(sum_of([w[i] * torch.relu(negative_margin + d[i]) for i in range(len(d))]))
            is_apart = is_apart and min(value.item() for value in d) < -1e-5
        separated += is_apart
        used += len(hinges)
        negative.append(sum_of(hinges) / max(len(hinges), 1))
    count = math.prod(batch)
    return Terms(
        positive=sum_of(positive) / count,
        negative=sum_of(negative) / count,
        covariance=sum_of(covariance) / count,
        masked=1 - used / max(points.shape[:-1].numel(), 1),
        separated=separated / count,
        inside=inside / count,
    )


def variation_weights(history: Sequence[Sequence[float]]) -> list[float]:
    """λ of each term after a history of losses (Groenendijk et al. 2021), from the definition at every call.

    The ratio of a term in step t is its loss over the mean of its losses before t (1 where that is 0, and in the first
    step); its λ is proportional to the standard deviation of its ratios over their mean.
    """
    variations = []
    for losses in zip(*history, strict=True):
        ratios = [1.0]
        for t in range(1, len(losses)):
            past = statistics.fmean(losses[:t])
            ratios.append(losses[t] / past if past > 0 else 1.0)
        mean = statistics.fmean(ratios)
        variations.append(statistics.pstdev(ratios) / mean if mean > 0 else 0.0)
    total = sum(variations)
    return [v / total if total > 0 else 1 / len(variations) for v in variations]
