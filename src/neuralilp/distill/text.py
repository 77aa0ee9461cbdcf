"""Rows as text: ``z3 + z7 + z9 = 1``, ``2 z1 - z4 <= 3``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from jaxtyping import Float
from torch import Tensor

from neuralilp.blocks import ConstraintBlock
from neuralilp.errors import InputError, ShapeError

MOST_TERMS = 20
"""Of a real row, the largest terms are written, no more than this."""


@dataclasses.dataclass(frozen=True)
class Row:
    """Σ coefficients[i] · z[variables[i]] (relation) right; the sum of the coefficients is not negative."""

    variables: tuple[int, ...]
    coefficients: tuple[float, ...]
    relation: str
    """``=``, ``<=`` or ``>=``"""
    right: float

    def text(self, names: Sequence[str]) -> str:
        terms = list(zip(self.variables, self.coefficients, strict=True))
        more = ""
        if len(terms) > MOST_TERMS and any(c != round(c) for c in self.coefficients):
            largest = sorted(terms, key=lambda term: -abs(term[1]))[:MOST_TERMS]
            more = f" + ... ({len(terms) - MOST_TERMS} more terms)"
            terms = sorted(largest)
        left = ""
        for j, c in terms:
            sign = (" - " if c < 0 else " + ") if left else ("-" if c < 0 else "")
            factor = "" if abs(c) == 1 else f"{abs(c):.6g} "
            left += f"{sign}{factor}{names[j]}"
        return f"{left}{more} {self.relation} {self.right + 0.0:.6g}"


def rows_of(block: ConstraintBlock) -> Iterator[Row]:
    """The rows of a block; a real equality's slack is left out."""
    for a, b in zip(block.a, block.b, strict=True):
        yield _row(a, b.item(), "=" if block.is_equality else ">=")


def _row(a: Float[Tensor, " var"], b: float, relation: str) -> Row:
    variables = a.nonzero().flatten().tolist()
    coefficients = a[variables].double().tolist()
    if sum(coefficients) < 0 or (sum(coefficients) == 0 and coefficients[0] < 0):
        flipped = {"=": "=", ">=": "<="}[relation]
        return Row(tuple(variables), tuple(-c for c in coefficients), flipped, b)
    return Row(tuple(variables), tuple(coefficients), relation, -b)


def variable_names(names: Sequence[str] | None, n: int) -> list[str]:
    """The user's names, or z0, z1, ..."""
    if names is None:
        return [f"z{j}" for j in range(n)]
    if len(names) != n:
        raise ShapeError(f"names must have one entry for each of the {n} variables, got {len(names)}")
    if any(not isinstance(name, str) or not name for name in names):
        raise InputError("names must be texts, none of them empty")
    return list(names)
