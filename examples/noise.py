"""How wrong may a table be? The other two examples again, with wrong decisions among the right ones.

Half of the wrong ones have three entries changed at random, which mostly breaks a rule; the other half are decisions of
another day, which keep the rules and are not the best. Figures are for new days, without any noise.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import assignment
import numpy as np
import product_mix
from matplotlib.figure import Figure

import neuralilp as ni
from neuralilp.distill import Axes, implied_rows
from neuralilp.plotting import save_figure

SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4)
NEW = 100


def spoiled(decisions: np.ndarray, share: float, seed: int = 0) -> np.ndarray:
    """A copy with a share of wrong decisions."""
    rng = np.random.default_rng(seed)
    least, most = decisions.min(0), decisions.max(0)
    wrong = decisions.copy()
    for place, day in enumerate(rng.permutation(len(decisions))[: round(share * len(decisions))]):
        if place % 2:
            wrong[day] = decisions[rng.integers(len(decisions))]
            continue
        for column in rng.choice(decisions.shape[1], 3, replace=False):
            others = np.setdiff1d(np.arange(least[column], most[column] + 1), decisions[day, column])
            wrong[day, column] = rng.choice(others) if len(others) else decisions[day, column] + 1
    return wrong


def recovered(
    costs: np.ndarray, decisions: np.ndarray, share: float, truth: ni.ConstraintBlock, **options: object
) -> tuple[float, float]:
    """The share of new days that are right, and that of hidden rules that the learnt ones imply."""
    learner = ni.ProgramLearner(workers=-1, **options).fit(costs[:-NEW], spoiled(decisions[:-NEW], share))
    implied = implied_rows(learner.program_, truth).double().mean().item()
    return learner.score(costs[-NEW:], decisions[-NEW:]), implied


def main(out: Path | None = None, shares: tuple[float, ...] = SHARES) -> dict[str, list[tuple[float, float]]]:
    axes = Axes.of_names(assignment.NAMES, ("worker", "job"))
    tables = {
        "assignment": (*assignment.past_assignments(600 + NEW), assignment.hidden_block(), {"axes": axes}),
        "product mix": (*product_mix.past_plans(300 + NEW), product_mix.hidden_block(), {"bounds": (0, 20)}),
    }
    found: dict[str, list[tuple[float, float]]] = {}
    for name, (costs, decisions, truth, options) in tables.items():
        found[name] = [recovered(costs, decisions, share, truth, **options) for share in shares]
        for share, (right, implied) in zip(shares, found[name], strict=True):
            print(f"{name}, {share:.0%} wrong: {right:.0%} of new decisions right, {implied:.0%} of the rules implied")
    if out is not None:
        figure = Figure(figsize=(6, 3.5), layout="constrained")
        plot = figure.subplots()
        for name, figures in found.items():
            plot.plot([100 * share for share in shares], [100 * right for right, _ in figures], marker="o", label=name)
        plot.set_xlabel("wrong decisions in the table (%)")
        plot.set_ylabel("new decisions right (%)")
        plot.set_ylim(0, 102)
        plot.legend()
        save_figure(figure, out)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="where to draw the curve")
    main(**vars(parser.parse_args()))
