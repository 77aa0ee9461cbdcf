"""The paper's illustration: a hidden program, and one step of learning it.

    python examples/illustration.py --out illustration.png

Left, the hidden program: the cost constraint (dashed) leaves y* as the only integer point. Right, a moment in learning:
y* is outside the fourth row and a negative y⁻ is inside all of them, nearest to the third. Arrows and dotted lines show
where a step of gradient descent on the loss moves these two rows; the others stay.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

import neuralilp as ni
from neuralilp.plotting import GREEN, RED, plot_program, save_figure

COST, Y, NEGATIVE = torch.tensor([-1.0, -1.2]), torch.tensor([2.0, 3.0]), torch.tensor([4.0, 2.0])
BOX = ni.Bounds(torch.zeros(2), torch.tensor([5.0, 4.0]))
HIDDEN = torch.tensor([[1.0, 0.25, -0.9], [0.2, 1.0, -0.8], [-1.0, -0.2, 3.7], [-0.3, -1.0, 3.7]])
"""Rows (a₀, a₁, b) of a·z + b >= 0."""
LEARNT = torch.tensor([[1.0, -0.1, -0.6], [-0.1, 1.0, -0.5], [-1.0, -0.1, 4.5], [-0.1, -1.0, 2.75]])
RATE = 0.05


def program(rows: Tensor) -> ni.IntegerProgram:
    return ni.IntegerProgram(COST, BOX, (ni.ConstraintBlock(rows[:, :2], rows[:, 2], is_learned=True),))


def step(rows: Tensor, negative: Tensor) -> tuple[Tensor, ni.LossTerms]:
    """The rows after one step on λ₊L₊ + λ₋L₋ (Eq. 5) with margins and temperature 0, as in the paper's text."""
    rows = rows.clone().requires_grad_()
    loss = ni.ILPLoss(positive_margin=0.0, negative_margin=0.0, known_rows_compete=False)
    negatives = ni.Negatives.from_points(Y[None], negative[None, None])
    terms = loss(program(rows), Y[None], negatives, temperature=0.0)
    (4 * terms.positive + terms.negative).backward()
    assert rows.grad is not None
    return (rows - RATE * rows.grad).detach(), terms


def draw_move(axes: Axes, row: int, after: Tensor, point: Tensor, color: str) -> None:
    """An arrow from the row towards the point, and a dotted line where the row comes to lie."""
    a, b = LEARNT[row, :2], LEARNT[row, 2]
    foot = point - (a @ point + b) / a.square().sum() * a
    arrow = {"arrowstyle": "-|>", "color": color, "linewidth": 2.0, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", point.tolist(), foot.tolist(), arrowprops=arrow, zorder=8)
    direction = torch.stack([-after[1], after[0]])
    on_line = point - (after[:2] @ point + after[2]) / after[:2].square().sum() * after[:2]
    axes.axline(on_line.tolist(), (on_line + direction).tolist(), color=color, linestyle=":", linewidth=1.6)


def main(out: Path | None = None) -> tuple[Tensor, ni.LossTerms]:
    after, terms = step(LEARNT, NEGATIVE)
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    plot_program(program(HIDDEN), solution=Y, name="hidden", title="The hidden program", axes=left)
    shown = ni.Negatives.from_points(Y, NEGATIVE[None])
    plot_program(program(LEARNT), solution=Y, negatives=shown, title="A step of learning", axes=right)
    for point, row, color, label in ((Y, 3, GREEN, "y*"), (NEGATIVE, 2, RED, "y⁻")):
        draw_move(right, row, after[row], point, color)
        right.annotate(label, point.tolist(), xytext=(8, 6), textcoords="offset points", color=color, fontsize=13)
    if out is not None:
        save_figure(figure, out)
    return after, terms


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("illustration.png"), help="where to draw it")
    after, terms = main(**vars(parser.parse_args()))
    print(f"L₊ {terms.positive:.3f}, L₋ {terms.negative:.3f}; rows moved:")
    print(after - LEARNT)
