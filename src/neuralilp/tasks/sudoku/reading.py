"""Learning to read visual boards by rules that are known already, without a solver.

What the images show is not told apart, but the solutions hold the digit of every cell, of the given ones too.
"""

from __future__ import annotations

import torch

from neuralilp.annealing import MilestoneTemperature
from neuralilp.tasks.rules import RuleStep
from neuralilp.tasks.runs import Recipe
from neuralilp.tasks.sudoku.job import Examples, on_boards
from neuralilp.tasks.sudoku.visual import BLANK
from neuralilp.training import Schedule

IMAGES, FEWEST, MOST = 2_600_000, 8, 20
BATCH, PEAK = 20, 2e-3


def reading_epochs(examples: Examples) -> int:
    """As many as show a network ``IMAGES``, each a little different every time, between ``FEWEST`` and ``MOST``."""
    return min(max(round(IMAGES / int((examples.x != BLANK).sum())), FEWEST), MOST)


def reading_recipe(step: RuleStep, examples: Examples, *, monitor: str) -> Recipe:
    """One cycle of the learning rate."""
    epochs = reading_epochs(examples)
    steps = epochs * -(-len(examples) // BATCH)
    return Recipe(
        step=on_boards(step, examples),
        optimiser=lambda module: torch.optim.Adam(module.parameters(), lr=PEAK),
        scheduler=lambda optimiser: torch.optim.lr_scheduler.OneCycleLR(optimiser, PEAK, total_steps=steps + 1),
        temperature=MilestoneTemperature(1.0, factor=0.5, epochs=()),
        schedule=Schedule(epochs=epochs, batch_size=BATCH, validate_every=max(1, epochs // 8), keep_later=True),
        monitor=monitor,
        facts={"peak": PEAK},
    )
