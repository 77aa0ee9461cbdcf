"""Product mix: the capacities behind past plans.

A bakery plans each day how much of six things to make, for the most money by the prices of the day. What limits it,
hours of the oven, of two bakers and of a van, is in nobody's table. From plans and prices the limits are learnt.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas
import torch

import neuralilp as ni
from neuralilp.distill import implied_rows
from neuralilp.distill.text import rows_of

NAMES = ["bread", "cake", "pie", "roll", "scone", "tart"]
QUARTERS_OF_AN_HOUR = {
    "oven": ([5, 5, 4, 1, 4, 5], 68),
    "bakers": ([3, 4, 3, 4, 2, 2], 66),
    "van": ([2, 5, 4, 2, 2, 4], 52),
}
MOST = 20
"""Of each thing on a day."""


def hidden_block() -> ni.ConstraintBlock:
    use = torch.tensor([use for use, _ in QUARTERS_OF_AN_HOUR.values()], dtype=torch.float64)
    return ni.ConstraintBlock(-use, torch.tensor([float(room) for _, room in QUARTERS_OF_AN_HOUR.values()]).double())


def past_plans(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Costs, which are prices with a minus, and the best plans."""
    price = np.random.default_rng(seed).uniform(1.0, 10.0, (count, len(NAMES))).round(2)
    bounds = ni.Bounds(torch.zeros(6, dtype=torch.float64), torch.full((6,), float(MOST), dtype=torch.float64))
    answer = ni.solve(ni.IntegerProgram(-torch.from_numpy(price), bounds, (hidden_block(),)), workers=-1)
    return -price, answer.z.numpy()


def main(days: int = 300, seed: int = 0) -> ni.ProgramLearner:
    costs, plans = (pandas.DataFrame(table, columns=NAMES) for table in past_plans(days + 100, seed))
    learner = ni.ProgramLearner(bounds=(0, MOST), workers=-1).fit(costs[:days], plans[:days])
    print(learner.explain())
    print("\nthe hidden truth:")
    for name, row in zip(QUARTERS_OF_AN_HOUR, rows_of(hidden_block()), strict=True):
        print(f"{row.text(NAMES)}  ({name})")
    implied = implied_rows(learner.program_, hidden_block())
    print(f"hidden rules that the learnt ones imply: {int(implied.sum())} of {len(implied)}")
    print(f"new plans that are the bakery's own: {learner.score(costs[days:], plans[days:]):.1%}")
    return learner


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
