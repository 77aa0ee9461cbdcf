"""What every test shares: shapes checked at run time, one thread, and a seeded generator."""

from __future__ import annotations

from collections.abc import Iterator

import jaxtyping
import pytest
import torch

jaxtyping.install_import_hook("neuralilp", "typechecking.checked")

torch.set_num_threads(1)

UNCHECKED = ("solving", "test_export.py", "test_metrics.py")
"""Folders and files that hand over wrong shapes on purpose without the marker ``wrong_types`` to say so."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "wrong_types: hands over wrong shapes or types on purpose, to see the errors of neuralilp itself"
    )


@pytest.fixture(autouse=True)
def shape_checks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Annotated shapes are checked at every call, unless a test is about the errors behind them."""
    is_meant = request.node.get_closest_marker("wrong_types") is not None
    is_meant |= any(part in UNCHECKED for part in request.path.parts[-2:])
    jaxtyping.config.update("jaxtyping_disable", is_meant)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20230207)
