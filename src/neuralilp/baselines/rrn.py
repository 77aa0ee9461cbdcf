"""Recurrent relational networks (Palm et al. 2018): messages along the edges of a known graph, again and again."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from neuralilp.errors import InputError, ShapeError
from neuralilp.starts import drawn_from

EMBEDDING = 16
"""Width of what a cell's content, row and column each become before they are joined."""


def board_neighbours(box_rows: int, box_columns: int) -> Int[Tensor, "cell degree"]:
    """The cells that share a row, a column or a box with each cell, itself not included; cells are row-major."""
    if box_rows < 1 or box_columns < 1:
        raise InputError(f"box_rows and box_columns must be positive, got {box_rows} and {box_columns}")
    side = box_rows * box_columns
    row, column = torch.arange(side).repeat_interleave(side), torch.arange(side).repeat(side)
    box = row // box_rows * box_rows + column // box_columns
    is_shared = (row == row[:, None]) | (column == column[:, None]) | (box == box[:, None])
    return is_shared.fill_diagonal_(False).nonzero()[:, 1].view(side * side, -1)


class RRN(nn.Module):
    """x -> logits of the digits of each cell after each step, `step *batch cell digit`.

    A cell has features f: what x has in it, its row and its column, each embedded, then an MLP. Its state h starts as
    f. In a step each neighbour j of i sends MLP(h_i, h_j); an LSTM gets MLP(f_i, sum of the messages) and holds h_i;
    the logits are linear in h_i. MLPs have ``layers`` layers with ReLU and a linear one, all ``hidden`` wide.

    ``neighbours`` is the graph, which is given and not learnt (:func:`board_neighbours`), with one degree for all; the
    cells are those of a square board. x is `*batch var`, in each cell a one-hot, or zeros where it is to be found. With
    a ``perception`` network (images -> `*batch cell class` logits), x are images, and its logits are what is in a cell;
    ``classes`` is how many there are, as many as digits if not given.

    The published settings: ``hidden`` 96, 32 ``steps``; Adam 2e-4 with weight decay 1e-4.
    """

    neighbours: Tensor

    def __init__(
        self,
        neighbours: Int[Tensor, "cell degree"],
        digits: int,
        *,
        hidden: int = 96,
        steps: int = 32,
        layers: int = 3,
        perception: nn.Module | None = None,
        classes: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        cells = len(neighbours)
        side = math.isqrt(cells)
        if side * side != cells or not cells:
            raise InputError(f"neighbours must have a row for each cell of a square board, got {cells} rows")
        if neighbours.numel() and not 0 <= int(neighbours.min()) <= int(neighbours.max()) < cells:
            raise InputError(f"neighbours must be cells, between 0 and {cells - 1}")
        if min(digits, hidden, steps, layers) < 1:
            raise InputError(
                f"digits, hidden, steps and layers must be positive, got {digits}, {hidden}, {steps} and {layers}"
            )
        self.digits, self.steps = digits, steps
        self.perception = perception
        self.register_buffer("neighbours", neighbours, persistent=False)
        if classes is not None and perception is None:
            raise InputError("classes are those of a perception network, and there is none")
        with drawn_from(generator):
            self.content = linear(classes or digits, EMBEDDING)
            self.row, self.column = nn.Embedding(side, EMBEDDING), nn.Embedding(side, EMBEDDING)
            self.features = mlp(3 * EMBEDDING, hidden, layers)
            self.sender, self.receiver = linear(hidden, hidden, bias=False), linear(hidden, hidden)
            self.message, self.last = mlp(hidden, hidden, layers - 1)[:-1], linear(hidden, hidden)
            self.update = mlp(2 * hidden, hidden, layers)
            self.memory = nn.LSTMCell(hidden, hidden)
            self.output = linear(hidden, digits)

    def forward(self, x: Tensor) -> Float[Tensor, "step *batch cell digit"]:
        features = self.inputs(x)
        batch = features.shape[:-2]
        # Cells come first from here on: a neighbour's state is then one contiguous piece for the whole batch.
        f = features.reshape(-1, *features.shape[-2:]).transpose(0, 1).contiguous()
        h, c = f, torch.zeros_like(f)
        logits = []
        for _ in range(self.steps):
            joined = self.update(torch.cat([f, self.messages(h)], -1))
            flat = self.memory(joined.flatten(0, 1), (h.flatten(0, 1), c.flatten(0, 1)))
            h, c = (state.view_as(f) for state in flat)
            logits.append(self.output(h))
        return torch.stack(logits).transpose(1, 2).reshape(self.steps, *batch, len(f), self.digits)

    def inputs(self, x: Tensor) -> Float[Tensor, "*batch cell hidden"]:
        cells = len(self.neighbours)
        if self.perception is None:
            if x.shape[-1:] != (cells * self.digits,):
                raise ShapeError(f"x must be `*batch {cells * self.digits}`, got {tuple(x.shape)}")
            content = x.unflatten(-1, (cells, self.digits))
        else:
            content = self.perception(x)
            if content.shape[-2:] != (cells, self.content.in_features):
                raise ShapeError(
                    f"perception must return `*batch {cells} {self.content.in_features}`, "
                    f"got {tuple(content.shape)} for x {tuple(x.shape)}"
                )
        row, column = self.row.weight, self.column.weight
        place = torch.cat([row.repeat_interleave(len(column), 0), column.repeat(len(row), 1)], -1)
        return self.features(torch.cat([self.content(content), place.expand(*content.shape[:-1], -1)], -1))

    def messages(self, h: Float[Tensor, "cell batch hidden"]) -> Float[Tensor, "cell batch hidden"]:
        """The sum of the messages to each cell.

        The first layer is linear before its ReLU, and the last altogether: the former is computed once a cell and not
        once an edge, as two parts, and the latter after the sum, with its bias times the number of messages.
        """
        cells, degree = self.neighbours.shape
        sent = self.sender(h).index_select(0, self.neighbours.flatten()).unflatten(0, (cells, degree))
        total = self.message(functional.relu_(sent + self.receiver(h).unsqueeze(1))).sum(1)
        return functional.linear(total, self.last.weight, degree * self.last.bias)

    @torch.no_grad()
    def predict(self, x: Tensor) -> Float[Tensor, "*batch var"]:
        """A one-hot a cell: its most probable digit after the last step."""
        digit = self(x)[-1].argmax(-1)
        return functional.one_hot(digit, self.digits).flatten(-2).to(self.output.weight.dtype)


def mlp(inputs: int, hidden: int, layers: int) -> nn.Sequential:
    """``layers`` layers with ReLU, and a linear one."""
    widths = [inputs] + [hidden] * layers
    pairs = ((linear(a, b), nn.ReLU(inplace=True)) for a, b in itertools.pairwise(widths))
    return nn.Sequential(*itertools.chain.from_iterable(pairs), linear(widths[-1], hidden))


def linear(inputs: int, outputs: int, *, bias: bool = True) -> nn.Linear:
    """Started as Glorot and Bengio do, without bias: PyTorch's own start fades to nothing in so many layers."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


class RRNTerms(NamedTuple):
    """What there is to see of a batch; each is a mean over it."""

    cross_entropy: Float[Tensor, ""]
    """Over all steps: what is minimised."""
    last_cross_entropy: Float[Tensor, ""]
    """After the last step."""
    vector_accuracy: Float[Tensor, ""]
    """Share of the examples with every cell right after the last step."""


class RRNStep(nn.Module):
    """x, y* -> the loss and its terms: the cross entropy of all cells, in the mean over the steps."""

    def __init__(self, model: RRN) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        x: Any,
        solution: Float[Tensor, "*batch var"],
        *,
        temperature: float,
        generator: torch.Generator | None = None,
    ) -> tuple[Float[Tensor, ""], RRNTerms]:
        """Nothing is drawn and nothing has a temperature: both arguments are there for the training loop."""
        logits = self.model(x)
        expected = (*logits.shape[1:-2], math.prod(logits.shape[-2:]))
        if expected != solution.shape:
            raise ShapeError(f"solution must be {expected}, as x has it, got {tuple(solution.shape)}")
        digit = solution.unflatten(-1, logits.shape[-2:]).argmax(-1)
        losses = functional.cross_entropy(
            logits.flatten(0, -2), digit.expand(logits.shape[:-1]).flatten(), reduction="none"
        ).view(len(logits), -1)
        is_right = (logits.detach()[-1].argmax(-1) == digit).all(-1)
        loss = losses.mean()
        return loss, RRNTerms(loss.detach(), losses.detach()[-1].mean(), is_right.to(loss.dtype).mean())
