"""Instances of the knapsack: which sentences each is about, and the best choice among them."""

from __future__ import annotations

import dataclasses
import functools
import json
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from neuralilp.errors import FileFormatError, InputError, ShapeError
from neuralilp.files import check_new, write_whole, written_whole
from neuralilp.tasks.knapsack.encoder import encode_words, encoder_name, read_vectors, sentence_vectors
from neuralilp.tasks.knapsack.exact import solve_knapsacks
from neuralilp.tasks.knapsack.sentences import Item, write_items
from neuralilp.training.record import fingerprint

SENTENCES = (40_000, 5_000, 5_000)
"""For training, validation and test; no sentence is in two of them."""

INSTANCES = (4_400, 100, 500)
POUNDS_PER_ITEM = 10
SEED = 0


class Examples(NamedTuple):
    """Instances to learn from or to be judged by: the numbers of their sentences, and the best choice."""

    item: Int[Tensor, "instance item"]
    solution: Float[Tensor, "instance item"]


class Truth(NamedTuple):
    """For checking what was learnt, for the two-stage line and for the ranges that a rival is granted."""

    price: Float[Tensor, " sentence"]
    weight: Float[Tensor, " sentence"]
    capacity: float


@dataclasses.dataclass(frozen=True, eq=False)
class KnapsackData:
    """Vectors of sentences, and instances of ``num_items`` of them each."""

    table: Float[Tensor, "sentence width"]
    train: Examples
    validation: Examples
    test: Examples
    source: str
    encoder: str
    truth: Truth | None = None

    def __post_init__(self) -> None:
        if self.table.ndim != 2 or not self.table.shape[1]:
            raise ShapeError(f"table must be `sentence width`, got shape {tuple(self.table.shape)}")
        if not bool(self.table.isfinite().all()):
            raise InputError(f"table must be finite: sentence {int((~self.table.isfinite()).nonzero()[0, 0])} is not")
        for name in ("train", "validation", "test"):
            item, solution = getattr(self, name)
            if item.ndim != 2 or not item.numel() or item.shape[1] != self.num_items:
                raise ShapeError(f"{name} must have instances of {self.num_items} items, got shape {tuple(item.shape)}")
            if solution.shape != item.shape:
                raise ShapeError(
                    f"{name} must have a solution for every item, got {tuple(solution.shape)} for {tuple(item.shape)}"
                )
            if not bool(((item >= 0) & (item < len(self.table))).all()):
                raise InputError(f"{name} must name sentences from 0 to {len(self.table) - 1}")
            if not bool(((solution == 0) | (solution == 1)).all()):
                where = ((solution != 0) & (solution != 1)).nonzero()[0].tolist()
                raise InputError(f"solution must be 0 or 1: {name} instance {where[0]} has another at item {where[1]}")

    @property
    def num_items(self) -> int:
        return self.train.item.shape[1]

    @functools.cached_property
    def fingerprint(self) -> str:
        return fingerprint([self.table, *self.train, *self.validation, *self.test])


class Corpus(NamedTuple):
    """Items with their sentences, those of training first, then of validation, then of the test."""

    items: list[Item]
    splits: tuple[int, int, int]
    seed: int


def write_corpus(splits: tuple[int, int, int] = SENTENCES, seed: int = SEED) -> Corpus:
    return Corpus(write_items(sum(splits), seed), splits, seed)


def draw_instances(
    corpus: Corpus, num_items: int, counts: tuple[int, int, int] = INSTANCES, seed: int = SEED
) -> tuple[Examples, Examples, Examples]:
    """Instances of different sentences of one split, whose best choice is the only one that is as good."""
    smallest = min(corpus.splits)
    if not 1 <= num_items <= smallest:
        raise InputError(f"num_items must be from 1 to {smallest}, got {num_items}")
    if min(counts) < 1:
        raise InputError(f"counts must be positive, got {counts}")
    generator = torch.Generator().manual_seed(seed)
    price = torch.tensor([item.price for item in corpus.items])
    weight = torch.tensor([item.weight for item in corpus.items])
    parts, first = [], 0
    for size, count in zip(corpus.splits, counts, strict=True):
        found: list[Examples] = []
        while sum(len(each.item) for each in found) < count:
            item = first + _different(count, num_items, size, generator)
            z, is_unique = solve_knapsacks(price[item], weight[item], POUNDS_PER_ITEM * num_items)
            found.append(Examples(item[is_unique], z[is_unique]))
        parts.append(Examples(*(torch.cat(each)[:count] for each in zip(*found, strict=True))))
        first += size
    return parts[0], parts[1], parts[2]


def _different(count: int, num_items: int, size: int, generator: torch.Generator) -> Tensor:
    """Rows of ``num_items`` different numbers below ``size``, each set of them as likely."""
    drawn = torch.randint(size, (count, num_items), generator=generator)
    ordered = drawn.sort(1).values
    for row in (ordered[:, 1:] == ordered[:, :-1]).any(1).nonzero().flatten().tolist():
        drawn[row] = torch.randperm(size, generator=generator)[:num_items]
    return drawn


# -- the data folder ---------------------------------------------------------------------------------------------------


def corpus_path(folder: Path) -> Path:
    return folder / "knapsack" / "sentences.json"


def instances_path(folder: Path, num_items: int) -> Path:
    return folder / "knapsack" / f"{num_items}.npz"


def make(
    folder: Path,
    num_items: int,
    *,
    counts: tuple[int, int, int] = INSTANCES,
    splits: tuple[int, int, int] = SENTENCES,
    seed: int = SEED,
    workers: int = 1,
    progress: bool = False,
) -> KnapsackData:
    """New instances into the data folder; sentences and their vectors too, where they are not there yet."""
    path = instances_path(folder, num_items)
    check_new(path)
    encoder_name()
    if corpus_path(folder).exists():
        corpus = read_corpus(folder)
        if corpus.seed != seed:
            raise InputError(f"seed must be {corpus.seed}, which the sentences in {path.parent} are from, got {seed}")
    else:
        corpus = write_corpus(splits, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = {"seed": corpus.seed, "splits": corpus.splits, "items": corpus.items}
        write_whole(corpus_path(folder), json.dumps(text, ensure_ascii=False, indent=0).encode())
    encode_words([item.sentence for item in corpus.items], path.parent, workers=workers, progress=progress)
    parts = draw_instances(corpus, num_items, counts, seed)
    names = ("train", "validation", "test")
    arrays = {
        f"{name}_{entry}": tensor.numpy().astype(np.int32 if entry == "item" else np.int8)
        for name, part in zip(names, parts, strict=True)
        for entry, tensor in part._asdict().items()
    }
    with written_whole(path) as part_path:
        np.savez_compressed(part_path, **arrays)
    return load(folder, num_items)


def load_or_make(folder: Path, num_items: int, *, progress: bool = False) -> KnapsackData:
    """What is in the data folder, or made there now, with the default sizes and seed."""
    if instances_path(folder, num_items).exists():
        return load(folder, num_items)
    return make(folder, num_items, progress=progress)


def read_corpus(folder: Path) -> Corpus:
    path = corpus_path(folder)
    try:
        text = json.loads(path.read_text(encoding="utf-8"))
        items = [Item(str(sentence), int(weight), int(price)) for sentence, weight, price in text["items"]]
        train, validation, test = (int(size) for size in text["splits"])
        corpus = Corpus(items, (train, validation, test), int(text["seed"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileFormatError(f"{path} cannot be read as items with sentences: {error}") from None
    if sum(corpus.splits) != len(items):
        raise FileFormatError(f"{path}: splits must add up to the {len(items)} items, got {corpus.splits}")
    return corpus


def load(folder: Path, num_items: int) -> KnapsackData:
    """What :func:`make` wrote."""
    path = instances_path(folder, num_items)
    if not path.is_file():
        raise FileFormatError(
            f"there is no data {path}: is {folder} the data folder? "
            f"`neuralilp data knapsack --items {num_items}` makes it"
        )
    corpus = read_corpus(folder)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {entry: archive[entry] for entry in archive.files}
        parts = {
            name: Examples(
                torch.from_numpy(arrays[f"{name}_item"]).long(), torch.from_numpy(arrays[f"{name}_solution"]).float()
            )
            for name in ("train", "validation", "test")
        }
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise FileFormatError(f"{path} cannot be read as instances of the knapsack: {error}") from None
    sentences = [item.sentence for item in corpus.items]
    truth = Truth(
        torch.tensor([float(item.price) for item in corpus.items]),
        torch.tensor([float(item.weight) for item in corpus.items]),
        float(POUNDS_PER_ITEM * num_items),
    )
    table = in_principal_axes(sentence_vectors(sentences, path.parent), corpus.splits[0])
    try:
        return KnapsackData(
            table, **parts, source=f"generated, seed {corpus.seed}", encoder=encoder_name(), truth=truth
        )
    except InputError as error:
        raise FileFormatError(f"{path}: {error}") from None


LEAST_VARIANCE = 1e-7
"""Of an axis that is kept, relative to that of the first."""


def in_principal_axes(table: Float[Tensor, "sentence width"], train: int) -> Float[Tensor, "sentence axis"]:
    """Entries with mean 0 and standard deviation 1 over the first ``train`` sentences, turned to their principal axes.

    The numbers that a sentence holds are spread over many small components. In the axes of the latter, steps that are
    as large in each direction, as Adam's are, reach them sooner.
    """
    mean, scale = table[:train].mean(0), table[:train].std(0, correction=0)
    table = torch.where(scale > 0, (table - mean) / scale.clamp(min=torch.finfo(table.dtype).tiny), 0.0)
    known = table[:train].double()
    variance, axes = torch.linalg.eigh(known.mT @ known / train)
    is_kept = (variance > LEAST_VARIANCE * variance.amax()).flip(0)
    return table @ axes.flip(1)[:, is_kept].to(table.dtype)


def load_published(folder: Path, validation: int = 100) -> KnapsackData:
    """The published layout: ``{train,test}_encodings.npy``, `instance item width`, and ``{train,test}_sols.npy``.

    The last ``validation`` instances of training are for validation.
    """
    arrays = {}
    for name in ("train_encodings", "train_sols", "test_encodings", "test_sols"):
        path = folder / f"{name}.npy"
        if not path.is_file():
            raise FileFormatError(
                f"{folder} must hold train_encodings.npy, train_sols.npy and those of test: no {path}"
            )
        arrays[name] = read_vectors(path)
    train, test = arrays["train_encodings"], arrays["test_encodings"]
    if train.ndim != 3 or test.ndim != 3 or train.shape[1:] != test.shape[1:]:
        raise FileFormatError(
            f"{folder}: encodings must be `instance item width`, the same but for the instances in train and test, "
            f"got {tuple(train.shape)} and {tuple(test.shape)}"
        )
    if not 0 < validation < len(train):
        raise InputError(f"validation must leave instances of the {len(train)} to train on, got {validation}")
    _, num_items, width = train.shape
    item = torch.arange((len(train) + len(test)) * num_items).view(-1, num_items)
    split = len(train) - validation
    solution = arrays["train_sols"]
    try:
        return KnapsackData(
            torch.cat([train, test]).view(-1, width),
            Examples(item[:split], solution[:split]),
            Examples(item[split : len(train)], solution[split:]),
            Examples(item[len(train) :], arrays["test_sols"]),
            source="published layout",
            encoder=f"as given, {width} wide",
        )
    except InputError as error:
        raise FileFormatError(f"{folder}: {error}") from None
