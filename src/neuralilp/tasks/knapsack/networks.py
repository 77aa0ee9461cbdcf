"""The networks of the knapsack: an MLP for each item, which says its price and weights, and one for an instance."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from neuralilp.constraints import Box, NetworkConstraints
from neuralilp.costs import NetworkCost
from neuralilp.errors import InputError, ShapeError
from neuralilp.model import NeuralILP
from neuralilp.starts import drawn_from

HIDDEN, NUM_CONSTRAINTS = 512, 4
"""Of the paper."""

BOUNDS = (-0.5, 1.5)
"""Of the paper: bounds that are at a distance from both values of a variable."""

Range = tuple[float, float]


class ItemNetwork(nn.Module):
    """Vectors of items -> ``outputs`` numbers for each of them: a hidden layer, then a linear one.

    With ``ranges``, one for each output, a sigmoid keeps it there.
    """

    low: Tensor
    high: Tensor

    def __init__(
        self,
        width: int,
        outputs: int,
        *,
        hidden: int = HIDDEN,
        ranges: list[Range] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if width < 1 or outputs < 1 or hidden < 1:
            raise InputError(f"width, outputs and hidden must be positive, got {width}, {outputs} and {hidden}")
        if ranges is not None and len(ranges) != outputs:
            raise InputError(f"ranges must be one for each of {outputs} outputs, got {len(ranges)}")
        self.width = width
        with drawn_from(generator):
            self.layers = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
        self.is_bounded = ranges is not None
        bounds = torch.tensor(ranges or [(0.0, 1.0)] * outputs)
        self.register_buffer("low", bounds[:, 0].clone())
        self.register_buffer("high", bounds[:, 1].clone())

    def forward(self, x: Float[Tensor, "*batch item width"]) -> Float[Tensor, "*batch item output"]:
        check_vectors(x, self.width)
        out = self.layers(x)
        return self.low + (self.high - self.low) * out.sigmoid() if self.is_bounded else out


class LinearReader(nn.Module):
    """Vectors of items -> ``outputs`` numbers for each of them, linear, zero at the start."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        if width < 1 or outputs < 1:
            raise InputError(f"width and outputs must be positive, got {width} and {outputs}")
        self.width = width
        self.linear = nn.Linear(width, outputs)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Float[Tensor, "*batch item width"]) -> Float[Tensor, "*batch item output"]:
        check_vectors(x, self.width)
        return self.linear(x / math.sqrt(self.width))


class FilledAtFirst(nn.Module):
    """The outputs of a network as changes of a start in which items are alike and ``chosen`` of them fill the knapsack.

    Without it rows begin anywhere, mostly far off, and nothing says whether the cost or a row should keep a neighbour
    out. ``spread`` is how much a 1 from the network changes the start.
    """

    start: Tensor

    def __init__(self, network: nn.Module, num_constraints: int, chosen: float, *, spread: float = 1.0) -> None:
        super().__init__()
        if not chosen > 0:
            raise InputError(f"chosen must be positive, got {chosen}")
        self.network = network
        self.spread = spread
        self.register_buffer("start", torch.tensor([-1.0, *[-1.0 / chosen] * num_constraints]))

    def forward(self, x: Float[Tensor, "*batch item width"]) -> Float[Tensor, "*batch item output"]:
        return self.start * (1 + self.spread * self.network(x))


def check_vectors(x: Tensor, width: int) -> None:
    if x.ndim < 2 or x.shape[-1] != width:
        raise ShapeError(f"x must be `*batch item {width}`, vectors as wide as those of training, got {tuple(x.shape)}")
    if not x.shape[-2]:
        raise ShapeError(f"x must have at least one item, got {tuple(x.shape)}")


def check_items(x: Tensor, num_items: int) -> None:
    if x.shape[-2] != num_items:
        raise ShapeError(f"x must have the {num_items} items of training, got {x.shape[-2]}")


class PriceHead(nn.Module):
    """The first output of each item, as its cost."""

    def __init__(self, num_items: int) -> None:
        super().__init__()
        self.num_items = num_items

    def forward(self, out: Float[Tensor, "*batch item output"]) -> Float[Tensor, "*batch item"]:
        check_items(out, self.num_items)
        return out[..., 0]


class WeightHead(nn.Module):
    """The other outputs, each a row over the items."""

    def forward(self, out: Float[Tensor, "*batch item output"]) -> Float[Tensor, "*batch constr item"]:
        return out[..., 1:].transpose(-1, -2)


def new_model(network: nn.Module, num_items: int) -> NeuralILP:
    """c and A from the items' vectors, b = 1: A z + 1 >= 0. The network's first output is c, the others are A."""
    return NeuralILP(
        NetworkCost(PriceHead(num_items)),
        [NetworkConstraints(WeightHead(), offset=1.0)],
        Box(*BOUNDS, num_items),
        encoder=network,
    )


class SubsetNetwork(nn.Module):
    """All vectors of an instance -> a score for each item to be chosen, without any program."""

    def __init__(
        self, width: int, num_items: int, *, hidden: int = HIDDEN, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.width, self.num_items = width, num_items
        with drawn_from(generator):
            self.layers = nn.Sequential(nn.Linear(width * num_items, hidden), nn.ReLU(), nn.Linear(hidden, num_items))

    def forward(self, x: Float[Tensor, "*batch item width"]) -> Float[Tensor, "*batch item"]:
        check_vectors(x, self.width)
        check_items(x, self.num_items)
        return self.layers(x.flatten(-2))

    @torch.no_grad()
    def predict(self, x: Float[Tensor, "*batch item width"]) -> Float[Tensor, "*batch item"]:
        return (self(x) > 0).float()
