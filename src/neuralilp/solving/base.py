"""Solution and solve: a batch of programs in, an answer with a status for every instance out."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter

import joblib  # type: ignore[import-untyped]
import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from neuralilp.errors import InputError, ShapeError
from neuralilp.program import IntegerProgram
from neuralilp.solving.backend import Backend, Status
from neuralilp.solving.cuts import CutPool, Cuts
from neuralilp.solving.instance import FloatArray, InstanceBatch
from neuralilp.solving.parallel import Task, solve_all
from neuralilp.solving.registry import find_backend
from neuralilp.solving.single import Settings


@dataclasses.dataclass(frozen=True, eq=False)
class Solution:
    """Answers to a batch of programs; NaN where there is none. Tuples are in flattened batch order."""

    z: Float[Tensor, "*batch var"]
    objective: Float[Tensor, "*batch"]
    status: tuple[Status, ...]
    seconds: tuple[float, ...]
    messages: tuple[str, ...]
    """Why there is no answer, where a status does not say it all; else empty."""

    def counts(self) -> dict[str, int]:
        """How many instances ended in each status, those that occur: ``{"optimal": 98, "infeasible": 2}``."""
        counted = Counter(self.status)
        return {status.value: counted[status] for status in Status if counted[status]}


def solve(
    program: IntegerProgram,
    *,
    backend: str | Backend = "highs",
    relax: bool = False,
    time_limit: float | None = None,
    warm_start: Float[Tensor, "*batch var"] | None = None,
    workers: int = 1,
    cuts: CutPool | Cuts | None = None,
    progress: bool = False,
) -> Solution:
    """Solve every program of a batch to optimality, in float64, one thread an instance.

    Args:
        backend: a name out of ``available_backends()``, or a Backend object with its own options.
        relax: solve the linear relaxation, between the real bounds.
        time_limit: seconds for each instance, all rounds of cuts included.
        warm_start: a point each from which solvers may begin; examples with a NaN have none. It changes
            the time, and between equally good answers possibly the answer, so never give the true
            solution when you measure accuracy.
        workers: how many instances to solve at once; -1 for one a core, or all of a cluster. ``joblib.parallel_config``
            chooses another way to run them than threads.
        cuts: valid rows ``a·z + b >= 0`` for all instances, added only when an answer violates them: a
            CutPool, or a function ``z -> (a, b)`` that returns rows violated at the array z. It must be
            safe to call from several threads when there are several workers.
        progress: a bar on a terminal, else a line now and then.

    Integer variables of an answer are rounded and the answer is checked against rows and bounds within
    1e-6 · max(1, sum |a_j|); one that fails has status ERROR. Ctrl-C stops the solvers.
    """
    chosen = find_backend(backend)
    if time_limit is not None and not (time_limit >= 0 and math.isfinite(time_limit)):
        raise InputError(f"time_limit must be a non-negative number of seconds or None, got {time_limit}")
    if workers == -1:
        workers = joblib.effective_n_jobs(-1)
    if workers < 1:
        raise InputError(f"workers must be at least 1, or -1 for one a core, got {workers}")
    n = program.num_variables
    if isinstance(cuts, CutPool) and cuts.a.shape[1] != n:
        raise ShapeError(f"cuts must have {n} variables as the program has, got {cuts.a.shape[1]}")
    if cuts is not None and not callable(cuts):
        raise InputError(f"cuts must be a CutPool or a function of z, got {type(cuts).__name__}")
    batch = InstanceBatch(program, relax=relax)
    starts = _starts(warm_start, batch.shape, n)

    def task(i: int) -> Task:
        return i, batch[i], _start(starts, i)

    outcomes = []
    if batch.size:
        outcomes = solve_all(task, batch.size, Settings(chosen, time_limit, cuts), workers, progress)
    z = np.full((batch.size, n), np.nan)
    for i, outcome in enumerate(outcomes):
        if outcome.z is not None:
            z[i] = outcome.z
    objective = (np.broadcast_to(batch.cost, (*batch.shape, n)).reshape(-1, n) * z).sum(-1)
    like = program.cost
    return Solution(
        z=torch.from_numpy(z).to(like.device, like.dtype).reshape(*batch.shape, n),
        objective=torch.from_numpy(objective).to(like.device, like.dtype).reshape(batch.shape),
        status=tuple(outcome.status for outcome in outcomes),
        seconds=tuple(outcome.seconds for outcome in outcomes),
        messages=tuple(outcome.message for outcome in outcomes),
    )


def _starts(warm_start: Tensor | None, shape: tuple[int, ...], n: int) -> FloatArray | None:
    if warm_start is None:
        return None
    try:
        expanded = warm_start.detach().to("cpu", torch.float64).expand(*shape, n)
    except RuntimeError:
        raise ShapeError(f"warm_start must have shape {(*shape, n)}, got {tuple(warm_start.shape)}") from None
    starts: FloatArray = expanded.reshape(-1, n).numpy()
    return starts


def _start(starts: FloatArray | None, i: int) -> FloatArray | None:
    if starts is None or not np.isfinite(starts[i]).all():
        return None
    start: FloatArray = starts[i]
    return start
