"""The union of samplers."""

from __future__ import annotations

import pytest
import torch
from strategies import random_case

from neuralilp.errors import InputError
from neuralilp.negatives import BatchNegatives, KHop, OneHop, ProjectAndSample, Union


@pytest.mark.parametrize("n", [4, 30])
@pytest.mark.parametrize("rows", ["mixed", "restarts"])
def test_union_is_everything(rows: str, n: int) -> None:
    """What the parts draw one after the other from the same generator, sparse before dense, nothing lost."""
    case = random_case(rows, "general", n=n)
    parts = (OneHop(), BatchNegatives(), KHop((2, 3), count=5), ProjectAndSample())
    union = Union(*parts)(case.program, case.solution, generator=torch.Generator().manual_seed(3))
    generator = torch.Generator().manual_seed(3)
    single = [part(case.program, case.solution, generator=generator) for part in parts]
    sparse = [part for part in single if part.place.shape[-2]]
    dense = [part for part in single if part.dense.shape[-2]]
    expected = torch.cat([part.points() for part in (*sparse, *dense)], -2)
    assert torch.equal(union.points(), expected)
    assert len(union) == sum(len(part) for part in single)


def test_union_of_one() -> None:
    case = random_case("mixed")
    union = Union(OneHop())(case.program, case.solution)
    assert torch.equal(union.points(), OneHop()(case.program, case.solution).points())


def test_empty_union() -> None:
    with pytest.raises(InputError, match="samplers must have at least one sampler, got none"):
        Union()
