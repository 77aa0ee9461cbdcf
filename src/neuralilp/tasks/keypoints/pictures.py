"""Pictures of matched pairs: which point of one image was taken for which of the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor

from neuralilp.errors import ShapeError
from neuralilp.plotting import GREEN, RED, save_figure
from neuralilp.tasks.keypoints.images import AnnotatedImage, Matches, read_image

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 2
GAP = 0.08
"""Between the images of a pair, which are drawn 1 high."""


def draw_matches(
    path: Path, images: Sequence[AnnotatedImage], matches: Matches, answers: Float[Tensor, "sample var"]
) -> None:
    """Each pair side by side, a line for each match of the answer: green for right ones, red for wrong ones.

    A left point without any has a red ring; so have all of them where there is no answer.
    """
    from matplotlib.figure import Figure

    if answers.shape != matches.target.flatten(1).shape:
        raise ShapeError(f"answers must be `sample k·k` for {len(matches.target)} samples, got {tuple(answers.shape)}")
    rows = math.ceil(len(answers) / COLUMNS)
    figure = Figure(figsize=(6 * COLUMNS, 2.6 * rows), layout="constrained")
    panels = list(figure.subplots(rows, COLUMNS, squeeze=False).flat)
    chosen = answers.view_as(matches.target) > 0.5
    for axes in panels:
        axes.axis("off")
    for i, axes in enumerate(panels[: len(answers)]):
        pair = [images[number] for number in matches.image[i].tolist()]
        _draw_pair(axes, pair, (matches.left_point[i], matches.right_point[i]), chosen[i], matches.target[i] > 0.5)
    save_figure(figure, path)


def _draw_pair(
    axes: Axes, pair: Sequence[AnnotatedImage], points: tuple[Tensor, Tensor], chosen: Tensor, target: Tensor
) -> None:
    places, edge = [], 0.0
    for image, numbers in zip(pair, points, strict=True):
        pixels = read_image(image.path)
        height, width = pixels.shape[1:]
        axes.imshow(
            pixels.permute(1, 2, 0).numpy(), extent=(edge, edge + width / height, 1, 0), interpolation="antialiased"
        )
        scaled = (image.point[numbers] + 0.5) / height  # the middle of a pixel
        places.append([(edge + x, y) for x, y in scaled.tolist()])
        edge += width / height + GAP
    lefts, rights = places
    for (x, y), row in zip(lefts, chosen, strict=True):
        if not bool(row.any()):
            axes.plot(x, y, "o", color=RED, fillstyle="none", markersize=13, markeredgewidth=2.2)
    for i, j in chosen.nonzero().tolist():
        (x, y), (u, v) = lefts[i], rights[j]
        color = GREEN if target[i, j] else RED
        axes.plot([x, u], [y, v], color="white", linewidth=3.2, alpha=0.7, zorder=2)
        axes.plot([x, u], [y, v], color=color, linewidth=1.8, zorder=3)
    axes.plot(*zip(*lefts, *rights, strict=True), "o", color="white", markeredgecolor="black", markersize=5, zorder=4)
    right = int((chosen == target).all(-1).sum())
    axes.set_title(f"{pair[0].category}: {right} of {len(target)} right", fontsize=10)
    axes.set_xlim(0, edge - GAP)
    axes.set_ylim(1, 0)
    axes.set_aspect("equal")
