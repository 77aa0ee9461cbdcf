"""ProgramLearner: a table of past decisions in, an integer program with readable rules out; scikit-learn's manners."""

from __future__ import annotations

import copy
import dataclasses
import os
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]
from torch import Tensor, nn

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.contrast import ScaledLinear, fit_costs
from neuralilp.distill import Axes, explain
from neuralilp.errors import InputError, ShapeError
from neuralilp.evidence import valid_cuts
from neuralilp.export import export, safe_names
from neuralilp.inputs import as_array, bounds_of, check_whole, held_back, matched, names_of
from neuralilp.known import known_blocks
from neuralilp.learning import Learnt, learn_rules
from neuralilp.metrics import vector_accuracy
from neuralilp.mining import doubtful
from neuralilp.program import IntegerProgram
from neuralilp.reporting import report_of
from neuralilp.solving import Solution, solve

ROWS = (0, 4, 8, 16)
"""Rows that the optimality conditions may suggest, tried in turn where ``rows`` is not given."""

TRIALS = 0.6
"""Of the time limit, for what is looked at by held-out examples; the rest is for learning from all."""

COSTS, FEATURES = "costs", "features"


class NoCostsWarning(UserWarning):
    """Rules were learnt without costs: nothing proves that what was never seen is infeasible."""


class ProgramLearner(BaseEstimator):  # type: ignore[misc]
    """Learns an integer program, min c·z subject to rules on z, from decisions that were optimal under it.

    ``fit(costs, solutions)`` where the cost of every variable is known, `example var` each; ``fit(features,
    solutions)`` where costs must be learnt from features of another number; ``fit(None, solutions)`` where there are
    feasible examples alone. Rules do not depend on the example. Arrays, tensors and data frames will do; a frame's
    columns name the variables, and costs are then matched to them by name.

    Args:
        inputs: ``"costs"``, ``"features"``, or ``"auto"``: costs where there are as many columns as variables.
        bounds: (lower, upper), each a number or one a variable; without, the least and the most that was seen.
        known: constraints that need not be learnt: ``(a, b)`` for a·z + b >= 0, blocks, a program, or the path of an
            ``.lp`` or ``.mps`` file over variables of these names.
        axes: names of the axes that the variables lie on, where their own names are places: ``("nurse", "day",
            "shift")`` for ``anna_mon_night``; or :class:`~neuralilp.distill.Axes`. Sums along axes are then tried as
            rules, and rules are told in sentences.
        rows: rows that the optimality conditions may suggest at once; without, chosen by held-out examples.
        cost_network: a module features -> costs, where they are learnt; without, a linear one.
        doubts: leave out examples that break what hardly any other breaks, as wrong ones do; without, if held-out
            examples are then solved better.
        use_cuts: in ``predict``, use also that no point is cheaper than an example's solution under its cost.
        held_out: the share of examples that is kept back, for the report and for choosing ``rows``.
        time_limit: seconds for ``fit``, about.
        solve_seconds: for each instance in ``predict``.
        workers: instances solved at once; -1 for one a core.
        seed: of the split and of the starts.
        progress: say on standard error what is being done.

    After ``fit``: ``program_`` (with no cost), ``rules_`` (sentences and rows, as text), ``report_``, ``names_``,
    ``cost_network_`` (where costs were learnt).
    """

    def __init__(
        self,
        *,
        inputs: str = "auto",
        bounds: Any = None,
        known: Any = None,
        axes: Any = None,
        rows: int | None = None,
        doubts: bool | None = None,
        cost_network: nn.Module | None = None,
        use_cuts: bool = True,
        held_out: float = 0.2,
        time_limit: float | None = None,
        solve_seconds: float = 10.0,
        workers: int = 1,
        seed: int = 0,
        progress: bool = False,
    ) -> None:
        self.inputs = inputs
        self.bounds = bounds
        self.known = known
        self.axes = axes
        self.rows = rows
        self.doubts = doubts
        self.cost_network = cost_network
        self.use_cuts = use_cuts
        self.held_out = held_out
        self.time_limit = time_limit
        self.solve_seconds = solve_seconds
        self.workers = workers
        self.seed = seed
        self.progress = progress

    # -- learning ------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> ProgramLearner:
        """Learn from ``y``, solutions `example var`, and ``X``: their costs, their features, or None."""
        began = time.monotonic()
        deadline = trials_end = None
        if self.time_limit is not None:
            deadline, trials_end = began + self.time_limit, began + TRIALS * self.time_limit
        solutions = as_array(y, "solutions")
        self.is_named_ = names_of(y) is not None
        self.names_ = names_of(y) or [f"z{j}" for j in range(solutions.shape[1])]
        check_whole(solutions, "solutions", names_of(y))
        self.kind_ = self._kind(X, solutions)
        x = None if X is None else self._inputs(X, len(solutions))
        self.axes_ = self._axes()
        box = bounds_of(self.bounds, solutions, self.names_)
        known = known_blocks(self.known, self.names_)
        z = torch.tensor(solutions)
        for number, block in enumerate(known):
            outside = (block.room(z) < -1e-6).any(-1)
            if bool(outside.any()):
                row = int(outside.nonzero()[0])
                raise InputError(f"known must hold on all solutions: row {row} breaks block {number}")
        split = ~held_back(len(z), self.held_out, self.seed)
        network = None
        costs = x
        if self.kind_ == FEATURES:
            assert x is not None
            network = self._learnt_network(x[split], z[split], deadline)
            costs = None
        elif X is None:
            warnings.warn(
                "no costs: rules are what never happened and hardly could by accident; nothing proves the rest "
                "infeasible, nor them",
                NoCostsWarning,
                stacklevel=2,
            )

        def learn(chosen: Tensor, rows: int, doubts: bool, deadline: float | None) -> Learnt:
            own = None if costs is None else costs[chosen]
            return learn_rules(
                z[chosen],
                box,
                costs=own,
                known=known,
                axes=self.axes_,
                rows=rows,
                doubts=doubts,
                seed=self.seed,
                deadline=deadline,
                tell=self._tell,
            )

        tried: dict[str, float] = {}
        rest = (~split).nonzero().flatten()
        may_doubt = self.doubts is None and costs is not None and bool(doubtful(z[split], self.axes_).any())
        best, held_out = (self.rows or 0, may_doubt or bool(self.doubts)), dict[str, float]()

        def is_better(rows: int, doubts: bool) -> bool:
            """Learn from one part, look at the other, and remember what does best."""
            nonlocal best, held_out
            so_far = max(tried.values(), default=-1.0)
            self._set(learn(split, rows, doubts, trials_end), box, known, costs, z, split, network)
            figures = self._figures(x, z, rest)
            name = f"{rows} rows" + (", with doubts" if doubts else "")
            self._tell(f"held out, {name}: {figures}")
            tried[name] = figures.get("accuracy", figures["feasible"])
            if tried[name] > so_far:
                best, held_out = (rows, doubts), figures
            return tried[name] > so_far

        def is_done() -> bool:
            return max(tried.values()) == 1 or (trials_end is not None and time.monotonic() > trials_end)

        if len(rest):
            for rows in [best[0]] if self.rows is not None or costs is None else ROWS:
                if not is_better(rows, best[1]) or is_done():
                    break
            if may_doubt and not is_done():
                is_better(best[0], False)
        everything = torch.ones(len(z), dtype=torch.bool)
        if self.kind_ == FEATURES and len(rest):
            assert x is not None
            network = self._learnt_network(x, z, deadline)
        learnt = learn(everything, *best, deadline)
        self._set(learnt, box, known, costs, z, everything, network)
        self.n_features_in_ = 0 if x is None else x.shape[1]
        self.rules_ = explain(learnt.rules, self.axes_, self.names_)
        self.report_ = report_of(
            learnt, self.program_, z, costs, held_out, tried, self.names_, time.monotonic() - began, self.solve_seconds
        )
        return self

    def _set(
        self,
        learnt: Learnt,
        box: Bounds,
        known: Sequence[ConstraintBlock],
        costs: Tensor | None,
        z: Tensor,
        chosen: Tensor,
        network: nn.Module | None,
    ) -> None:
        blocks = (*known, *learnt.rules.blocks())
        self.program_ = IntegerProgram(torch.zeros_like(z[0]), box, blocks)
        self.cost_network_ = network
        self.cuts_ = None
        if costs is not None and self.use_cuts:
            self.cuts_ = valid_cuts(costs[chosen][learnt.kept], z[chosen][learnt.kept])

    def _figures(self, x: Tensor | None, z: Tensor, rest: Tensor) -> dict[str, float]:
        """On examples that were not learnt from."""
        figures = {"examples": len(rest), "feasible": self.program_.is_feasible(z[rest]).double().mean().item()}
        if x is not None:
            figures["accuracy"] = vector_accuracy(self._solved(x[rest]).z, z[rest])
        return figures

    def _learnt_network(self, x: Tensor, z: Tensor, deadline: float | None) -> nn.Module:
        single = x.float()
        if self.cost_network is not None:
            network = copy.deepcopy(self.cost_network)
        else:
            network = ScaledLinear(x.shape[1], z.shape[1])
            network.measure(single)
        loss = fit_costs(network, single, z.float(), seed=self.seed, deadline=deadline)
        self._tell(f"costs from features: loss {loss:.3g}")
        return network.eval()

    # -- use -----------------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> Any:
        """Solutions for costs or features: a pandas frame if X is one, else an array. NaN where there is none."""
        z: NDArray[np.float64] = self.solve(X).z.numpy()
        is_frame = names_of(X) is not None and hasattr(X, "index")
        return type(X)(z, columns=self.names_, index=X.index) if is_frame else z

    def solve(self, X: Any) -> Solution:
        """As :meth:`predict`, with the status of every instance."""
        check_is_fitted(self, "program_")
        return self._solved(self._inputs(X, None))

    def score(self, X: Any, y: Any) -> float:
        """The share of rows of ``y`` that :meth:`predict` gets right in every column; without X, that are feasible."""
        check_is_fitted(self, "program_")
        z = self._of_variables(y, "solutions")
        if X is None:
            return self.program_.is_feasible(z).double().mean().item()
        return vector_accuracy(self.solve(X).z, z)

    def explain(self) -> str:
        """The rules and what they rest on, as text."""
        check_is_fitted(self, "program_")
        return "\n".join([*self.rules_, "", *self.report_.lines()])

    def export(self, path: str | os.PathLike[str], costs: Any = None) -> Path:
        """The program as an ``.lp`` or ``.mps`` file, with one row of costs, or none."""
        check_is_fitted(self, "program_")
        program = self.program_
        if costs is not None:
            row = np.asarray(costs, dtype=np.float64).reshape(-1)
            if len(row) != len(self.names_):
                raise ShapeError(f"costs must be one row of {len(self.names_)} numbers, got {len(row)}")
            program = dataclasses.replace(program, cost=torch.from_numpy(row))
        return export(program, path, variable_names=safe_names(self.names_))

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Everything that was learnt, as a folder of plain files; see :meth:`load`."""
        from neuralilp.learner_files import save_learner

        check_is_fitted(self, "program_")
        return save_learner(self, Path(folder), overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, cost_network: nn.Module | None = None) -> ProgramLearner:
        """What :meth:`save` wrote; a cost network of one's own must be given again, and gets its weights."""
        from neuralilp.learner_files import load_learner

        return load_learner(cls(), Path(folder), cost_network)

    def costs(self, X: Any) -> NDArray[np.float64]:
        """What is minimised for each row of X: X itself, or what was learnt of it."""
        check_is_fitted(self, "program_")
        array: NDArray[np.float64] = self._costs(self._inputs(X, None)).numpy()
        return array

    @torch.no_grad()
    def _costs(self, x: Tensor) -> Tensor:
        return x if self.cost_network_ is None else self.cost_network_(x.float()).double()

    def _solved(self, x: Tensor) -> Solution:
        program = dataclasses.replace(self.program_, cost=self._costs(x))
        return solve(
            program, time_limit=self.solve_seconds, workers=self.workers, cuts=self.cuts_, progress=self.progress
        )

    # -- what comes in -------------------------------------------------------------------------------------------------

    def _kind(self, X: Any, solutions: NDArray[np.float64]) -> str | None:
        if X is None:
            return None
        if self.inputs not in ("auto", COSTS, FEATURES):
            raise InputError(f"inputs must be auto, {COSTS} or {FEATURES}, got {self.inputs!r}")
        if self.inputs != "auto":
            return self.inputs
        shape = np.shape(X)
        return COSTS if len(shape) == 2 and shape[1] == solutions.shape[1] else FEATURES

    def _inputs(self, X: Any, examples: int | None) -> Tensor:
        if self.kind_ == FEATURES:
            deep = isinstance(X, Tensor) and X.ndim > 2
            x = X.detach().double() if deep else torch.from_numpy(as_array(X, FEATURES))
        else:
            x = self._of_variables(X, COSTS)
        if examples is not None and len(x) != examples:
            raise ShapeError(f"{self.kind_} and solutions must have as many rows, got {len(x)} and {examples}")
        if examples is None and x.shape[1] != self.n_features_in_ and self.kind_ is not None:
            raise ShapeError(f"{self.kind_} must have the {self.n_features_in_} columns of training, got {x.shape[1]}")
        return x

    def _of_variables(self, value: Any, name: str) -> Tensor:
        return torch.from_numpy(matched(value, name, self.names_ if self.is_named_ else None, len(self.names_)))

    def _axes(self) -> Axes | None:
        if self.axes is None or isinstance(self.axes, Axes):
            return self.axes
        return Axes.of_names(self.names_, tuple(self.axes))

    def _tell(self, text: str) -> None:
        if self.progress:
            print(text, file=sys.stderr, flush=True)
