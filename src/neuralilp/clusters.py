"""Sending joblib's work, solves and sweeps, to a cluster of Dask."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from neuralilp.errors import BackendMissingError, InputError


@contextlib.contextmanager
def connected(cluster: str | None) -> Iterator[None]:
    """Within, joblib's work goes to the Dask scheduler at the address ``cluster``; None leaves it here.

    Folders and files are those of the machine that works, so let all have the same.
    """
    import joblib  # type: ignore[import-untyped]

    if cluster is None:
        yield
        return
    try:
        import distributed
    except ImportError:
        raise BackendMissingError("a cluster needs the package distributed: pip install 'neuralilp[cluster]'") from None
    try:
        client = distributed.Client(cluster, timeout=10)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"cluster must be the address of a Dask scheduler, got {cluster!r}: {error}") from None
    with client, joblib.parallel_config(backend="dask", n_jobs=-1):
        yield
