"""Images of digits that differ a little at each use."""

from __future__ import annotations

import torch
from torch import nn

from neuralilp.tasks.sudoku.jitter import Jittered, jittered


def squares() -> torch.Tensor:
    """Two boards of three cells: a square in the middle, nothing, and one again."""
    images = torch.zeros(2, 3, 28, 28)
    images[:, ::2, 10:18, 10:18] = 1
    return images


def test_digits_move_a_little_and_blanks_stay() -> None:
    images = squares()
    moved = jittered(images, torch.Generator().manual_seed(1))
    assert torch.equal(images, squares())
    assert moved.shape == images.shape
    assert torch.equal(moved[:, 1], images[:, 1])
    drawn, before = moved[:, ::2].flatten(0, 1), images[:, ::2].flatten(0, 1)
    assert len({tuple(image.flatten().tolist()) for image in drawn}) == 4
    ink = drawn.sum((-1, -2)) / before.sum((-1, -2))
    assert (ink > 0.75).all()
    assert (ink < 1.3).all()
    rows, columns = torch.meshgrid(torch.arange(28.0), torch.arange(28.0), indexing="ij")
    for at in (rows, columns):
        centre = (drawn * at).sum((-1, -2)) / drawn.sum((-1, -2))
        assert ((centre - 13.5).abs() <= 2.2).all()


def test_the_generator_decides() -> None:
    one, again, other = (jittered(squares(), torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_boards_without_digits() -> None:
    assert torch.equal(jittered(torch.zeros(1, 2, 28, 28)), torch.zeros(1, 2, 28, 28))


class Seen(nn.Module):
    def forward(self, x: torch.Tensor, solution: torch.Tensor, **rest: object) -> tuple[torch.Tensor, torch.Tensor]:
        assert rest["temperature"] == 0.5
        return x, solution


def test_a_step_sees_jittered_images() -> None:
    solution = torch.ones(2, 4)
    x, same = Jittered(Seen())(squares(), solution, temperature=0.5, generator=torch.Generator().manual_seed(1))
    assert same is solution
    assert torch.equal(x, jittered(squares(), torch.Generator().manual_seed(1)))
