"""RRN: the graph, messages edge by edge as oracle, its loss, and learning Latin squares."""

from __future__ import annotations

import pytest
import torch
from latin import CELLS, DIGITS, accuracy_after, latin_puzzles
from torch import Tensor, nn

from neuralilp.baselines.rrn import RRN, RRNStep, board_neighbours
from neuralilp.errors import InputError, ShapeError


def small(generator: torch.Generator, **options: object) -> RRN:
    return RRN(board_neighbours(1, 3), DIGITS, **{"hidden": 8, "steps": 3, "generator": generator, **options})


@pytest.mark.parametrize(("rows", "columns", "degree"), [(2, 2, 7), (2, 3, 12), (3, 2, 12), (3, 3, 20), (1, 3, 4)])
def test_neighbours_share_a_row_a_column_or_a_box(rows: int, columns: int, degree: int) -> None:
    side = rows * columns
    neighbours = board_neighbours(rows, columns)
    assert neighbours.shape == (side * side, degree)
    for cell, others in enumerate(neighbours.tolist()):
        r, c = divmod(cell, side)
        expected = [
            o
            for o in range(side * side)
            if o != cell
            and (
                o // side == r
                or o % side == c
                or (o // side // rows == r // rows and o % side // columns == c // columns)
            )
        ]
        assert others == expected


def test_messages_edge_by_edge(generator: torch.Generator) -> None:
    """Each edge on its own, its two states joined, through one MLP."""
    model = small(generator).double()
    h = torch.randn(CELLS, 2, 8, dtype=torch.float64, generator=generator)
    first = nn.Linear(16, 8).double()
    first.weight.data = torch.cat([model.receiver.weight, model.sender.weight], 1)
    first.bias.data = model.receiver.bias.data
    whole = nn.Sequential(first, nn.ReLU(), *model.message, model.last)
    for i, others in enumerate(model.neighbours.tolist()):
        expected = sum(whole(torch.cat([h[i], h[j]], -1)) for j in others)
        torch.testing.assert_close(model.messages(h)[i], expected)


def test_news_travels_one_edge_a_step(generator: torch.Generator) -> None:
    """What cell 0 holds is seen after one step by its row and column and itself, and after two by all."""
    model = small(generator, hidden=32).double()
    x = torch.zeros(2, CELLS, DIGITS, dtype=torch.float64)
    x[1, 0, 2] = 1
    logits = model(x.flatten(1))
    assert logits.shape == (3, 2, CELLS, DIGITS)
    differs = ((logits[:, 0] - logits[:, 1]).abs() > 1e-12).any(-1)
    near = torch.zeros(CELLS, dtype=torch.bool)
    near[[0, *model.neighbours[0].tolist()]] = True
    assert torch.equal(differs[0], near)
    assert differs[1].all()


def test_examples_do_not_meet(generator: torch.Generator) -> None:
    model = small(generator).double()
    x = latin_puzzles(generator)[0].x[:6].double()
    logits = model(x)
    torch.testing.assert_close(model(x.view(2, 3, -1)), logits.view(3, 2, 3, CELLS, DIGITS))
    torch.testing.assert_close(model(x[4]), logits[:, 4])
    z = model.predict(x)
    assert z.shape == x.shape
    assert torch.equal(z.view(6, CELLS, DIGITS).argmax(-1), logits[-1].argmax(-1))
    assert (z.view(6, CELLS, DIGITS).sum(-1) == 1).all()


def test_loss_is_the_mean_over_steps_and_cells(generator: torch.Generator) -> None:
    model = small(generator)
    x, solution = (part[:4] for part in latin_puzzles(generator)[0])
    loss, terms = RRNStep(model)(x, solution, temperature=1.0)
    by_step = -(model(x).log_softmax(-1) * solution.view(4, CELLS, DIGITS)).sum(-1).mean((1, 2))
    torch.testing.assert_close(loss, by_step.mean())
    torch.testing.assert_close(terms.last_cross_entropy, by_step[-1].detach())
    assert terms.cross_entropy == loss
    assert terms.vector_accuracy == 0
    loss.backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())


def test_images_are_seen_through_perception(generator: torch.Generator) -> None:
    """The logits of four classes (one for blanks, say) stand where the one-hot of three digits does otherwise."""
    scores = nn.Sequential(nn.Flatten(2), nn.Linear(4, 4))
    model = small(generator, perception=scores, classes=4)
    seen: list[Tensor] = []
    model.content.register_forward_pre_hook(lambda _, inputs: seen.extend(inputs))
    images = torch.rand(2, CELLS, 2, 2, generator=generator)
    solution = latin_puzzles(generator)[0].solution[:2]
    loss, _ = RRNStep(model)(images, solution, temperature=1.0)
    torch.testing.assert_close(seen[0], scores(images))
    loss.backward()
    assert scores[1].weight.grad.any()


def test_learns_latin_squares(generator: torch.Generator) -> None:
    model = small(generator, hidden=32, steps=5, layers=2)
    assert accuracy_after(RRNStep(model), 60, batch=64, lr=3e-3, generator=generator) > 0.9


def test_the_same_seed_gives_the_same_weights_and_leaves_the_global_generator(generator: torch.Generator) -> None:
    state = torch.get_rng_state()
    first, second = (small(torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not torch.equal(first.output.weight, small(generator).output.weight)


@pytest.mark.wrong_types
def test_errors() -> None:
    graph = board_neighbours(1, 3)
    with pytest.raises(InputError, match="box_rows and box_columns must be positive, got 0 and 3"):
        board_neighbours(0, 3)
    with pytest.raises(InputError, match="neighbours must have a row for each cell of a square board, got 8 rows"):
        RRN(graph[:8], 3)
    with pytest.raises(InputError, match="neighbours must be cells, between 0 and 8"):
        RRN(graph + 1, 3)
    with pytest.raises(InputError, match="steps and layers must be positive, got 3, 96, 0 and 3"):
        RRN(graph, 3, steps=0)
    with pytest.raises(InputError, match="classes are those of a perception network, and there is none"):
        RRN(graph, 3, classes=4)
    with pytest.raises(ShapeError, match=r"x must be `\*batch 27`, got \(2, 26\)"):
        RRN(graph, 3)(torch.zeros(2, 26))
    with pytest.raises(ShapeError, match=r"solution must be \(2, 27\), as x has it, got \(3, 27\)"):
        RRNStep(RRN(graph, 3))(torch.zeros(2, 27), torch.zeros(3, 27), temperature=1.0)
    with pytest.raises(ShapeError, match=r"perception must return `\*batch 9 3`, got \(2, 8, 3\)"):
        RRN(graph, 3, perception=nn.Identity())(torch.zeros(2, 8, 3))
