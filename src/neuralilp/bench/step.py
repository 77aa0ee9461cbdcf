"""One training step by the plain dense formulation and by this library: time, memory, and the difference of results."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from neuralilp.balancing import CoefficientOfVariation
from neuralilp.bench.data import random_constraints_batch, sudoku_batch
from neuralilp.constraints import Box, LearnableConstraints
from neuralilp.costs import KnownCost
from neuralilp.dense import dense_terms
from neuralilp.errors import InputError
from neuralilp.loss import ILPLoss
from neuralilp.model import NeuralILP
from neuralilp.negatives import BatchNegatives, Draw, KHop, NegativeSampler, OneHop, ProjectAndSample, Union
from neuralilp.program import IntegerProgram
from neuralilp.separation import compiler_is_present, separate_compiled
from neuralilp.step import LossStep

Task = Literal["sudoku", "random-constraints"]

WHOLE_STEP_UP_TO = 100
"""Variables up to which compiling the step as a whole is fastest; above, compiling the inner pass of the loss is."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """A task with the paper's settings."""

    model: NeuralILP
    sampler: NegativeSampler
    dense_sampler: Callable[[IntegerProgram, Tensor], Tensor]
    x: Tensor
    solution: Tensor


def bench_step(
    task: Task,
    *,
    size: int = 9,
    batch: int = 10,
    threads: int = 1,
    repeats: int | None = None,
    compile: bool | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Times in milliseconds (medians), peak memory of the process in MB, and relative differences.

    A step is: encode, sample with the paper's samplers, loss, balance, backward, AdamW. The dense side runs first: in
    a process that has compiled something, plain PyTorch is slower. The peak is that of each side on Linux, where it
    can be reset; elsewhere it is that since the start of the process.
    """
    if batch < 1 or threads < 1:
        raise InputError(f"batch and threads must be positive, got {batch} and {threads}")
    torch.set_num_threads(threads)
    use_compiler = compiler_is_present() if compile is None else compile
    setting = _setting(task, size, batch, torch.Generator().manual_seed(seed))
    few = setting.solution.shape[-1] <= WHOLE_STEP_UP_TO
    inner, whole = use_compiler and not few, use_compiler and few
    dense_ms, dense_peak = _measure(_dense_step(setting), 1, repeats)
    step = _loss_step(setting, inner, whole)
    loss_difference, gradient_difference = differences(setting, step, seed)
    fast_ms, fast_peak = _measure(_fast_step(setting, step, seed), 5, repeats)
    whole, inner = step.is_compiled, inner and not separate_compiled().has_failed
    return {
        "task": task,
        "size": size if task == "sudoku" else None,
        "batch": batch,
        "threads": threads,
        "variables": setting.solution.shape[-1],
        "compiled": "whole step" if whole else "inner pass" if inner else "no",
        "dense_ms": round(dense_ms, 3),
        "fast_ms": round(fast_ms, 3),
        "speedup": round(dense_ms / fast_ms, 2),
        "dense_peak_mb": round(dense_peak, 1),
        "fast_peak_mb": round(fast_peak, 1),
        "loss_difference": loss_difference,
        "gradient_difference": gradient_difference,
    }


def _setting(task: Task, size: int, batch: int, generator: torch.Generator) -> Setting:
    if task == "sudoku":
        x, solution = sudoku_batch(size, batch, generator)
        n = size**3
        rows = LearnableConstraints(
            (n + 1) // 2, n, slack=0.1, start="gaussian", radius=0.0, origin=(0.0, 0.0), generator=generator
        )
        model = NeuralILP(KnownCost(-1.0), [rows], Box(0.0, 1.0, n))
        sampler = Union(OneHop(), KHop((2, 3, 4)), ProjectAndSample(), BatchNegatives())
        return Setting(model, sampler, lambda program, y: _dense_negatives(program, y, n, True), x, solution)
    if task == "random-constraints":
        x, solution = random_constraints_batch(batch, generator)
        n = solution.shape[-1]
        rows = LearnableConstraints(16, n, origin=(-2.5, 2.5), generator=generator)
        model = NeuralILP(KnownCost(), [rows], Box(-5.0, 5.0, n))
        sampler = Union(OneHop(), KHop((2, 3, 4), 16), ProjectAndSample())
        return Setting(model, sampler, lambda program, y: _dense_negatives(program, y, 16, False), x, solution)
    raise InputError(f"task must be 'sudoku' or 'random-constraints', got {task!r}")


def differences(setting: Setting, step: LossStep, seed: int) -> tuple[float, float]:
    """How far the fast path is from the dense one over the same negatives: loss terms, and gradient, relative."""
    parameters = list(step.model.parameters())
    _, fast = step(setting.x, setting.solution, temperature=1.0, generator=torch.Generator().manual_seed(seed))
    program = step.model(setting.x)
    with torch.no_grad():
        draw = Draw(setting.solution, torch.Generator().manual_seed(seed))
        if step.is_compiled:  # then it draws all its numbers beforehand
            draw = Draw(setting.solution, numbers=draw(step.count_numbers(setting.x, setting.solution)))
        points = setting.sampler.sample(program, setting.solution, draw).points()
    dense = dense_terms(program, setting.solution, points, 1.0)
    slopes = [
        torch.cat([slope.flatten() for slope in torch.autograd.grad(terms.stack().sum(), parameters)])
        for terms in (fast, dense)
    ]
    ours, theirs = fast.stack().detach(), dense.stack().detach()
    loss_difference = (ours - theirs).abs().max() / theirs.sum()
    return loss_difference.item(), ((slopes[0] - slopes[1]).norm() / slopes[1].norm()).item()


def _loss_step(setting: Setting, inner: bool, whole: bool) -> LossStep:
    loss, balancer = ILPLoss(compile=inner), CoefficientOfVariation()
    return LossStep(copy.deepcopy(setting.model), setting.sampler, loss, balancer, compile=whole)


def _fast_step(setting: Setting, step: LossStep, seed: int) -> Callable[[], None]:
    optimiser = torch.optim.AdamW(step.model.parameters(), 1e-3, fused=True)
    generator = torch.Generator().manual_seed(seed)

    def run() -> None:
        total, _ = step(setting.x, setting.solution, temperature=1.0, generator=generator)
        total.backward()
        optimiser.step()
        optimiser.zero_grad()

    return run


def _dense_step(setting: Setting) -> Callable[[], None]:
    model = copy.deepcopy(setting.model)
    balancer = CoefficientOfVariation()
    optimiser = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)

    def run() -> None:
        program = model(setting.x)
        with torch.no_grad():
            points = setting.dense_sampler(program, setting.solution)
        total = balancer(dense_terms(program, setting.solution, points, 1.0, with_diagnostics=False))
        total.backward()
        optimiser.step()
        optimiser.zero_grad()

    return run


def _dense_negatives(program: IntegerProgram, y: Tensor, count: int, with_batch: bool) -> Tensor:
    """The paper's negatives as dense points, `batch neg var`, as one would write them down."""
    n, is_binary = y.shape[-1], program.bounds.is_binary
    eye = torch.eye(n)
    near = y.unsqueeze(1)
    parts = [(near - eye).abs()] if is_binary else [near + eye, near - eye]
    for hops in (2, 3, 4):
        places = torch.rand(y.shape[0], count, n).topk(hops, -1).indices
        z = near.expand(-1, count, -1)
        if is_binary:
            parts.append(z.scatter(-1, places, 1 - z.gather(-1, places)))
        else:
            parts.append(z.scatter_add(-1, places, 2.0 * torch.randint(2, places.shape) - 1))
    a, b = program.blocks[0].unit().explicit()
    projected = near - (y @ a.mT + b).unsqueeze(-1) * a
    low = projected.floor()
    parts.append(low + (torch.rand_like(projected) < projected - low))
    if with_batch:
        parts.append(torch.stack([torch.cat([y[:i], y[i + 1 :]]) for i in range(y.shape[0])]))
    return torch.cat(parts, 1)


def _measure(run: Callable[[], None], warm_up: int, repeats: int | None) -> tuple[float, float]:
    """Median milliseconds, and the peak of the process in MB while at it. About three seconds unless told."""
    for _ in range(warm_up):
        run()
    _reset_peak()
    times: list[float] = []
    while len(times) < (repeats or 3) or (repeats is None and sum(times) < 3 and len(times) < 300):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times), _peak_mb()


def _reset_peak() -> None:
    with contextlib.suppress(OSError):  # not Linux, or not allowed: the peak is then that since the start
        Path("/proc/self/clear_refs").write_text("5")


def _peak_mb() -> float:
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 2**20 if sys.platform == "darwin" else peak / 1024
