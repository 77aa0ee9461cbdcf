"""What every method on keypoints is given, and how its answers are judged."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from neuralilp.errors import InputError, ShapeError
from neuralilp.metrics import variable_accuracy, vector_accuracy
from neuralilp.model import NeuralILP
from neuralilp.solving import solve
from neuralilp.tasks.keypoints.features import image_key
from neuralilp.tasks.keypoints.images import Collection, Matches, sample_matches
from neuralilp.tasks.keypoints.networks import GraphPair, Graphs, centred, delaunay_edges
from neuralilp.tasks.runs import Conditions, LookedUp
from neuralilp.training.record import fingerprint

SAMPLES = (4000, 100, 4000)
"""For training, validation and test."""

VALIDATION_SOLVE_SECONDS, TEST_SOLVE_SECONDS = 0.2, 0.3
"""For one pair of images: the best answer until then counts, and none is a wrong one."""

Packed = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
"""x in tensors: rows of the table, places and edges, of the left image and of the right one."""


@dataclasses.dataclass(frozen=True, eq=False)
class Samples:
    """Pairs of graphs with k points each, and which point is which."""

    matches: Matches
    x: Packed
    solution: Float[Tensor, "sample var"]

    def __len__(self) -> int:
        return len(self.solution)


@dataclasses.dataclass(frozen=True, eq=False)
class KeypointData:
    k: int
    table: Float[Tensor, "point width"]
    """Features of the points of all images, one below the other."""
    collection: Collection
    train: Samples
    validation: Samples
    test: Samples
    encoder: str = "as given"
    """What the features are from, for the record of a run."""

    @functools.cached_property
    def fingerprint(self) -> str:
        """Of the pictures, the network that looked at them, and the samples.

        Features themselves would not do: processors differ in their last digits.
        """
        keys = " ".join([self.encoder, *(image_key(image) for image in self.collection.images)])
        parts = (self.train, self.validation, self.test)
        samples = (tensor for part in parts for tensor in (*part.x[:2], part.solution))
        return fingerprint([torch.frombuffer(bytearray(keys.encode()), dtype=torch.uint8), *samples])


def prepared(
    collection: Collection,
    features: Sequence[Float[Tensor, "point width"]],
    k: int,
    counts: tuple[int, int, int] = SAMPLES,
    seed: int = 0,
) -> KeypointData:
    """Samples of k points for the three splits, with the graphs of their points."""
    if len(features) != len(collection.images):
        raise ShapeError(
            f"features must be one tensor for each of {len(collection.images)} images, got {len(features)}"
        )
    for image, feature in zip(collection.images, features, strict=True):
        if len(feature) != len(image.point):
            raise ShapeError(f"features of {image.path} must be one for each of {len(image.point)} points")
    starts = torch.tensor([0, *(len(feature) for feature in features)]).cumsum(0)
    generator = torch.Generator().manual_seed(seed)
    train, validation, test = (
        _samples(collection, starts, sample_matches(collection.images, pairs, k, count, generator))
        for pairs, count in zip((collection.train, collection.validation, collection.test), counts, strict=True)
    )
    return KeypointData(k, torch.cat(list(features)), collection, train, validation, test)


def _samples(collection: Collection, starts: Tensor, matches: Matches) -> Samples:
    columns: list[Tensor] = []
    for side, places in enumerate((matches.left_point, matches.right_point)):
        image = matches.image[:, side]
        points = [collection.images[i].point[place] for i, place in zip(image.tolist(), places, strict=True)]
        columns += [
            starts[image][:, None] + places,
            torch.stack([centred(each) for each in points]),
            torch.stack([delaunay_edges(each) for each in points]),
        ]
    row, place, edge, other_row, other_place, other_edge = columns
    return Samples(matches, (row, other_row, place, other_place, edge, other_edge), matches.target.flatten(1))


def look_up(table: Float[Tensor, "point width"], x: Packed) -> GraphPair:
    left, right, left_place, right_place, left_edge, right_edge = x
    return GraphPair(
        Graphs(table[left], left_place, left_edge),
        Graphs(table[right], right_place, right_edge),
    )


class Answers(NamedTuple):
    z: Float[Tensor, "sample var"]
    statuses: dict[str, int]


Answer = Callable[[GraphPair], Answers]


@dataclasses.dataclass(frozen=True, eq=False)
class Job(Conditions):
    data: KeypointData

    def on_graphs(self, step: nn.Module) -> nn.Module:
        """The step as training calls it, with rows of the table."""
        return LookedUp(step, self.data.table, look_up)


@torch.no_grad()
def solved(model: NeuralILP, pair: GraphPair, seconds: float) -> Answers:
    """Answers from solving, without a hint of them."""
    solution = solve(model(pair), time_limit=seconds)
    return Answers(solution.z, solution.counts())


@torch.no_grad()
def judged(answer: Answer, data: KeypointData, samples: Samples) -> tuple[dict[str, float], dict[str, int], Tensor]:
    """Figures, statuses and the answers themselves."""
    z, statuses = answer(look_up(data.table, samples.x))
    figures = {
        "pointwise_accuracy": pointwise_accuracy(z, samples.solution),
        "permutation_rate": permutation_rate(z),
        "vector_accuracy": vector_accuracy(z, samples.solution),
        "variable_accuracy": variable_accuracy(z, samples.solution),
    }
    return figures, statuses, z


def pointwise_accuracy(z: Float[Tensor, "*batch var"], target: Float[Tensor, "*batch var"]) -> float:
    """The share of left points whose one partner is the true one; with two partners, or none, a point is wrong."""
    z, target = _square(z), _square(target)
    is_right = ((z - target).abs() < 0.5).all(-1)
    return is_right.double().mean().item()


def accuracy_by_category(z: Float[Tensor, "sample var"], data: KeypointData, samples: Samples) -> dict[str, float]:
    """The pointwise accuracy on the pairs of each category."""
    categories = [data.collection.images[image].category for image in samples.matches.image[:, 0].tolist()]
    of_category = {name: [i for i, each in enumerate(categories) if each == name] for name in sorted(set(categories))}
    return {name: pointwise_accuracy(z[rows], samples.solution[rows]) for name, rows in of_category.items()}


def permutation_rate(z: Float[Tensor, "*batch var"]) -> float:
    """The share of answers with one partner for every point, left and right."""
    z = _square(z)
    is_one = ((z.sum(-1) - 1).abs() < 0.5).all(-1) & ((z.sum(-2) - 1).abs() < 0.5).all(-1)
    return is_one.double().mean().item()


def _square(z: Tensor) -> Float[Tensor, "*batch k k"]:
    k = round(z.shape[-1] ** 0.5)
    if k * k != z.shape[-1]:
        raise InputError(f"answers must have k·k entries, got {z.shape[-1]}")
    return z.unflatten(-1, (k, k))


def bijection(k: int) -> tuple[Float[Tensor, "constr var"], Float[Tensor, " constr"]]:
    """Every row and every column of the k×k matrix sums to 1: for the method that is told so, and for reports."""
    one = torch.eye(k)
    rows = one.repeat_interleave(k, 1)
    columns = one.repeat(1, k)
    return torch.cat([rows, columns]), torch.full((2 * k,), -1.0)
