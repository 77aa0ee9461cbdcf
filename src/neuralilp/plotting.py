"""Pictures of programs with two variables, as the illustration in the paper's appendix."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from neuralilp.blocks import ConstraintBlock
from neuralilp.errors import InputError, ShapeError
from neuralilp.files import written_whole
from neuralilp.negatives import Negatives, admissible
from neuralilp.program import IntegerProgram

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = NDArray[np.float64]

MOST_POINTS = 10_000
MARGIN = 0.6
"""Free space around the box, in units of the variables."""

BLUE, RED, GREEN, ORANGE, GREY = "#2b6cb0", "#d64545", "#1f8a4c", "#c05621", "#a0aec0"


def plot_program(
    program: IntegerProgram,
    *,
    truth: IntegerProgram | None = None,
    solution: Float[Tensor, " var"] | None = None,
    negatives: Negatives | None = None,
    name: str = "learnt",
    title: str | None = None,
    axes: Axes | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Figure:
    """Draw one two-variable program: its integer points, its hyperplanes and the polyhedron that they bound.

    Args:
        program: a single instance (``program.instance(i)`` of a batch) with finite bounds, the learnt one say.
        truth: the program to compare with. Its hyperplanes are dashed, and it decides which points are feasible.
        solution: y*, with a green border; the cost row c·z <= c·y* of Eq. 4 is the dashed line through it.
        negatives: N(y*); those that the loss uses are drawn.
        name: what the legend calls the program.
        axes: where to draw, without a legend; by default a figure is made.
        path: where to write the picture, whole or not at all; the suffix chooses the format.
    """
    from matplotlib.figure import Figure

    program = _check(program, "program")
    is_own = axes is None
    if axes is None:
        axes = Figure(figsize=(7.6, 5.2), layout="constrained").add_subplot()
    low, high = _box(program)
    _draw_hyperplanes(axes, program, low, high, name)
    if truth is not None:
        truth = _check(truth, "truth")
        for a, b in _rows(truth.blocks):
            _draw_line(
                axes, a, b, low, high, color=ORANGE, linestyle=(0, (5, 3)), linewidth=1.6, label="true constraint"
            )
    if solution is not None:
        _draw_cost_row(axes, program, _point(solution), low, high)
    _draw_points(axes, program, truth)
    if negatives is not None:
        _draw_negatives(axes, program, negatives)
    if solution is not None:
        y = _point(solution)
        axes.plot(*y, "o", color=BLUE, markersize=9, markeredgecolor=GREEN, markeredgewidth=2.6, label="y*", zorder=6)
    _finish(axes, low, high, title)
    if is_own:
        _draw_legend(axes)
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    if path is not None:
        save_figure(figure, Path(path))
    return figure


def _check(program: IntegerProgram, argument: str) -> IntegerProgram:
    if program.num_variables != 2 or program.batch_shape:
        raise ShapeError(
            f"{argument} must be a single program with 2 variables, got {program.num_variables} variables and the "
            f"batch shape {tuple(program.batch_shape)}: take {argument}.instance(i) of a batch"
        )
    if not program.bounds.is_finite:
        raise InputError(f"{argument} must have finite bounds to be drawn")
    return program.detach().to("cpu", torch.float64)


def _box(program: IntegerProgram) -> tuple[Points, Points]:
    return program.bounds.lower.numpy(), program.bounds.upper.numpy()


def _point(solution: Tensor) -> Points:
    if solution.shape != (2,):
        raise ShapeError(f"solution must have shape (2,), got {tuple(solution.shape)}")
    return solution.detach().to("cpu", torch.float64).numpy()


def _rows(blocks: tuple[ConstraintBlock, ...]) -> list[tuple[Points, float]]:
    """Every (a, b) of a·z + b >= 0, two for an equality, without zero rows."""
    pairs = [(a.numpy(), float(b)) for block in blocks for a, b in zip(*block.unit().explicit(), strict=True)]
    return [(a, b) for a, b in pairs if a.any()]


def _grid(program: IntegerProgram) -> Tensor:
    low, high = program.bounds.integral_lower.long().tolist(), program.bounds.integral_upper.long().tolist()
    count = (high[0] - low[0] + 1) * (high[1] - low[1] + 1)
    if count > MOST_POINTS:
        raise InputError(f"program must have at most {MOST_POINTS} integer points within its bounds, got {count}")
    axis = [torch.arange(start, stop + 1, dtype=torch.float64) for start, stop in zip(low, high, strict=True)]
    return torch.cartesian_prod(*axis)


def _clip(polygon: Points, a: Points, b: float) -> Points:
    """The part of a convex polygon (corners in order) where a·z + b >= 0, edge by edge."""
    corners = []
    for here, there in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        d, e = float(a @ here + b), float(a @ there + b)
        if d >= 0:
            corners.append(here)
        if d * e < 0:
            corners.append(here + (there - here) * d / (d - e))
    return np.array(corners).reshape(-1, 2)


def _rectangle(low: Points, high: Points, margin: float = 0.0) -> Points:
    (left, bottom), (right, top) = low - margin, high + margin
    return np.array([[left, bottom], [right, bottom], [right, top], [left, top]])


def _draw_hyperplanes(axes: Axes, program: IntegerProgram, low: Points, high: Points, name: str) -> None:
    rows = _rows(program.blocks)
    polygon = _rectangle(low, high)
    for a, b in rows:
        polygon = _clip(polygon, a, b)
    axes.fill(*_rectangle(low, high).T, facecolor="none", edgecolor=GREY, linewidth=1.0, label="known bounds")
    if len(polygon):
        axes.fill(*polygon.T, facecolor=BLUE, alpha=0.13, linewidth=0, label=f"{name} polyhedron", zorder=1)
    for a, b in rows:
        # A row that holds no edge of the polyhedron says nothing that the others do not say.
        touches = len(polygon) and np.sum(np.abs(polygon @ a + b) < 1e-9) >= 2
        style = {"color": BLUE, "linewidth": 1.7, "label": f"{name} constraint"}
        if not touches:
            style = {"color": GREY, "linewidth": 0.8, "alpha": 0.6, "label": f"{name}, redundant"}
        _draw_line(axes, a, b, low, high, **style)


def _draw_line(axes: Axes, a: Points, b: float, low: Points, high: Points, **style: object) -> None:
    """The line a·z + b = 0, as far as the picture shows it."""
    frame = _rectangle(low, high, MARGIN)
    value = frame @ a + b
    ends = []
    for here, there, d, e in zip(frame, np.roll(frame, -1, 0), value, np.roll(value, -1), strict=True):
        if (d < 0) != (e < 0):
            ends.append(here + (there - here) * d / (d - e))
    if len(ends) == 2:
        axes.plot(*np.array(ends).T, zorder=2, **style)  # type: ignore[arg-type]


def _draw_cost_row(axes: Axes, program: IntegerProgram, y: Points, low: Points, high: Points) -> None:
    """c·z <= c·y*, and what it leaves of the polyhedron, where y* should be the only integer point."""
    c = program.cost.numpy()
    size = float(np.linalg.norm(c))
    if size == 0:
        return
    a, b = -c / size, float(c @ y) / size
    polygon = _rectangle(low, high)
    for row in [*_rows(program.blocks), (a, b)]:
        polygon = _clip(polygon, *row)
    if len(polygon):
        axes.fill(*polygon.T, facecolor=GREEN, alpha=0.22, linewidth=0, zorder=1)
    _draw_line(
        axes,
        a,
        b,
        low,
        high,
        color=GREEN,
        linestyle=(0, (6, 3)),
        linewidth=1.6,
        label="cost constraint of y*\n(arrow: cheaper)",
    )
    # From a place beside y* towards lower cost.
    along = np.array([-a[1], a[0]])
    foot = max((y + way * 1.5 * along for way in (1, -1)), key=lambda p: float(np.minimum(p - low, high - p).min()))
    arrow = {"arrowstyle": "-|>", "color": GREEN, "linewidth": 1.4, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", tuple(foot + 0.75 * a), tuple(foot), arrowprops=arrow, zorder=4)


def _draw_points(axes: Axes, program: IntegerProgram, truth: IntegerProgram | None) -> None:
    points = _grid(program)
    allowed = program.is_feasible(points)
    feasible = allowed if truth is None else truth.is_feasible(points)
    for mask, color, label in ((feasible, BLUE, "feasible point"), (~feasible, "#e9a5a0", "infeasible point")):
        if bool(mask.any()):
            axes.plot(*points[mask].numpy().T, "o", color=color, markersize=5, label=label, zorder=3)
    wrong = points[allowed != feasible].numpy()
    if len(wrong):
        axes.plot(*wrong.T, "x", color="black", markersize=9, markeredgewidth=1.8, label="disagreement", zorder=7)


def _draw_negatives(axes: Axes, program: IntegerProgram, negatives: Negatives) -> None:
    if negatives.solution.shape != (2,):
        raise ShapeError(f"negatives must be those of one solution, got the shape {tuple(negatives.solution.shape)}")
    used = negatives.points()[admissible(program.to(negatives.solution.dtype), negatives)]
    if len(used):
        axes.plot(*used.unique(dim=0).numpy().T, "o", color=RED, markersize=7, label="negative of y*", zorder=4)


def _finish(axes: Axes, low: Points, high: Points, title: str | None) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlim(low[0] - MARGIN, high[0] + MARGIN)
    axes.set_ylim(low[1] - MARGIN, high[1] + MARGIN)
    axes.set_aspect("equal")
    axes.set_xlabel("z₀")
    axes.set_ylabel("z₁", rotation=0)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, colors="#4a5568")
    if title:
        axes.set_title(title, fontsize=11)


def _draw_legend(axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(reversed(labels), reversed(handles), strict=True))  # one entry for all lines of a kind
    labels = sorted(unique, key=labels.index)
    axes.legend([unique[x] for x in labels], labels, loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a picture, whole or not at all; the suffix chooses the format."""
    if not path.parent.is_dir():
        raise InputError(f"path must lie in a folder that exists, got {path}")
    kinds = figure.canvas.get_supported_filetypes()
    if path.suffix[1:] not in kinds:
        raise InputError(
            f"path must end in one of {', '.join('.' + kind for kind in sorted(kinds))}, got {path.name!r}"
        )
    with written_whole(path) as part:
        figure.savefig(part, dpi=100)
