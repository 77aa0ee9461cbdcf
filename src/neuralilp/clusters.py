"""Sending joblib's work, solves and sweeps, to a cluster of Dask."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from neuralilp.errors import BackendMissingError, InputError

PATIENCE = 10.0
"""Seconds for a scheduler, and for a worker, to answer."""


@contextlib.contextmanager
def connected(cluster: str | None, *, is_training: bool = False) -> Iterator[None]:
    """Within, joblib's work goes to all workers of the Dask scheduler at the address ``cluster``; None leaves it here.

    Folders and files are those of the machine that works, so let all have the same. Runs that train share random
    numbers with others of their process: they want workers of one thread each.
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
        client = distributed.Client(cluster, timeout=PATIENCE)  # type: ignore[no-untyped-call]
        client.wait_for_workers(1, timeout=PATIENCE)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"cluster must be the address of a Dask scheduler with workers, got {cluster!r}: {error}"
        ) from None
    with client:
        threads = client.nthreads().values()  # type: ignore[no-untyped-call]
        if is_training and max(threads) > 1:
            raise InputError(f"cluster must have workers of one thread (--nthreads 1) for runs, got {max(threads)}")
        if sum(threads) < 2:  # joblib would work here
            raise InputError("cluster must have at least two workers, got one")
        with joblib.parallel_config(backend="dask", n_jobs=-1):
            yield
