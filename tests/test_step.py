"""LossStep: the modules called in turn, and the compiled whole, which must be the same to rounding."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from neuralilp import (
    BatchNegatives,
    Box,
    CoefficientOfVariation,
    ILPLoss,
    InputError,
    KHop,
    KnownCost,
    LearnableConstraints,
    LossStep,
    NeuralILP,
    OneHop,
    ProjectAndSample,
    ShapeError,
    SteeredWeights,
    Union,
)
from neuralilp.negatives import Draw
from neuralilp.separation import compiler_is_present

needs_compiler = pytest.mark.skipif(
    not compiler_is_present(), reason="torch.compile needs a C++ compiler, such as g++, on the path"
)


def make_step(compile: bool, *, steered: bool = False, restarts: int | None = None) -> LossStep:
    generator = torch.Generator().manual_seed(0)
    rows = [
        LearnableConstraints(3, 6, origin=(-1.0, 1.0), restarts=restarts, generator=generator),
        LearnableConstraints(2, 6, slack=0.1, start="gaussian", restarts=restarts, generator=generator),
    ]
    model = NeuralILP(KnownCost(), rows, Box(-2.0, 2.0, 6))
    sampler = Union(OneHop(), KHop((2, 3), 8), ProjectAndSample(), BatchNegatives())
    loss = ILPLoss(known_rows_compete=not steered, compile=False)
    return LossStep(model, sampler, loss, SteeredWeights() if steered else CoefficientOfVariation(), compile=compile)


def make_batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4, 6, generator=generator)
    return x, torch.randint(-2, 3, (4, 6), generator=generator).float()


def test_step_is_the_modules_in_turn() -> None:
    step = make_step(compile=False)
    by_hand = copy.deepcopy(step)
    x, y = make_batch()
    total, terms = step(x, y, temperature=0.5, generator=torch.Generator().manual_seed(2))
    program = by_hand.model(x)
    negatives = by_hand.sampler(program, y, generator=torch.Generator().manual_seed(2))
    expected = by_hand.loss(program, y, negatives, temperature=0.5)
    torch.testing.assert_close(terms.stack(), expected.stack())
    torch.testing.assert_close(total, by_hand.balancer(expected))


def test_restarts_learn_as_each_would_alone() -> None:
    """The terms are means over the restarts; a gradient is that of one alone, divided by their number."""
    step = make_step(compile=False, restarts=3)
    step.sampler = OneHop()
    x, y = make_batch()
    _, terms = step(x, y, temperature=0.5)
    terms.stack().sum().backward()
    alone = []
    for r in range(3):
        rows = [module.restart(r) for module in step.model.constraints if isinstance(module, LearnableConstraints)]
        one = LossStep(NeuralILP(KnownCost(), rows, Box(-2.0, 2.0, 6)), OneHop(), step.loss, step.balancer)
        _, its = one(x, y, temperature=0.5)
        its.stack().sum().backward()
        alone.append(its.stack())
        for name, parameter in one.model.named_parameters():
            whole = step.model.get_parameter(name).grad
            assert whole is not None
            assert parameter.grad is not None
            torch.testing.assert_close(whole[r, 0] * 3, parameter.grad)
    # L_o is of the mean over the rows of all blocks: not additive over blocks, but over restarts it is.
    torch.testing.assert_close(terms.stack(), torch.stack(alone).mean(0))


@pytest.mark.parametrize(("restarts", "shape"), [(None, (6,)), (3, (1, 6)), (3, (6,)), (3, (5, 6))])
def test_solutions_of_another_shape_are_refused(restarts: int | None, shape: tuple[int, ...]) -> None:
    """With restarts or without, a solution for each x."""
    step = make_step(compile=False, restarts=restarts)
    with pytest.raises(ShapeError, match="solution must have shape"):
        step(make_batch()[0], torch.zeros(shape), temperature=1.0)


def same_terms_and_gradient(step: LossStep) -> None:
    """The compiled step beside its modules in turn, at two temperatures; statistics move once a step."""
    plain = copy.deepcopy(step.model)
    x, y = make_batch()
    for temperature in (1.0, 0.1):  # the second must not need another compilation to be right
        step.zero_grad()
        plain.zero_grad()
        balancer = copy.deepcopy(step.balancer)
        total, terms = step(x, y, temperature=temperature, generator=torch.Generator().manual_seed(3))
        assert step.is_compiled
        terms.stack().sum().backward()
        program = plain(x)
        numbers = Draw(y, torch.Generator().manual_seed(3))(step.count_numbers(x, y))
        many = y.expand(*program.batch_shape, -1)
        negatives = step.sampler.sample(program, many, Draw(many, numbers=numbers))
        expected = step.loss(program, many, negatives, temperature=temperature)
        torch.testing.assert_close(total, balancer(expected))
        for name, value in balancer.state_dict().items():
            torch.testing.assert_close(step.balancer.state_dict()[name], value)
        expected.stack().sum().backward()
        for name in ("positive", "negative", "covariance", "masked", "separated", "inside"):
            torch.testing.assert_close(getattr(terms, name), getattr(expected, name), rtol=1e-5, atol=1e-7)
        for mine, other in zip(step.model.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, other.grad, rtol=1e-4, atol=1e-6)
        for mine, other in zip(step.model.buffers(), plain.buffers(), strict=True):
            torch.testing.assert_close(mine, other)


def check_steered_without_bounds_with_restarts() -> None:
    same_terms_and_gradient(make_step(compile=True, steered=True, restarts=3))


def check_one_compilation() -> None:
    """It is right, and serves batches of other sizes, other margins and copies, and still looks at solutions."""
    step = make_step(compile=True)
    step.model.encoder = torch.nn.BatchNorm1d(6)
    same_terms_and_gradient(step)
    assert step.model.encoder.num_batches_tracked == 2
    x, y = make_batch()
    compiled = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    _, before = step(x, y, temperature=1.0, generator=torch.Generator().manual_seed(0))
    step.loss.positive_margin = 0.5
    _, after = step(x, y, temperature=1.0, generator=torch.Generator().manual_seed(0))
    assert after.positive > before.positive
    step(x[:3], y[:3], temperature=1.0)[0].backward()
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == compiled
    assert step.is_compiled

    step.zero_grad()
    other = copy.deepcopy(step)
    total, _ = other(x, y, temperature=1.0)
    total.backward()
    assert other.model.constraints[0].a.grad is not None
    assert step.model.constraints[0].a.grad is None

    y[2, 1] = 0.4
    with pytest.raises(InputError, match=r"solution must be integral: example 2 has z\[1\] = 0.4"):
        step(x, y, temperature=1.0)


CHECKS = [check_one_compilation, check_steered_without_bounds_with_restarts]


@needs_compiler
@pytest.mark.parametrize("check", CHECKS)
def test_compiled_step(check: Callable[[], None]) -> None:
    """In a process of its own: the run-time shape checks of the test run cannot be compiled."""
    code = f"import test_step; test_step.{check.__name__}(); print('passed')"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parent, check=False
    )
    assert ran.stdout.strip().endswith("passed"), ran.stderr


def test_without_a_compiler_steps_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neuralilp.step.compiler_is_present", lambda: False)
    with pytest.warns(UserWarning, match="no C\\+\\+ compiler was found"):
        step = make_step(compile=True)
    x, y = make_batch()
    total, _ = step(x, y, temperature=1.0)
    assert total.isfinite()


def test_when_compiling_fails_steps_go_on_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise torch._dynamo.exc.TorchDynamoException("broken")

    monkeypatch.setattr("neuralilp.step.compiler_is_present", lambda: True)
    monkeypatch.setattr("neuralilp.step.compile_whole_step", lambda: fail)
    step = make_step(compile=True)
    x, y = make_batch()
    with pytest.warns(UserWarning, match="compiling failed, steps go on plainly: broken"):
        total, _ = step(x, y, temperature=1.0)
    assert total.isfinite()
    assert not step.is_compiled


def test_temperature_below_zero_is_refused() -> None:
    x, y = make_batch()
    with pytest.raises(InputError, match="temperature must be at least 0, got -1"):
        make_step(compile=True)(x, y, temperature=-1.0)
