"""Rostering: the rules behind past rosters.

Five nurses, a week, three shifts a day. A planner has filled in the rosters, keeping rules that were never written
down, and as cheaply as these allow by what each nurse would rather not do. Given rosters and costs, the rules are
learnt.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
import pandas
import torch

import neuralilp as ni
from neuralilp.distill import implied_rows

NURSES = ("anna", "ben", "cem", "dora", "eva")
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
SHIFTS = ("early", "late", "night")
COVER = {"early": 1, "late": 1, "night": 1}
MOST_SHIFTS, MOST_NIGHTS = 5, 2
NAMES = [f"{nurse}_{day}_{shift}" for nurse in NURSES for day in DAYS for shift in SHIFTS]


def hidden_rules() -> list[tuple[dict[str, float], float]]:
    """Rows Σ coefficient · variable + b >= 0: cover, one shift a day, rest after nights, limits of a week."""
    rules: list[tuple[dict[str, float], float]] = []
    for day in DAYS:
        for shift in SHIFTS:
            rules.append(({f"{nurse}_{day}_{shift}": 1.0 for nurse in NURSES}, -COVER[shift]))
    for nurse in NURSES:
        for day in DAYS:
            rules.append(({f"{nurse}_{day}_{shift}": -1.0 for shift in SHIFTS}, 1.0))
        for day, after in itertools.pairwise(DAYS):
            rules.append(({f"{nurse}_{day}_night": -1.0, f"{nurse}_{after}_early": -1.0}, 1.0))
        rules.append(({f"{nurse}_{day}_{shift}": -1.0 for day in DAYS for shift in SHIFTS}, MOST_SHIFTS))
        rules.append(({f"{nurse}_{day}_night": -1.0 for day in DAYS}, MOST_NIGHTS))
    return rules


def hidden_block() -> ni.ConstraintBlock:
    rules = hidden_rules()
    a = torch.zeros(len(rules), len(NAMES), dtype=torch.float64)
    for row, (terms, _) in zip(a, rules, strict=True):
        for name, coefficient in terms.items():
            row[NAMES.index(name)] = coefficient
    return ni.ConstraintBlock(a, torch.tensor([float(b) for _, b in rules], dtype=torch.float64))


def past_rosters(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Costs and the cheapest rosters: nurses have days that they dislike; now and then one likes to work."""
    rng = np.random.default_rng(seed)
    mood = rng.normal(0.0, 0.6, (count, len(NURSES), len(DAYS), 1))
    own = rng.normal(0.4, 0.8, (count, len(NURSES), len(DAYS), len(SHIFTS)))
    cost = torch.from_numpy((own + mood).reshape(count, -1))
    n = len(NAMES)
    bounds = ni.Bounds(torch.zeros(n, dtype=torch.float64), torch.ones(n, dtype=torch.float64))
    answer = ni.solve(ni.IntegerProgram(cost, bounds, (hidden_block(),)), workers=-1)
    return cost.numpy(), answer.z.numpy()


def main(rosters: int = 400, seed: int = 0) -> ni.ProgramLearner:
    costs, solutions = past_rosters(rosters + 100, seed)
    learner = ni.ProgramLearner(axes=("nurse", "day", "shift"), workers=-1)
    frame, prices = (pandas.DataFrame(table, columns=NAMES) for table in (solutions, costs))
    learner.fit(prices[:rosters], frame[:rosters])
    print(learner.explain())
    implied = implied_rows(learner.program_, hidden_block())
    print(f"\nhidden rules that the learnt ones imply: {int(implied.sum())} of {len(implied)}")
    print(f"new rosters that are the planner's own: {learner.score(prices[rosters:], frame[rosters:]):.1%}")
    return learner


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rosters", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
