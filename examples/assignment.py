"""Assignment: who may not do what, and who may not work side by side.

Six workers, six jobs, one each, for the least cost. Some workers are not trained for some jobs, and some pairs must not
have jobs in the same hall. Nobody wrote that down; from past assignments and their costs it is learnt.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
import pandas
import torch

import neuralilp as ni
from neuralilp.distill import implied_rows

WORKERS = ("ann", "bob", "cat", "dan", "eve", "fay")
JOBS = ("cut", "drill", "glue", "mill", "paint", "weld")
HALL = {"cut": 1, "drill": 1, "glue": 2, "mill": 1, "paint": 2, "weld": 2}
UNTRAINED = (("ann", "weld"), ("bob", "paint"), ("dan", "mill"), ("fay", "cut"))
APART = (("ann", "bob"), ("cat", "eve"))
NAMES = [f"{worker}_{job}" for worker in WORKERS for job in JOBS]


def hidden_block() -> ni.ConstraintBlock:
    """One job a worker, one worker a job, what was not trained for, and pairs that are kept apart."""
    rules: list[tuple[dict[str, float], float]] = []
    for sign in (1.0, -1.0):
        rules += [({f"{worker}_{job}": sign for job in JOBS}, -sign) for worker in WORKERS]
        rules += [({f"{worker}_{job}": sign for worker in WORKERS}, -sign) for job in JOBS]
    rules += [({f"{worker}_{job}": -1.0}, 0.0) for worker, job in UNTRAINED]
    for (one, other), (job, next_to) in itertools.product(APART, itertools.permutations(JOBS, 2)):
        if HALL[job] == HALL[next_to]:
            rules.append(({f"{one}_{job}": -1.0, f"{other}_{next_to}": -1.0}, 1.0))
    a = torch.zeros(len(rules), len(NAMES), dtype=torch.float64)
    for row, (terms, _) in zip(a, rules, strict=True):
        for name, coefficient in terms.items():
            row[NAMES.index(name)] = coefficient
    return ni.ConstraintBlock(a, torch.tensor([b for _, b in rules], dtype=torch.float64))


def past_assignments(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    cost = torch.from_numpy(np.random.default_rng(seed).uniform(1.0, 10.0, (count, len(NAMES))).round(2))
    n = len(NAMES)
    bounds = ni.Bounds(torch.zeros(n, dtype=torch.float64), torch.ones(n, dtype=torch.float64))
    answer = ni.solve(ni.IntegerProgram(cost, bounds, (hidden_block(),)), workers=-1)
    return cost.numpy(), answer.z.numpy()


def main(days: int = 600, seed: int = 0) -> ni.ProgramLearner:
    costs, assignments = (pandas.DataFrame(table, columns=NAMES) for table in past_assignments(days + 100, seed))
    learner = ni.ProgramLearner(axes=("worker", "job"), workers=-1).fit(costs[:days], assignments[:days])
    print(learner.explain())
    implied = implied_rows(learner.program_, hidden_block())
    print(f"\nnot trained: {', '.join(f'{worker} for {job}' for worker, job in UNTRAINED)}")
    print(f"never in one hall: {', '.join(f'{one} and {other}' for one, other in APART)}")
    print(f"hidden rules that the learnt ones imply: {int(implied.sum())} of {len(implied)}")
    print(f"new assignments that are the firm's own: {learner.score(costs[days:], assignments[days:]):.1%}")
    return learner


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
