"""The cost of matching keypoints: features passed along the edges of each image's graph, then compared.

Points of one image are joined as Delaunay's triangles join them. A round of messages adds to each point what its
neighbours look like and where they lie from it. The cost of matching i with j is minus the affinity of what both have
become, each weighed by what the two images have in common.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import safetensors
import safetensors.torch
import torch
from jaxtyping import Float
from torch import Tensor, nn

from neuralilp.errors import FileFormatError, InputError, ShapeError
from neuralilp.files import write_whole
from neuralilp.starts import drawn_from

SCALE = 10.0
"""Of affinities at the start, which are cosines."""

DIRECTIONS = 32
"""The width of what tells where a message is from. It is computed for every edge: as wide as the features of a point,
it would be half of a step."""


class Graphs(NamedTuple):
    """One graph for each sample: features, places and edges of its k points."""

    feature: Float[Tensor, "*batch k width"]
    place: Float[Tensor, "*batch k 2"]
    """From -1 to 1 over the sample's points."""
    edge: Float[Tensor, "*batch k k"]
    """1 where two points are joined."""


class GraphPair(NamedTuple):
    left: Graphs
    right: Graphs


def delaunay_edges(point: Float[Tensor, "k 2"]) -> Float[Tensor, "k k"]:
    """Which points are corners of one of Delaunay's triangles; all of them where there is no triangle."""
    from scipy.spatial import Delaunay, QhullError  # type: ignore[import-untyped]

    k = len(point)
    edge = torch.zeros(k, k)
    try:
        for triangle in Delaunay(point.double().numpy()).simplices if k > 3 else []:
            corners = torch.from_numpy(triangle).long()
            edge[corners[:, None], corners] = 1
    except QhullError:
        pass  # all on one line
    if not bool(edge.any()):
        edge += 1
    return edge.fill_diagonal_(0)


def centred(point: Float[Tensor, "k 2"]) -> Float[Tensor, "k 2"]:
    """Around 0, the farthest coordinate at ±1."""
    moved = point - point.mean(0)
    return moved / moved.abs().amax().clamp(min=1e-6)


class GraphLayer(nn.Module):
    """To each point the mean of its neighbours' messages, which depend on their features and on where they lie."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.own = nn.Linear(width, width)
        self.message = nn.Linear(width, width)
        self.direction = nn.Sequential(nn.Linear(2, DIRECTIONS), nn.ReLU(), nn.Linear(DIRECTIONS, width))
        self.norm = nn.LayerNorm(width)

    def forward(
        self,
        h: Float[Tensor, "*batch k width"],
        offset: Float[Tensor, "*batch k k 2"],
        edge: Float[Tensor, "*batch k k"],
    ) -> Float[Tensor, "*batch k width"]:
        """``offset[i, j]`` is where j lies from i."""
        sent = self.message(h).unsqueeze(-3) * (1 + self.direction(offset))
        heard = (edge.unsqueeze(-1) * sent).sum(-2) / edge.sum(-1, keepdim=True).clamp(min=1)
        return self.norm(h + torch.relu(self.own(h) + heard))


class PlaceDropout(nn.Module):
    """While training, the share p of pairs without the places of their points, and half of the others mirrored.

    Points lie alike in most images of a kind, and a network that has learnt to go by that is wrong about the few where
    they do not. Mirrored places, in both images, keep what belongs together.
    """

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        self.p = p

    def forward(self, place: Float[Tensor, "2 *batch k 2"]) -> Float[Tensor, "2 *batch k 2"]:
        """With p = 0 nothing is changed."""
        if not (self.training and self.p):
            return place
        drawn = torch.rand(2, *place.shape[1:-2], 1, device=place.device)
        is_mirrored, is_shown = drawn[0] < 0.5, drawn[1] >= self.p
        x, y = place.unbind(-1)
        return torch.stack([torch.where(is_mirrored, -x, x), y], -1) * is_shown.unsqueeze(-1)


class MatchingCost(nn.Module):
    """Two graphs with k points each -> c, `*batch k·k`, for :class:`~neuralilp.NetworkCost`: c = -affinity."""

    def __init__(
        self, inputs: int, *, width: int = 128, layers: int = 2, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        if inputs < 1 or width < 1 or layers < 0:
            raise InputError(
                f"inputs and width must be positive and layers at least 0, got {inputs}, {width}, {layers}"
            )
        self.inputs = inputs
        with drawn_from(generator):
            self.enter = nn.Linear(inputs, width)
            self.place = nn.Linear(2, width)
            self.layers = nn.ModuleList(GraphLayer(width) for _ in range(layers))
            self.weigh = nn.Linear(2 * width, width)
            self.leave = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.tensor(SCALE))
        self.dropout = nn.Dropout(0.0)
        """Of features, while training; a method may set its ``p``."""
        self.place_dropout = PlaceDropout()
        """Likewise."""

    def refine(self, graphs: Graphs) -> Float[Tensor, "*batch k width"]:
        h = self.enter(self.dropout(graphs.feature)) + self.place(graphs.place)
        offset = graphs.place.unsqueeze(-3) - graphs.place.unsqueeze(-2)
        for layer in self.layers:
            h = layer(h, offset, graphs.edge)
        return h

    def forward(self, pair: GraphPair) -> Float[Tensor, "*batch var"]:
        for graphs in pair:
            if graphs.feature.shape[-1] != self.inputs:
                raise ShapeError(f"feature must be `*batch k {self.inputs}`, got {tuple(graphs.feature.shape)}")
        both = Graphs(*(torch.stack(parts) for parts in zip(*pair, strict=True)))
        left, right = self.refine(both._replace(place=self.place_dropout(both.place)))
        common = torch.cat([left.mean(-2), right.mean(-2)], -1)
        weight = torch.tanh(self.weigh(common)).unsqueeze(-2)
        left, right = (nn.functional.normalize(self.leave(h), dim=-1) for h in (left, right))
        affinity = (left * (1 + weight)) @ right.transpose(-1, -2)
        return -self.scale * affinity.flatten(-2)


def save_cost(network: MatchingCost, path: Path) -> None:
    """The weights, whole or not at all."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    write_whole(path, safetensors.torch.save(tensors))


def load_cost(path: Path, inputs: int) -> MatchingCost:
    """What :func:`save_cost` wrote, for features of the width ``inputs``."""
    network = MatchingCost(inputs, generator=torch.Generator())
    try:
        network.load_state_dict(safetensors.torch.load_file(path))
    except (OSError, safetensors.SafetensorError, RuntimeError) as error:
        raise FileFormatError(
            f"{path} must be the cost network of a run on features {inputs} wide: {' '.join(str(error).split())[:200]}"
        ) from None
    return network
