"""Constraints that are known already: matrices, blocks, programs, or an LP or MPS file over named variables."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import torch

from neuralilp.blocks import ConstraintBlock
from neuralilp.errors import InputError, ShapeError
from neuralilp.export import read_program, safe_names
from neuralilp.program import IntegerProgram


def known_blocks(known: Any, names: Sequence[str]) -> list[ConstraintBlock]:
    """In float64, over the variables of these names.

    ``known`` is None, a path, a program, a block, a pair (a, b) for a·z + b >= 0, or a list of such things.
    """
    if known is None:
        return []
    if isinstance(known, str | os.PathLike):
        return _of_file(known, names)
    if isinstance(known, IntegerProgram):
        return [_checked(block, len(names)) for block in known.blocks]
    if isinstance(known, ConstraintBlock):
        return [_checked(known, len(names))]
    if isinstance(known, tuple) and len(known) == 2 and not isinstance(known[0], ConstraintBlock | str):
        try:
            a, b = (torch.as_tensor(part, dtype=torch.float64) for part in known)
        except (TypeError, ValueError):
            raise InputError("known must be a pair (a, b) of numbers: a·z + b >= 0") from None
        if a.ndim != 2:
            raise ShapeError(
                f"known must be a `constr var` and b `constr`, got shapes {tuple(a.shape)}, {tuple(b.shape)}"
            )
        return [_checked(ConstraintBlock(a, b), len(names))]
    if isinstance(known, list | tuple):
        return [block for part in known for block in known_blocks(part, names)]
    raise InputError(f"known must be a file, a program, blocks or a pair (a, b), got {type(known).__name__}")


def _checked(block: ConstraintBlock, n: int) -> ConstraintBlock:
    if block.a.ndim != 2 or block.a.shape[1] != n:
        raise ShapeError(
            f"known must be rows over the {n} variables of the solutions, got shape {tuple(block.a.shape)}"
        )
    return dataclasses.replace(block.double(), is_learned=False)


def _of_file(path: str | os.PathLike[str], names: Sequence[str]) -> list[ConstraintBlock]:
    """The rows of a file, whose variables are some of ours by name; its cost and bounds are not looked at."""
    program, found = read_program(path)
    place = {name: j for j, name in enumerate(safe_names(names))} | {name: j for j, name in enumerate(names)}
    strange = [name for name in found.variables if name not in place]
    if strange:
        raise InputError(f"known: {path} has a variable {strange[0]!r}, which is no column of the solutions")
    columns = [place[name] for name in found.variables]
    blocks = []
    for block in program.blocks:
        a = torch.zeros(len(block.a), len(names), dtype=torch.float64)
        a[:, columns] = block.a
        blocks.append(ConstraintBlock(a, block.b, block.slack))
    return blocks
