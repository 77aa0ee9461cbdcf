"""Rules as sentences, where variables lie on named axes: "for every row and digit, exactly one column"."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from neuralilp.distill.rules import Distilled
from neuralilp.distill.text import Row, rows_of, variable_names
from neuralilp.errors import InputError, ShapeError

QUANTIFIERS = {"=": "exactly", "<=": "at most", ">=": "at least"}
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclasses.dataclass(frozen=True)
class Axes:
    """Names and sizes of the axes that the variables lie on, flattened row-major: the last axis runs fastest."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.names or len(self.names) != len(self.sizes):
            raise InputError(f"names and sizes must be as many, and not none, got {self.names} and {self.sizes}")
        if min(self.sizes) < 1:
            raise InputError(f"sizes must be positive, got {self.sizes}")
        if len(set(self.names)) < len(self.names) or not all(self.names):
            raise InputError(f"names must differ, none of them empty, got {self.names}")

    def place(self, variable: int) -> tuple[int, ...]:
        place = []
        for size in reversed(self.sizes):
            variable, at = divmod(variable, size)
            place.append(at)
        return tuple(reversed(place))

    def variable_names(self) -> list[str]:
        """``z[row 1, column 2, digit 3]``, counted from 1."""
        places = map(self.place, range(math.prod(self.sizes)))
        return [f"z[{', '.join(f'{n} {i + 1}' for n, i in zip(self.names, place, strict=True))}]" for place in places]


@dataclasses.dataclass(frozen=True)
class Sentence:
    """A family of rows in one sentence; a row that belongs to none has its own, ``is_explained`` False."""

    text: str
    rows: int
    """Rows of the rules that it covers."""
    possible: int
    """Rows that it speaks of; more than ``rows`` where the family is not complete."""
    is_explained: bool = True

    def __str__(self) -> str:
        if not self.is_explained:
            return self.text
        if self.rows < self.possible:
            return f"{self.text} (only {self.rows} of {self.possible} such rows)"
        return f"{self.text} ({_count(self.rows, 'row')})"


def sentences(distilled: Distilled, axes: Axes) -> list[Sentence]:
    """The rules as sentences, largest families first, then rows that no sentence covers, as plain text.

    A family are rows of unit coefficients with one right side over sets of one shape: along each axis a single
    place, the whole axis, or one of the equal contiguous blocks that tile it.
    """
    n = distilled.equalities.a.shape[-1]
    if math.prod(axes.sizes) != n:
        raise ShapeError(f"axes must have the {n} variables of distilled, got sizes {axes.sizes}")
    families: dict[tuple[tuple[int, ...], str, float], set[tuple[int, ...]]] = {}
    plain: list[Row] = []
    for row in [*rows_of(distilled.equalities), *rows_of(distilled.inequalities)]:
        shape = _shape(row, axes)
        if shape is None:
            plain.append(row)
        else:
            families.setdefault((shape, row.relation, row.right), set()).add(row.variables)
    plain += [*rows_of(distilled.unexplained_equalities), *rows_of(distilled.unexplained_inequalities)]
    found = [
        Sentence(_sentence(shape, relation, right, axes), len(sets), _possible(shape, axes))
        for (shape, relation, right), sets in families.items()
    ]
    names = axes.variable_names()
    found.sort(key=lambda sentence: (-sentence.rows, sentence.text))
    return found + [Sentence(row.text(names), 1, 1, is_explained=False) for row in plain]


MOST_REAL = 5
"""Rows in real numbers that are written out: they are long, and say little to a reader."""


def explain(distilled: Distilled, axes: Axes | None = None, names: Sequence[str] | None = None) -> list[str]:
    """Lines to print: sentences where there are axes, else rows, then what was dropped or could not be explained."""
    if axes is not None and names is not None:
        raise InputError("axes and names must not both be given: axes name the variables")
    real = distilled.num_unexplained
    if axes is not None:
        said = sentences(distilled, axes)
        lines = [str(sentence) for sentence in said]
        explained = [sentence for sentence in said if sentence.is_explained]
        left = len(said) - len(explained)
        covered = sum(sentence.rows for sentence in explained)
        summary = f"{_count(covered, 'row')} in {_count(len(explained), 'sentence')}, {_count(left, 'row')} unexplained"
    else:
        texts = variable_names(names, distilled.equalities.a.shape[-1])
        lines = [row.text(texts) for block in distilled.blocks() for row in rows_of(block)]
        summary = f"{_count(distilled.num_rules, 'rule')} in integers, {_count(real, 'row')} unexplained"
    if real > MOST_REAL:  # those in real numbers come last
        lines[len(lines) - real + MOST_REAL :] = [f"... and {_count(real - MOST_REAL, 'row')} more in real numbers"]
    lines.append(summary)
    if count := distilled.dropped_equalities:
        lines.append(f"{_count(count, 'learnt row')} dropped: contradicted by the solutions")
    if count := distilled.dropped_inequalities:
        lines.append(f"{_count(count, 'learnt row')} dropped: bounding nothing, or implied by the rest")
    if distilled.lost_negatives:
        lines.append(f"{_count(distilled.lost_negatives, 'negative')} no longer separated")
    return lines


def _shape(row: Row, axes: Axes) -> tuple[int, ...] | None:
    """How many places the set takes along each axis, if it is a family's; None otherwise."""
    if set(row.coefficients) != {1.0} or len(row.variables) < 2 or row.right != round(row.right):
        return None
    if row.right < 0 or (row.right == 0 and row.relation == ">="):
        return None
    places = list(zip(*map(axes.place, row.variables), strict=True))
    shape = []
    for at, size in zip(places, axes.sizes, strict=True):
        first, length = min(at), max(at) - min(at) + 1
        if first % length or size % length:
            return None
        shape.append(length)
    return tuple(shape) if math.prod(shape) == len(row.variables) else None


def _possible(shape: tuple[int, ...], axes: Axes) -> int:
    return math.prod(size // length for size, length in zip(axes.sizes, shape, strict=True))


def _sentence(shape: tuple[int, ...], relation: str, right: float, axes: Axes) -> str:
    along = list(zip(axes.names, axes.sizes, shape, strict=True))
    single = [name for name, size, length in along if length == 1 and size > 1]
    blocks = [_count(length, name) for name, size, length in along if 1 < length < size]
    counted = [name for name, _, length in along if length > 1]
    if len(counted) == 1:
        what = counted[0]
    elif len(blocks) == len(counted):
        what = "cell"
    else:
        what = f"combination of {_and(counted)}"
    if right > 1:
        head, _, tail = what.partition(" ")
        what = f"{_plural(head)} {tail}".rstrip()
    count = f"{QUANTIFIERS[relation]} {_number(int(right))}" if right else "no"
    scopes = []
    if blocks:
        scopes.append(f"every {'block' if len(blocks) == 1 else 'box'} of {' by '.join(blocks)}")
    if single:
        scopes.append(f"every {_and(single)}")
    return f"for {' and '.join(scopes)}, {count} {what}" if scopes else f"{count} {what}"


def _number(count: int) -> str:
    return NUMBERS[count] if count < len(NUMBERS) else str(count)


def _count(count: int, name: str) -> str:
    return f"{count} {name if count == 1 else _plural(name)}"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _plural(name: str) -> str:
    if name.endswith(("s", "x", "ch", "sh")):
        return f"{name}es"
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return f"{name[:-1]}ies"
    return f"{name}s"
