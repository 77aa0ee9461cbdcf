"""A small learning problem for the tests of training, also when they start processes of their own."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from neuralilp import (
    Box,
    CoefficientOfVariation,
    FixedWeights,
    ILPLoss,
    KHop,
    KnownCost,
    LearnableConstraints,
    LossStep,
    LossTerms,
    NeuralILP,
    OneHop,
    PlateauTemperature,
    Union,
    solve,
    variable_accuracy,
    vector_accuracy,
)
from neuralilp.cli import tour
from neuralilp.training import Outcome, RunFolder, Schedule, read_curves, train, triangular

LAST_BATCH_IS_SMALLER = Schedule(epochs=4, batch_size=9, patience=10)
LONGER = Schedule(epochs=6, batch_size=9, validate_every=2, checkpoint_every=0.02, restart_on_drop=True, average_over=5)


class NoisyStep(LossStep):
    """Asks PyTorch's own generator for numbers too, as dropout does."""

    def forward(self, x: Tensor, solution: Tensor, **rest: Any) -> tuple[Tensor, LossTerms]:
        return super().forward(x + 0.01 * torch.randn_like(x), solution, **rest)


@functools.cache
def examples(count: int = 60) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    return tour.observe(tour.hidden_program(generator), count, generator)


def make_step(*, is_random: bool = True) -> LossStep:
    rows = LearnableConstraints(8, 2, origin=(-2.5, 2.5), generator=torch.Generator().manual_seed(1))
    model = NeuralILP(KnownCost(), [rows], Box(tour.LOWER, tour.UPPER, 2))
    if is_random:
        return NoisyStep(model, Union(OneHop(), KHop((2, 3), count=4)), ILPLoss(), CoefficientOfVariation())
    return LossStep(model, OneHop(), ILPLoss(), FixedWeights())


def validate(step: nn.Module) -> Mapping[str, float]:
    dtype = next(step.parameters()).dtype
    costs, solutions = (tensor[:20].to(dtype) for tensor in examples())
    z = solve(step.model(costs)).z
    return {"vector_accuracy": vector_accuracy(z, solutions), "variable_accuracy": variable_accuracy(z, solutions)}


def run(path: Path, step: nn.Module | None = None, **changes: Any) -> tuple[Outcome, nn.Module]:
    """Train by the paper's means; everything can be changed."""
    step = step or make_step()
    arguments = {
        "data": examples(),
        "optimiser": lambda module: torch.optim.AdamW(module.parameters(), lr=0.1),
        "scheduler": lambda optimiser: triangular(optimiser, 0.1, 7),
        "temperature": PlateauTemperature(1.0, factor=0.5, patience=0, floor=0.1),
        "validate": validate,
        "schedule": LAST_BATCH_IS_SMALLER,
        "folder": RunFolder(path, {"task": "tour"}, tensorboard=False, picture=False),
        "monitor": "variable_accuracy",
    } | changes
    return train(step, arguments.pop("data"), **arguments), step


class Terms(NamedTuple):
    first: Tensor
    second: Tensor


class Toy(nn.Module):
    """(w·x - y)², with a look at what it was called with."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(2))
        self.dropout = nn.Dropout(0.5)
        self.calls: list[tuple[Any, float, float]] = []

    def forward(
        self, x: Any, solution: Tensor, *, temperature: float, generator: torch.Generator
    ) -> tuple[Tensor, Terms]:
        inputs = x if isinstance(x, Tensor) else torch.cat(x, -1)
        total = ((inputs @ self.w).unsqueeze(-1) - solution).square().mean()
        self.calls.append((x, temperature, total.item()))
        return total, Terms(total.detach(), 2 * total)


def toy_data(count: int = 10) -> tuple[Tensor, Tensor]:
    x = torch.arange(2.0 * count).view(count, 2) / count
    return x, x.sum(-1, keepdim=True)


def toy_run(path: Path, figures: Any = (), step: Toy | None = None, **changes: Any) -> Any:
    """A run whose validations find the given figures in turn."""
    following = iter(figures)
    arguments = {
        "data": toy_data(),
        "optimiser": lambda module: torch.optim.SGD(module.parameters(), lr=0.01),
        "temperature": PlateauTemperature(1.0, factor=0.5, patience=99),
        "validate": lambda step: {"figure": next(following, 0.0)},
        "schedule": Schedule(epochs=3, batch_size=4),
        "folder": RunFolder(path, tensorboard=False, picture=False),
        "monitor": "figure",
    } | changes
    return train(step or Toy(), arguments.pop("data"), **arguments)


CASES = {
    # Examples, and the schedule: one step with the gradient as the difference; steps that two do not divide evenly;
    # a last batch of one example, of which the second process gets none.
    "gradient": (8, Schedule(epochs=1, batch_size=8)),
    "even": (32, Schedule(epochs=2, batch_size=8)),
    "uneven": (60, Schedule(epochs=2, batch_size=7)),
    "single": (15, Schedule(epochs=2, batch_size=7)),
}


def case(name: str, path: Path, **changes: Any) -> tuple[Outcome, nn.Module]:
    """A run without chance in its steps, by plain gradient descent, to be compared between numbers of processes.

    In double precision: the order of sums differs, and the kinks of the loss magnify what is rounded off.
    """
    count, schedule = CASES[name]
    arguments = {
        "data": tuple(tensor[:count].double() for tensor in examples()),
        "optimiser": lambda module: torch.optim.SGD(module.parameters(), lr=1.0),
        "scheduler": None,
        "schedule": schedule,
    } | changes
    return run(path, make_step(is_random=False).double(), **arguments)


def weights(step: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in step.state_dict().items()}


def assert_same_weights(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


def lasting(folder: Path) -> list[dict[str, float]]:
    """The rows of the curves without the columns that tell the time."""
    rows = read_curves(folder / "curves.csv")
    return [{name: value for name, value in row.items() if not name.endswith("seconds")} for row in rows]


def last_weights(folder: Path) -> dict[str, Tensor]:
    """Those after the last step, not the best ones."""
    return torch.load(folder / "checkpoints" / "last.pt", weights_only=True)["step"]
