"""Pictures: what is drawn, by hand-derived geometry, and how files are written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.errors import InputError, ShapeError
from neuralilp.negatives import Negatives, OneHop
from neuralilp.plotting import plot_program
from neuralilp.program import IntegerProgram


def triangle(offset: float = 2.5) -> IntegerProgram:
    """z0 + z1 <= offset in the box [0, 3]², and a row that never matters: z0 + z1 >= -1."""
    a, b = torch.tensor([[-1.0, -1.0], [1.0, 1.0]]), torch.tensor([offset, 1.0])
    bounds = Bounds(torch.zeros(2), torch.full((2,), 3.0))
    return IntegerProgram(torch.tensor([-1.0, -2.0]), bounds, (ConstraintBlock(a, b, is_learned=True),))


def axes_of(figure: Figure) -> Axes:
    (axes,) = figure.axes
    return axes


def polygon(figure: Figure, label: str) -> NDArray[np.float64]:
    """The distinct corners of a filled polygon, sorted."""
    (patch,) = [patch for patch in axes_of(figure).patches if patch.get_label() == label]
    return np.unique(np.asarray(patch.get_path().vertices).round(6), axis=0)


def points(figure: Figure, label: str) -> set[tuple[float, ...]]:
    lines = [line for line in axes_of(figure).lines if line.get_label() == label]
    return {tuple(point) for line in lines for point in np.asarray(line.get_xydata()).tolist()}


def labels(figure: Figure) -> list[str]:
    legend = axes_of(figure).get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def test_polyhedron_points_and_lines() -> None:
    # z0 + z1 <= 2.5 leaves of the box the triangle (0, 0), (2.5, 0), (0, 2.5), and six of its sixteen points.
    figure = plot_program(triangle())
    assert polygon(figure, "learnt polyhedron").tolist() == [[0, 0], [0, 2.5], [2.5, 0]]
    assert points(figure, "feasible point") == {(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)}
    assert len(points(figure, "infeasible point")) == 10
    # The line z0 + z1 = 2.5 meets the frame [-0.6, 3.6]² at (-0.6, 3.1) and (3.1, -0.6).
    assert np.allclose(sorted(points(figure, "learnt constraint")), [(-0.6, 3.1), (3.1, -0.6)])
    assert np.allclose(sorted(points(figure, "learnt, redundant")), [(-0.6, -0.4), (-0.4, -0.6)])
    assert "true constraint" not in labels(figure)


def test_truth_decides_which_points_are_feasible() -> None:
    figure = plot_program(triangle(2.5), truth=triangle(1.5))
    assert points(figure, "feasible point") == {(0, 0), (0, 1), (1, 0)}
    assert points(figure, "disagreement") == {(0, 2), (1, 1), (2, 0)}
    assert "true constraint" in labels(figure)
    assert "disagreement" not in labels(plot_program(triangle(2.5), truth=triangle(2.25)))


def test_solution_cost_row_and_negatives() -> None:
    # c = (-1, -2): the optimum is (0, 2), and c·z <= c·y* is z0 + 2 z1 >= 4, a line through (0, 2) and (2, 1).
    program, solution = triangle(), torch.tensor([0.0, 2.0])
    figure = plot_program(program, solution=solution, negatives=OneHop()(program, solution))
    assert points(figure, "y*") == {(0, 2)}
    (label,) = [label for label in labels(figure) if label.startswith("cost constraint")]
    ends = np.array(sorted(points(figure, label)))
    assert np.allclose(ends @ [1, 2], 4)
    # Of the neighbours (-1, 2) leaves the box and (0, 1) costs more: what is known separates them.
    assert points(figure, "negative of y*") == {(0, 3), (1, 2)}


def test_equality_is_a_strip() -> None:
    # |z0 - z1| <= 0.5 in [0, 1]²: the corners (0, 0), (0, 0.5), (0.5, 1), (1, 1), (1, 0.5), (0.5, 0).
    block = ConstraintBlock(torch.tensor([[1.0, -1.0]]), torch.zeros(1), slack=torch.tensor([0.5]))
    program = IntegerProgram(torch.ones(2), Bounds(torch.zeros(2), torch.ones(2)), (block,))
    figure = plot_program(program)
    assert polygon(figure, "learnt polyhedron").tolist() == [[0, 0], [0, 0.5], [0.5, 0], [0.5, 1], [1, 0.5], [1, 1]]
    assert points(figure, "feasible point") == {(0, 0), (1, 1)}


def test_empty_polyhedron_zero_rows_and_zero_cost_are_drawn() -> None:
    block = ConstraintBlock(torch.tensor([[1.0, 0.0], [0.0, 0.0]]), torch.tensor([-9.0, 1.0]), is_learned=True)
    program = IntegerProgram(torch.zeros(2), Bounds(torch.zeros(2), torch.ones(2)), (block,))
    figure = plot_program(program, solution=torch.tensor([0.0, 1.0]), title="nothing is left")
    assert "learnt polyhedron" not in labels(figure)
    assert "feasible point" not in labels(figure)
    assert axes_of(figure).get_title() == "nothing is left"


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_file_is_written_whole(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"picture{suffix}"
    path.write_text("an old one")
    plot_program(triangle(), path=path)
    assert path.stat().st_size > 1000
    assert list(tmp_path.iterdir()) == [path]


def test_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "picture.png"
    path.write_text("an old one")

    def full(self: Figure, name: Path, **_: object) -> None:
        name.write_text("half")
        raise OSError("disk full")

    monkeypatch.setattr(Figure, "savefig", full)
    with pytest.raises(OSError, match="disk full"):
        plot_program(triangle(), path=path)
    assert path.read_text() == "an old one"
    assert list(tmp_path.iterdir()) == [path]


def test_input_that_cannot_be_drawn(tmp_path: Path) -> None:
    def boxed(lower: float, upper: float, n: int = 2) -> IntegerProgram:
        return IntegerProgram(torch.ones(n), Bounds(torch.full((n,), float(lower)), torch.full((n,), float(upper))))

    with pytest.raises(ShapeError, match="program must be a single program with 2 variables, got 3"):
        plot_program(boxed(0, 1, n=3))
    with pytest.raises(ShapeError, match=r"truth must be .* batch shape \(4,\): take truth.instance"):
        plot_program(triangle(), truth=triangle().map(lambda t: t.expand(4, *t.shape)))
    with pytest.raises(InputError, match="finite bounds"):
        plot_program(boxed(0, float("inf")))
    with pytest.raises(InputError, match="at most 10000 integer points"):
        plot_program(boxed(0, 1000))
    with pytest.raises(ShapeError, match=r"solution must have shape \(2,\)"):
        plot_program(triangle(), solution=torch.zeros(3))
    several = Negatives.from_points(torch.zeros(4, 2), torch.ones(4, 1, 2))
    with pytest.raises(ShapeError, match="negatives must be those of one solution"):
        plot_program(triangle(), negatives=several)
    with pytest.raises(InputError, match=r"path must end in one of .*\.png"):
        plot_program(triangle(), path=tmp_path / "picture.doc")
    with pytest.raises(InputError, match="folder that exists"):
        plot_program(triangle(), path=tmp_path / "no" / "picture.png")


def test_two_programs_in_one_figure() -> None:
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert plot_program(triangle(), name="hidden", axes=left) is figure
    plot_program(triangle(1.5), axes=right)
    assert left.get_legend() is None
    assert "hidden polyhedron" in {patch.get_label() for patch in left.patches}
    assert "learnt polyhedron" in {patch.get_label() for patch in right.patches}
