"""The cost of matching: graphs, messages along them, affinities."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from neuralilp.errors import InputError, ShapeError
from neuralilp.tasks.keypoints.networks import GraphPair, Graphs, MatchingCost, PlaceDropout, centred, delaunay_edges


def graphs(generator: torch.Generator, batch: int = 3, k: int = 5) -> Graphs:
    place = torch.randn(batch, k, 2, generator=generator)
    edge = torch.stack([delaunay_edges(points) for points in place])
    return Graphs(torch.randn(batch, k, 7, generator=generator), place, edge)


def reordered(graph: Graphs, order: torch.Tensor) -> Graphs:
    return Graphs(graph.feature[:, order], graph.place[:, order], graph.edge[:, order][:, :, order])


def test_a_square_with_its_middle() -> None:
    edge = delaunay_edges(torch.tensor([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0], [1.0, 1.0]]))
    assert torch.equal(edge, edge.mT)
    assert edge[4].tolist() == [1, 1, 1, 1, 0]
    assert edge[0, 2] == edge[1, 3] == 0


@pytest.mark.parametrize("k", [2, 3, 6])
def test_points_without_triangles_are_all_joined(k: int) -> None:
    line = torch.arange(float(k))[:, None].expand(k, 2)
    assert torch.equal(delaunay_edges(line), 1 - torch.eye(k))


def test_centred() -> None:
    moved = centred(torch.tensor([[10.0, 10.0], [30.0, 14.0]]))
    torch.testing.assert_close(moved, torch.tensor([[-1.0, -0.2], [1.0, 0.2]]))
    assert not centred(torch.ones(2, 2)).any()


def test_the_order_of_the_points_does_not_matter(generator: torch.Generator) -> None:
    network = MatchingCost(7, width=16, generator=generator)
    left, right = graphs(generator), graphs(generator)
    order = torch.tensor([3, 1, 4, 0, 2])
    cost = network(GraphPair(left, right)).view(3, 5, 5)
    torch.testing.assert_close(network(GraphPair(reordered(left, order), right)).view(3, 5, 5), cost[:, order])
    torch.testing.assert_close(network(GraphPair(left, reordered(right, order))).view(3, 5, 5), cost[:, :, order])


def test_neighbours_matter_and_others_do_not(generator: torch.Generator) -> None:
    network = MatchingCost(7, width=16, layers=1, generator=generator)
    graph = graphs(generator, batch=1)
    edge = torch.zeros(1, 5, 5)
    edge[0, 0, 1] = edge[0, 1, 0] = 1
    graph = graph._replace(edge=edge)
    moved = graph.feature.clone()
    moved[0, 1] += 1
    before, after = network.refine(graph), network.refine(graph._replace(feature=moved))
    changed = (before != after).any(-1)[0]
    assert changed.tolist() == [True, True, False, False, False]


def test_it_learns_to_match(generator: torch.Generator) -> None:
    """Features of the right image are those of the left in another basis."""
    network = MatchingCost(7, width=32, generator=generator)
    basis = torch.randn(7, 7, generator=generator)
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(250):
        left = graphs(generator, batch=16)
        order = torch.randperm(5, generator=generator)
        right = reordered(left._replace(feature=left.feature @ basis), order)
        scores = -network(GraphPair(left, right)).view(16, 5, 5)
        target = torch.empty_like(order)
        target[order] = torch.arange(5)
        loss = torch.nn.functional.cross_entropy(10 * scores.flatten(0, 1), target.repeat(16))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert (scores.argmax(-1) == target).float().mean() > 0.9


@pytest.mark.wrong_types
def test_bad_arguments(generator: torch.Generator) -> None:
    graph = graphs(generator)
    with pytest.raises(ShapeError, match=r"feature must be `\*batch k 6`, got \(3, 5, 7\)"):
        MatchingCost(6)(GraphPair(graph, graph))
    with pytest.raises(InputError, match="inputs and width must be positive and layers at least 0, got 0, 128, 2"):
        MatchingCost(0)


def test_places_drop_out_of_both_images_while_training() -> None:
    place = torch.rand(2, 400, 3, 2) + 1
    dropout = PlaceDropout(0.25)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        changed = dropout(place) / place + 0.0  # no -0
    assert changed[0].equal(changed[1])  # what belongs together stays so
    kinds = Counter(map(tuple, changed[0].flatten(1).tolist()))
    shares = {kind: count / 400 for kind, count in kinds.items()}
    expected = {(0.0, 0.0) * 3: 0.25, (1.0, 1.0) * 3: 0.375, (-1.0, 1.0) * 3: 0.375}
    assert shares == pytest.approx(expected, abs=0.1)
    assert PlaceDropout()(place) is place
    assert dropout.eval()(place) is place
