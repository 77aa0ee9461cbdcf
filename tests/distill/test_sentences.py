"""Rules as sentences over named axes, and as plain rows."""

from __future__ import annotations

import pytest
import torch
from planted import sudoku_rules
from torch import Tensor

from neuralilp.blocks import ConstraintBlock
from neuralilp.distill import Axes, Distilled, explain, sentences
from neuralilp.errors import InputError, ShapeError

SUDOKU = Axes(("row", "column", "digit"), (6, 6, 6))


def rules(
    n: int,
    equalities: tuple[Tensor, Tensor] | None = None,
    inequalities: tuple[Tensor, Tensor] | None = None,
    real: tuple[Tensor, Tensor] | None = None,
) -> Distilled:
    """Distilled of rows a, b as they are."""
    nothing = (torch.zeros(0, n), torch.zeros(0))
    zero = torch.zeros(0 if equalities is None else len(equalities[1]))
    return Distilled(
        equalities=ConstraintBlock(*(equalities or nothing), zero),
        inequalities=ConstraintBlock(*(inequalities or nothing)),
        unexplained_equalities=ConstraintBlock(*nothing, torch.zeros(0)),
        unexplained_inequalities=ConstraintBlock(*(real or nothing)),
        rank=0,
        dropped_equalities=0,
        dropped_inequalities=0,
        lost_negatives=0,
        is_exact=True,
    )


def sets(n: int, *members: list[int]) -> Tensor:
    a = torch.zeros(len(members), n)
    for row, member in zip(a, members, strict=True):
        row[member] = 1
    return a


def test_sudoku_in_four_sentences() -> None:
    a = sudoku_rules(2, 3).float()
    assert explain(rules(216, (a, -torch.ones(144))), SUDOKU) == [
        "for every box of 2 rows by 3 columns and every digit, exactly one cell (36 rows)",
        "for every column and digit, exactly one row (36 rows)",
        "for every row and column, exactly one digit (36 rows)",
        "for every row and digit, exactly one column (36 rows)",
        "144 rows in 4 sentences, 0 rows unexplained",
    ]


def test_a_family_that_is_not_complete_says_so() -> None:
    a = sudoku_rules(2, 3).float()[:35]
    (sentence,) = sentences(rules(216, (a, -torch.ones(35))), SUDOKU)
    assert str(sentence) == "for every row and column, exactly one digit (only 35 of 36 such rows)"
    assert (sentence.rows, sentence.possible, sentence.is_explained) == (35, 36, True)


SHIFTS = Axes(("worker", "day", "shift"), (2, 14, 3))


def shift(worker: int, day: int, shift: int) -> int:
    return (worker * 14 + day) * 3 + shift


def test_at_most_and_at_least_over_blocks_and_combinations() -> None:
    """Workers, 14 days, 3 shifts: one shift a day, five days of nights a week, ten shifts in all; two at work."""
    daily = [[shift(w, d, s) for s in range(3)] for w in range(2) for d in range(14)]
    weekly = [[shift(w, d, 2) for d in range(7 * k, 7 * k + 7)] for w in range(2) for k in range(2)]
    whole = [[shift(w, d, s) for d in range(14) for s in range(3)] for w in range(2)]
    present = [[shift(w, d, s) for w in range(2) for s in range(3)] for d in range(14)]
    never = [[shift(0, d, 1) for d in range(14)]]
    a = torch.cat([-sets(84, *daily, *weekly, *whole), sets(84, *present), -sets(84, *never)])
    b = torch.cat(
        [torch.ones(28), torch.full((4,), 5.0), torch.full((2,), 10.0), torch.full((14,), -1.0), torch.zeros(1)]
    )
    assert explain(rules(84, inequalities=(a, b)), SHIFTS) == [
        "for every worker and day, at most one shift (28 rows)",
        "for every day, at least one combination of worker and shift (14 rows)",
        "for every block of 7 days and every worker and shift 3, at most five days (4 rows)",
        "for every worker, at most ten combinations of day and shift (2 rows)",
        "for every worker and shift, no day (only 1 of 6 such rows)",
        "49 rows in 5 sentences, 0 rows unexplained",
    ]


def test_rows_that_no_sentence_covers_are_printed_with_places() -> None:
    """Two cells that are no line, days 5 to 9 that tile nothing, and a row with other coefficients."""
    a = torch.zeros(3, 84)
    a[0, shift(0, 0, 0)] = a[0, shift(1, 1, 0)] = 1
    a[1, [shift(0, d, 0) for d in range(4, 9)]] = -1
    a[2, shift(0, 0, 0)], a[2, shift(0, 1, 2)] = -2, 1
    real = torch.zeros(1, 84)
    real[0, 1], real[0, 5] = -0.25, -0.5
    result = rules(84, inequalities=(a, torch.tensor([-1.0, 4.0, 3.0])), real=(real, torch.tensor([0.125])))
    assert explain(result, SHIFTS) == [
        "z[worker 1, day 1, shift 1] + z[worker 2, day 2, shift 1] >= 1",
        " + ".join(f"z[worker 1, day {d}, shift 1]" for d in range(5, 10)) + " <= 4",
        "2 z[worker 1, day 1, shift 1] - z[worker 1, day 2, shift 3] <= 3",
        "0.25 z[worker 1, day 1, shift 2] + 0.5 z[worker 1, day 2, shift 3] <= 0.125",
        "0 rows in 0 sentences, 4 rows unexplained",
    ]
    assert [sentence.is_explained for sentence in sentences(result, SHIFTS)] == [False] * 4


def test_plain_rows_with_names() -> None:
    a = torch.tensor([[1.0, 1, 0, 1], [0, -1, 1, 0]])
    b = torch.tensor([-1.0, 0])
    knapsack = (torch.tensor([[-2.0, 0, 0, 1]]), torch.tensor([3.0]))
    result = rules(4, (a, b), knapsack)
    assert explain(result) == [
        "z0 + z1 + z3 = 1",
        "z1 - z2 = 0",
        "2 z0 - z3 <= 3",
        "3 rules in integers, 0 rows unexplained",
    ]
    assert explain(result, names=["tea", "milk", "jug", "cup"])[:2] == ["tea + milk + cup = 1", "milk - jug = 0"]


def test_long_real_rows_are_shortened() -> None:
    a = torch.linspace(0.1, 0.9, 30).unsqueeze(0)
    text = explain(rules(30, real=(a, torch.tensor([-1.0]))))[0]
    assert text.endswith("+ 0.9 z29 + ... (10 more terms) >= 1")
    assert "z9 " not in text


def test_of_many_real_rows_a_few_are_written() -> None:
    """All integer rules are; the rows in real numbers come last, and five of them are."""
    many = (torch.eye(9) * 0.5 + 0.125, torch.ones(9))
    integer = (torch.tensor([[1.0, 2, 0, 0, 0, 0, 0, 0, 0]]).expand(7, 9), torch.arange(7.0))
    lines = explain(rules(9, inequalities=integer, real=many))
    assert [line for line in lines if line.startswith("z0 + 2 z1 >=")] == lines[:7]
    assert lines[12:] == ["... and 4 rows more in real numbers", "7 rules in integers, 9 rows unexplained"]
    lines = explain(rules(9, inequalities=integer, real=many), Axes(("row", "column"), (3, 3)))
    assert lines[12:] == ["... and 4 rows more in real numbers", "0 rows in 0 sentences, 16 rows unexplained"]


def test_counts_of_what_was_dropped_are_said() -> None:
    lines = explain(
        Distilled(
            *(rules(2).equalities, rules(2).inequalities, rules(2).unexplained_equalities),
            rules(2).unexplained_inequalities,
            rank=0,
            dropped_equalities=1,
            dropped_inequalities=3,
            lost_negatives=2,
            is_exact=False,
        )
    )
    assert lines == [
        "0 rules in integers, 0 rows unexplained",
        "1 learnt row dropped: contradicted by the solutions",
        "3 learnt rows dropped: bounding nothing, or implied by the rest",
        "2 negatives no longer separated",
    ]


@pytest.mark.parametrize(
    ("names", "sizes", "message"),
    [
        ((), (), "as many, and not none"),
        (("row",), (2, 3), "as many, and not none"),
        (("row", "row"), (2, 3), "names must differ"),
        (("row", "column"), (2, 0), r"sizes must be positive, got \(2, 0\)"),
    ],
)
def test_bad_axes(names: tuple[str, ...], sizes: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Axes(names, sizes)


def test_axes_and_names_must_fit() -> None:
    with pytest.raises(ShapeError, match=r"axes must have the 4 variables of distilled, got sizes \(3,\)"):
        sentences(rules(4), Axes(("item",), (3,)))
    with pytest.raises(ShapeError, match="names must have one entry for each of the 4 variables, got 1"):
        explain(rules(4), names=["a"])


ROSTER = Axes.of_names(
    [
        f"{nurse}_{day}_{shift}"
        for nurse in ("anna", "ben")
        for day in ("mon", "tue", "wed")
        for shift in ("early", "night")
    ],
    ("nurse", "day", "shift"),
)


def pairs(*places: tuple[str, str]) -> torch.Tensor:
    """Rows -z_i - z_j for pairs of names such as ``anna_mon_night``."""
    names = [name.removeprefix("z[").removesuffix("]").replace(", ", "_") for name in ROSTER.variable_names()]
    rows = torch.zeros(len(places), 12)
    for row, pair in zip(rows, places, strict=True):
        row[[names.index(name) for name in pair]] = -1
    return rows


def test_rows_that_differ_in_where_they_begin() -> None:
    every = [
        (f"{nurse}_{day}_night", f"{nurse}_{after}_early")
        for nurse in ("anna", "ben")
        for day, after in (("mon", "tue"), ("tue", "wed"))
    ]
    lines = explain(rules(12, inequalities=(pairs(*every), torch.ones(4))), ROSTER)
    assert lines[0] == "for every nurse and day, not both night and early, one day later (4 rows)"
    assert lines[1] == "4 rows in 1 sentence, 0 rows unexplained"
    lines = explain(rules(12, inequalities=(pairs(*every[:3]), torch.ones(3))), ROSTER)
    assert lines[0] == "for every nurse and day, not both night and early, one day later (only 3 of 4 such rows)"
    one = explain(rules(12, inequalities=(pairs(every[0]), torch.ones(1))), ROSTER, [f"v{i}" for i in range(12)])
    assert one[0] == "v1 + v2 <= 1"


@pytest.mark.parametrize(
    ("names", "axes", "message"),
    [
        (["a_1", "a_2_3"], ("x", "y"), "axes must be one for each part of 'a_2_3', which has 3"),
        (["a_1", "a_2", "b_1"], ("x", "y"), "expected b_2, got no more"),
        (["a_1", "b_1", "a_2", "b_2"], ("x", "y"), "expected a_2, got b_1"),
        (["a_1", "a_1"], ("x", "y"), "expected no more, got a_1"),
    ],
)
def test_names_that_give_no_axes(names: list[str], axes: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Axes.of_names(names, axes)


def test_an_axis_at_one_place_is_told_by_its_label() -> None:
    """Each nurse has at most two nights; of other shifts nothing is said."""
    names = [name.removeprefix("z[").removesuffix("]") for name in ROSTER.variable_names()]
    rows = torch.zeros(2, 12)
    for row, nurse in zip(rows, ("anna", "ben"), strict=True):
        row[[names.index(f"{nurse}, {day}, night") for day in ("mon", "tue", "wed")]] = -1
    lines = explain(rules(12, inequalities=(rows, torch.full((2,), 2.0))), ROSTER)
    assert lines[0] == "for every nurse and night, at most two days (2 rows)"
