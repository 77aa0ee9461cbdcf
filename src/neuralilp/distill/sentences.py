"""Rules as sentences, where variables lie on named axes: "for every row and digit, exactly one column"."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
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
    labels: tuple[tuple[str, ...], ...] | None = None
    """Of the places along each axis; without, they are counted from 1."""

    def __post_init__(self) -> None:
        if not self.names or len(self.names) != len(self.sizes):
            raise InputError(f"names and sizes must be as many, and not none, got {self.names} and {self.sizes}")
        if min(self.sizes) < 1:
            raise InputError(f"sizes must be positive, got {self.sizes}")
        if len(set(self.names)) < len(self.names) or not all(self.names):
            raise InputError(f"names must differ, none of them empty, got {self.names}")
        if self.labels is not None and tuple(map(len, self.labels)) != self.sizes:
            raise InputError(f"labels must be as many as sizes, {self.sizes}, got {tuple(map(len, self.labels))}")

    @classmethod
    def of_names(cls, names: Sequence[str], axes: Sequence[str]) -> Axes:
        """From variables that are named by their places, such as ``anna_mon_night`` for nurse, day and shift.

        Parts are separated by ``_``, ``.``, ``/``, ``:``, ``|`` or blanks. There must be a variable for every
        combination of places, the last part running fastest.
        """
        parts = [re.split(r"[_./:|\s]+", name) for name in names]
        for name, part in zip(names, parts, strict=True):
            if len(part) != len(axes):
                raise InputError(f"axes must be one for each part of {name!r}, which has {len(part)}, got {list(axes)}")
        labels = tuple(tuple(dict.fromkeys(each)) for each in zip(*parts, strict=True))
        for name, part, expected in itertools.zip_longest(names, parts, itertools.product(*labels)):
            if part is None or tuple(part) != expected:
                raise InputError(
                    f"axes need a variable for every combination, the last part running fastest: expected "
                    f"{'_'.join(expected) if expected else 'no more'}, got {name or 'no more'}"
                )
        return cls(tuple(axes), tuple(map(len, labels)), labels)

    def label(self, axis: int, place: int) -> str:
        """``night``, or ``shift 3``."""
        return f"{self.names[axis]} {place + 1}" if self.labels is None else self.labels[axis][place]

    def place(self, variable: int) -> tuple[int, ...]:
        place = []
        for size in reversed(self.sizes):
            variable, at = divmod(variable, size)
            place.append(at)
        return tuple(reversed(place))

    def variable_names(self) -> list[str]:
        """``z[row 1, column 2, digit 3]``, counted from 1, or with the labels."""
        places = map(self.place, range(math.prod(self.sizes)))
        return [f"z[{', '.join(self.label(axis, i) for axis, i in enumerate(place))}]" for place in places]


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


def sentences(distilled: Distilled, axes: Axes, names: Sequence[str] | None = None) -> list[Sentence]:
    """The rules as sentences, largest families first, then rows that no sentence covers, as plain text.

    A family are rows of unit coefficients with one right side over sets of one shape: along each axis a single
    place, the whole axis, or one of the equal contiguous blocks that tile it. Rows over a few variables that are the
    same but for where they begin are a family too: "for every nurse and day, not both night and, one day later, early".
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
    found = [_slice_sentence(*key, sets, axes) for key, sets in families.items()]
    moved, plain = _moved_families(plain, axes)
    found += moved
    names = axes.variable_names() if names is None else names
    found.sort(key=lambda sentence: (-sentence.rows, sentence.text))
    return found + [Sentence(row.text(names), 1, 1, is_explained=False) for row in plain]


MOST_REAL = 5
"""Rows in real numbers that are written out: they are long, and say little to a reader."""


def explain(distilled: Distilled, axes: Axes | None = None, names: Sequence[str] | None = None) -> list[str]:
    """Lines to print: sentences where there are axes, else rows, then what was dropped or could not be explained.

    ``names`` are those of the variables, for rows that no sentence covers.
    """
    real = distilled.num_unexplained
    if names is not None:
        names = variable_names(names, distilled.equalities.a.shape[-1])
    if axes is not None:
        said = sentences(distilled, axes, names)
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


MOST_MOVED = 4
"""Variables of a row that may belong to a family of moved rows."""


def _moved_families(rows: Sequence[Row], axes: Axes) -> tuple[list[Sentence], list[Row]]:
    """Sentences about two or more rows that differ only in where they begin, and the rows that are left."""
    families: dict[tuple[str, float, tuple[tuple[int, ...], ...]], dict[Row, tuple[int, ...]]] = {}
    for row in rows:
        if set(row.coefficients) == {1.0} and 2 <= len(row.variables) <= MOST_MOVED and row.right >= 0:
            places = sorted(map(axes.place, row.variables))
            steps = tuple(tuple(at - first for at, first in zip(place, places[0], strict=True)) for place in places)
            families.setdefault((row.relation, row.right, steps), {})[row] = places[0]
    families = {key: starts for key, starts in families.items() if len(starts) > 1}
    covered = {row for starts in families.values() for row in starts}
    said = [_moved_sentence(*key, list(starts.values()), axes) for key, starts in families.items()]
    return said, [row for row in rows if row not in covered]


def _moved_sentence(
    relation: str, right: float, steps: Sequence[tuple[int, ...]], starts: Sequence[tuple[int, ...]], axes: Axes
) -> Sentence:
    """An axis along which all rows begin at one place is told by its labels, and another by how far places are."""
    possible, scopes, fixed = 1, [], set()
    for axis, (name, size) in enumerate(zip(axes.names, axes.sizes, strict=True)):
        along = [step[axis] for step in steps]
        if len({start[axis] for start in starts}) == 1 and size > 1:
            fixed.add(axis)
        elif size > 1:
            scopes.append(name)
            possible *= size - (max(along) - min(along))
    same = [axis for axis in sorted(fixed) if len({step[axis] for step in steps}) == 1]
    items = [
        ", ".join(
            [axes.label(axis, starts[0][axis] + step[axis]) for axis in sorted(fixed) if axis not in same]
            + [_later(step[axis], axes.names[axis]) for axis in range(len(step)) if axis not in fixed and step[axis]]
        )
        or "one"
        for step in steps
    ]
    if relation == "<=" and right == 1 and len(items) == 2:
        what = f"not both {items[0]} and {items[1]}"
    else:
        what = f"{QUANTIFIERS[relation]} {_number(int(right))} of {'; '.join(items)}"
    scope = [f"every {_and(scopes)}"] if scopes else []
    scope += [axes.label(axis, starts[0][axis]) for axis in same]
    return Sentence(f"for {' and '.join(scope)}, {what}" if scope else what, len(starts), possible)


def _later(step: int, name: str) -> str:
    count = f"{_number(abs(step))} {name if abs(step) == 1 else _plural(name)}"
    return f"{count} {'later' if step > 0 else 'before'}"


def _slice_sentence(
    shape: tuple[int, ...], relation: str, right: float, sets: set[tuple[int, ...]], axes: Axes
) -> Sentence:
    """An axis along which all rows are at one and the same place is told by its label."""
    along = list(zip(axes.names, axes.sizes, shape, strict=True))
    starts = [axes.place(variables[0]) for variables in sets]
    fixed = {
        axis: starts[0][axis]
        for axis, (_, size, length) in enumerate(along)
        if length == 1 and size > 1 and len(sets) > 1 and len({start[axis] for start in starts}) == 1
    }
    possible = math.prod(size // length for axis, (_, size, length) in enumerate(along) if axis not in fixed)
    single = [name for axis, (name, size, length) in enumerate(along) if length == 1 and size > 1 and axis not in fixed]
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
    scopes += [axes.label(axis, place) for axis, place in fixed.items()]
    text = f"for {' and '.join(scopes)}, {count} {what}" if scopes else f"{count} {what}"
    return Sentence(text, len(sets), possible)


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
