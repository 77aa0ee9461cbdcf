"""Learning to read visual boards by rules that are known already: no solver, and no labels of the digits."""

from __future__ import annotations

import torch

from neuralilp.annealing import MilestoneTemperature
from neuralilp.tasks.rules import RuleStep
from neuralilp.tasks.runs import Recipe
from neuralilp.tasks.sudoku.job import Examples, on_boards
from neuralilp.training import Schedule

EPOCHS, BATCH, PEAK = 4, 20, 2e-3


def reading_recipe(step: RuleStep, examples: Examples, *, monitor: str) -> Recipe:
    """A few epochs, in one cycle of the learning rate."""
    steps = EPOCHS * -(-len(examples) // BATCH)
    return Recipe(
        step=on_boards(step, examples),
        optimiser=lambda module: torch.optim.Adam(module.parameters(), lr=PEAK),
        scheduler=lambda optimiser: torch.optim.lr_scheduler.OneCycleLR(optimiser, PEAK, total_steps=steps + 1),
        temperature=MilestoneTemperature(1.0, factor=0.5, epochs=()),
        schedule=Schedule(epochs=EPOCHS, batch_size=BATCH),
        monitor=monitor,
    )
