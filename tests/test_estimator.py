"""ProgramLearner: what it learns, what it says of itself, scikit-learn's manners, files, and bad input."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from neuralilp import (
    Bounds,
    ConstraintBlock,
    FileFormatError,
    InputError,
    IntegerProgram,
    ProgramLearner,
    read_program,
    solve,
)
from neuralilp.estimator import NoCostsWarning
from neuralilp.tables import Table

CAPACITIES = -torch.tensor([[5, 5, 4, 1, 4, 5], [3, 4, 3, 4, 2, 2], [2, 5, 4, 2, 2, 4]]).double()
STOCK = torch.tensor([34.0, 33, 26]).double()
NAMES = ["bread", "cake", "pie", "roll", "scone", "tart"]
RULE = "5 bread + 5 cake + 4 pie + roll + 4 scone + 5 tart <= 34"


def product_mix(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Costs, minus the prices, and the best plans under three capacities."""
    cost = -1 - 9 * torch.rand(count, 6, generator=torch.Generator().manual_seed(seed)).double()
    bounds = Bounds(torch.zeros(6).double(), torch.full((6,), 10.0).double())
    answer = solve(IntegerProgram(cost, bounds, (ConstraintBlock(CAPACITIES, STOCK),)))
    return cost.numpy(), answer.z.numpy()


@pytest.fixture(scope="module")
def mix() -> tuple[np.ndarray, np.ndarray]:
    return product_mix(260)


@pytest.fixture(scope="module")
def learnt(mix: tuple[np.ndarray, np.ndarray]) -> ProgramLearner:
    costs, plans = mix
    return ProgramLearner(bounds=(0, 10)).fit(
        pandas.DataFrame(costs[:200], columns=NAMES), pandas.DataFrame(plans[:200], columns=NAMES)
    )


def test_capacities_from_plans_and_prices(learnt: ProgramLearner, mix: tuple[np.ndarray, np.ndarray]) -> None:
    assert RULE in learnt.rules_
    assert learnt.score(mix[0][200:], mix[1][200:]) >= 0.95
    report = learnt.report_
    assert report.held_out["examples"] == 40
    assert report.held_out["accuracy"] >= 0.9
    assert not report.contradictions
    assert all(0 <= rule.tight <= 1 and rule.evidence > 5 for rule in report.rules)
    assert "held out, 40 examples" in learnt.explain()


def test_predict_gives_what_it_was_given(learnt: ProgramLearner, mix: tuple[np.ndarray, np.ndarray]) -> None:
    costs = mix[0][200:210]
    frame = pandas.DataFrame(costs, columns=NAMES, index=range(7, 17))[NAMES[::-1]]  # columns are found by name
    answer = learnt.predict(frame)
    assert list(answer.columns) == NAMES
    assert list(answer.index) == list(range(7, 17))
    assert np.array_equal(answer.to_numpy(), learnt.predict(costs))
    assert np.array_equal(learnt.predict(torch.from_numpy(costs)), learnt.predict(costs))
    assert np.array_equal(learnt.costs(frame), costs)


def test_tables_and_lists_are_taken_and_columns_found_by_name(
    learnt: ProgramLearner, mix: tuple[np.ndarray, np.ndarray]
) -> None:
    costs, plans = (array[200:210] for array in mix)
    table = Table(tuple(NAMES[::-1]), costs[:, ::-1])
    expected = learnt.predict(costs)
    assert np.array_equal(learnt.predict(table), expected)
    assert np.array_equal(learnt.predict(costs.tolist()), expected)
    backwards = pandas.DataFrame(plans, columns=NAMES)[NAMES[::-1]]
    assert learnt.score(costs, backwards) == learnt.score(costs, plans) > 0.5


def test_there_and_back(learnt: ProgramLearner, mix: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    folder = learnt.save(tmp_path / "model")
    with pytest.raises(InputError, match="exists already"):
        learnt.save(folder)
    learnt.save(folder, overwrite=True)
    again = ProgramLearner.load(folder)
    assert again.explain() == learnt.explain()
    assert again.report_ == learnt.report_
    assert np.array_equal(again.predict(mix[0][:20]), learnt.predict(mix[0][:20]))
    program, names = read_program(learnt.export(tmp_path / "model.lp", costs=mix[0][0]))
    assert set(names.variables) == set(NAMES)
    assert solve(program).objective.item() == pytest.approx(float(mix[0][0] @ mix[1][0]))
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match="holds no learner and is not replaced"):
        learnt.save(tmp_path / "other", overwrite=True)


@pytest.mark.parametrize("damage", ["missing", "truncated", "version"])
def test_damaged_folders(learnt: ProgramLearner, tmp_path: Path, damage: str) -> None:
    folder = learnt.save(tmp_path / "model")
    path = folder / "learner.json"
    if damage == "missing":
        path.unlink()
    elif damage == "truncated":
        path.write_text(path.read_text()[:50])
    else:
        path.write_text(path.read_text().replace('"version": 1', '"version": 9'))
    with pytest.raises(FileFormatError, match=r"learner\.json"):
        ProgramLearner.load(folder)


def test_scikit_learns_manners(mix: tuple[np.ndarray, np.ndarray]) -> None:
    learner = ProgramLearner(rows=4, seed=3)
    assert clone(learner).get_params() == learner.get_params()
    search = GridSearchCV(ProgramLearner(bounds=(0, 10), held_out=0.0), {"rows": [0, 4]}, cv=2, refit=False)
    search.fit(mix[0][:80], mix[1][:80])
    assert search.best_params_ == {"rows": 4}


def roster(count: int) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """Three people, three days, two shifts: one person a shift, one shift a day for each, no early after a night."""
    names = [f"{who}_{day}_{shift}" for who in "abc" for day in ("mon", "tue", "wed") for shift in ("early", "night")]
    rules = []
    for day, shift in itertools.product(("mon", "tue", "wed"), ("early", "night")):
        rules.append(({f"{who}_{day}_{shift}": 1 for who in "abc"}, -1))
        rules.append(({f"{who}_{day}_{shift}": -1 for who in "abc"}, 1))
    for who in "abc":
        rules += [({f"{who}_{day}_early": -1, f"{who}_{day}_night": -1}, 1) for day in ("mon", "tue", "wed")]
        rules += [
            ({f"{who}_{day}_night": -1, f"{who}_{after}_early": -1}, 1)
            for day, after in (("mon", "tue"), ("tue", "wed"))
        ]
    a = torch.zeros(len(rules), 18).double()
    for row, (terms, _) in zip(a, rules, strict=True):
        for name, value in terms.items():
            row[names.index(name)] = value
    cost = torch.randn(count, 18, generator=torch.Generator().manual_seed(0)).double()
    bounds = Bounds(torch.zeros(18).double(), torch.ones(18).double())
    block = ConstraintBlock(a, torch.tensor([float(b) for _, b in rules]).double())
    z = solve(IntegerProgram(cost, bounds, (block,))).z
    return pandas.DataFrame(cost.numpy(), columns=names), pandas.DataFrame(z.numpy(), columns=names)


RULES = [
    "for every day and shift, exactly one person (6 rows)",
    "for every person and day, at most one shift (9 rows)",
    "for every person and day, not both night and early, one day later (6 rows)",
]


def test_rosters_with_costs_and_without() -> None:
    costs, rosters = roster(260)
    learner = ProgramLearner(axes=("person", "day", "shift")).fit(costs[:200], rosters[:200])
    assert sorted(learner.rules_[:-1]) == RULES
    assert learner.score(costs[200:], rosters[200:]) == 1
    with pytest.warns(NoCostsWarning, match="nothing proves the rest infeasible"):
        learner = ProgramLearner(axes=("person", "day", "shift")).fit(None, rosters[:200])
    assert sorted(learner.rules_[:-1]) == RULES
    assert learner.score(None, rosters[200:]) == 1


def test_wrong_decisions_are_listed_and_do_little() -> None:
    """Every twentieth roster is another one's: feasible, but not the cheapest."""
    costs, rosters = roster(260)
    wrong = rosters.copy()
    wrong.iloc[0:200:20] = rosters.iloc[5:200:20].to_numpy()
    learner = ProgramLearner(axes=("person", "day", "shift")).fit(costs[:200], wrong[:200])
    assert learner.score(costs[200:], rosters[200:]) >= 0.95
    listed = {each.row for each in learner.report_.contradictions}
    assert listed == {row for row in range(0, 200, 20) if not wrong.iloc[row].equals(rosters.iloc[row])}


def test_costs_from_features() -> None:
    """Costs are linear in three numbers; the cheapest two of five things are taken."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(500, 3, generator=generator)
    cost = x @ torch.randn(3, 5, generator=generator)
    y = torch.zeros(500, 5).scatter_(1, cost.argsort(-1)[:, :2], 1)
    learner = ProgramLearner().fit(x[:400].numpy(), y[:400].numpy())
    assert learner.kind_ == "features"
    assert "z0 + z1 + z2 + z3 + z4 = 2" in learner.rules_
    assert learner.score(x[400:].numpy(), y[400:].numpy()) >= 0.9


def test_costs_from_features_by_a_network_of_ones_own(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 3, generator=generator)
    y = torch.zeros(300, 4).scatter_(1, x.abs().argsort(-1)[:, :1], 1)
    network = torch.nn.Sequential(torch.nn.Linear(3, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    learner = ProgramLearner(cost_network=network, inputs="features").fit(x.numpy(), y.numpy())
    assert learner.score(x.numpy(), y.numpy()) >= 0.8
    folder = learner.save(tmp_path / "model")
    with pytest.raises(InputError, match="cost_network must be given"):
        ProgramLearner.load(folder)
    again = ProgramLearner.load(folder, cost_network=network)
    assert np.array_equal(again.predict(x[:9].numpy()), learner.predict(x[:9].numpy()))


def test_known_constraints_are_taken_for_granted(learnt: ProgramLearner, tmp_path: Path) -> None:
    costs, plans = product_mix(120, seed=1)
    frame = pandas.DataFrame(plans, columns=NAMES)
    path = tmp_path / "known.lp"
    path.write_text(f"minimize\n obj: 0 bread\nsubject to\n r: {RULE}\ngeneral\n {' '.join(NAMES)}\nend\n")
    for known in (str(path), (CAPACITIES[:1], STOCK[:1]), ConstraintBlock(CAPACITIES[:1], STOCK[:1])):
        learner = ProgramLearner(bounds=(0, 10), known=known, rows=4, held_out=0.0).fit(costs, frame)
        assert RULE not in learner.rules_
        assert any(5 in block.a.abs() and 34 in block.b for block in learner.program_.blocks)
    wrong = (-torch.eye(6)[:1], torch.zeros(1))
    with pytest.raises(InputError, match="known must hold on all solutions"):
        ProgramLearner(known=wrong).fit(costs, frame)
    path.write_text(path.read_text().replace("bread", "butter"))
    with pytest.raises(InputError, match="has a variable 'butter', which is no column"):
        ProgramLearner(known=str(path)).fit(costs, frame)


@pytest.mark.parametrize(
    ("x", "y", "options", "message"),
    [
        ([[1.0, 2.0]], [[0.5, 1.0]], {}, r"solutions must be integers: row 0, column 0 is 0.5"),
        ([[1.0, 2.0]], [[np.nan, 1.0]], {}, r"solutions must be finite: row 0, column 0 is nan"),
        ([[1.0, 2.0]], [["a", 1.0]], {}, r"solutions must be numbers: row 0, column 0 is 'a'"),
        ([[1.0, 2.0]], [], {}, r"solutions must be `example column`"),
        ([[1.0, np.inf]], [[0, 1]], {}, r"costs must be finite: row 0, column 1 is inf"),
        ([[1.0, 2.0]] * 2, [[0, 1]], {}, r"costs and solutions must have as many rows, got 2 and 1"),
        (
            [[1.0, 2.0, 3.0]],
            [[0, 1]],
            {"inputs": "costs"},
            r"costs must have a column for each of the 2 ",
        ),
        ([[1.0, 2.0]], [[0, 1]], {"inputs": "prices"}, r"inputs must be auto, costs or features, got 'prices'"),
        ([[1.0, 2.0]], [[0, 1]], {"held_out": 1.0}, r"held_out must be at least 0 and below 1, got 1.0"),
        ([[1.0, 2.0]], [[0, 3]], {"bounds": (0, 1)}, r"bounds must hold on all solutions: row 0, column 'z1' is 3"),
        ([[1.0, 2.0]], [[0, 3]], {"bounds": 3}, r"bounds must be a pair \(lower, upper\)"),
        ([[1.0, 2.0]], [[0, 3]], {"known": 3}, r"known must be a file, a program, blocks or a pair"),
        ([[1.0, 2.0]], [[0, 3]], {"axes": ("a", "b")}, r"axes must be one for each part of 'z0'"),
    ],
)
def test_bad_input(x: Any, y: Any, options: dict[str, Any], message: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match=message):
            ProgramLearner(**options).fit(x, y)


def test_new_costs_must_fit(learnt: ProgramLearner) -> None:
    with pytest.raises(InputError, match="costs must have a column for each of the 6 variables, got 3"):
        learnt.predict(np.zeros((2, 3)))
    with pytest.raises(InputError, match="'tart' is missing"):
        learnt.predict(pandas.DataFrame(np.zeros((1, 6)), columns=[*NAMES[:5], "tarts"]))
