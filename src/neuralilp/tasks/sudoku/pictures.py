"""Pictures of boards, and of what was learnt beside what is true."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtyping import Float, Int8
from torch import Tensor

from neuralilp.errors import ShapeError
from neuralilp.plotting import BLUE, GREEN, RED, save_figure
from neuralilp.tasks.sudoku.boards import Boxes
from neuralilp.tasks.sudoku.data import DIGITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_answers(
    path: Path,
    quizzes: Int8[Tensor, "board row column"],
    answers: Int8[Tensor, "board row column"],
    solutions: Int8[Tensor, "board row column"],
    boxes: Boxes,
    *,
    images: Float[Tensor, "board cell 28 28"] | None = None,
) -> None:
    """Boards side by side: givens black, or as the images show them; answers green, wrong ones red; 0 stays blank."""
    from matplotlib.figure import Figure

    if not quizzes.shape == answers.shape == solutions.shape:
        shapes = ", ".join(str(tuple(boards.shape)) for boards in (quizzes, answers, solutions))
        raise ShapeError(f"quizzes, answers and solutions must have one shape, got {shapes}")
    count, k = len(quizzes), boxes.size
    figure = Figure(figsize=(count * (0.4 * k + 0.6), 0.4 * k + 0.6), layout="constrained")
    for board, axes in enumerate(figure.subplots(1, count, squeeze=False).flat):
        _draw_grid(axes, boxes)
        for cell in range(k * k):
            row, column = divmod(cell, k)
            given, answer = int(quizzes[board, row, column]), int(answers[board, row, column])
            if given and images is not None:
                place = (column, column + 1, row + 1, row)
                axes.imshow(images[board, cell].numpy(), cmap="gray_r", extent=place, vmin=0, vmax=1)
            elif given or answer:
                is_right = answer == int(solutions[board, row, column])
                color = "black" if given else GREEN if is_right else RED
                text = chr(DIGITS[given or answer])
                axes.text(column + 0.5, row + 0.5, text, color=color, ha="center", va="center", fontsize=14)
        _frame(axes, k)
    save_figure(figure, path)


def draw_matrices(path: Path, matrices: Mapping[str, Float[Tensor, "constr var"]]) -> None:
    """Matrices one below the other, a column a variable: white for 0, blue for positive, red for negative entries."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    colors = LinearSegmentedColormap.from_list("signs", [RED, "white", BLUE])
    heights = [max(len(matrix), 1) for matrix in matrices.values()]
    figure = Figure(figsize=(7, 7 * sum(heights) / 64 + 0.6 * len(heights)), layout="constrained")
    panels = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False).flat
    for axes, (name, matrix) in zip(panels, matrices.items(), strict=True):
        if len(matrix):
            size = max(float(matrix.abs().max()), 1e-12)
            axes.imshow(matrix.numpy(), cmap=colors, vmin=-size, vmax=size, aspect="auto", interpolation="nearest")
        axes.set_title(f"{name}: {matrix.shape[0]} rows", fontsize=10)
        axes.set_xticks([])
        axes.set_yticks([])
    save_figure(figure, path)


def _draw_grid(axes: Axes, boxes: Boxes) -> None:
    k = boxes.size
    for line in range(k + 1):
        axes.plot([0, k], [line, line], color="black", linewidth=2 if line % boxes.rows == 0 else 0.5)
        axes.plot([line, line], [0, k], color="black", linewidth=2 if line % boxes.columns == 0 else 0.5)


def _frame(axes: Axes, k: int) -> None:
    """All of the board and nothing else, the first row on top, whatever was drawn."""
    axes.set_xlim(-0.05, k + 0.05)
    axes.set_ylim(k + 0.05, -0.05)
    axes.set_aspect("equal")
    axes.axis("off")
