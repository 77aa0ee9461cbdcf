"""Programs as LP and MPS files, which every solver reads, and back."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.errors import FileFormatError, InputError, ShapeError
from neuralilp.files import written_whole
from neuralilp.program import IntegerProgram
from neuralilp.solving.highs import HighsBackend

SUFFIXES = (".lp", ".mps")
_NAME = re.compile(r"(?![eE][0-9.]*$)[A-Za-z_][A-Za-z0-9_.]{0,199}")
"""The part of the LP format's names that all readers agree on; ``e5`` would be read as a number."""
_KEYWORD = re.compile(
    r"obj|(min|max)(imi[sz]e|imum)?|s\.?t\.?|subject|such|to|that|bounds?|bin(ary|aries)?|gen(erals?)?|int(egers?)?|"
    r"semis?|sec|sin|sos[12]?|end|free|inf(inity)?|nan",
    re.IGNORECASE,
)


@dataclasses.dataclass(frozen=True)
class ProgramNames:
    """What a file says beside the numbers of its program."""

    variables: tuple[str, ...]
    rows: tuple[str, ...]
    """In the order of the program's blocks, one after the other."""
    is_maximised: bool = False
    """The program is the file's with the cost negated."""
    objective_offset: float = 0.0
    """A constant that a program cannot hold: the file's objective is ``sign · c·z + objective_offset``,
    where sign is -1 if ``is_maximised``."""

    def file_objective(self, objective: float) -> float:
        """The objective of the file at a point where the program's is ``objective``."""
        return (-objective if self.is_maximised else objective) + self.objective_offset


def export(
    program: IntegerProgram,
    path: str | os.PathLike[str],
    *,
    variable_names: Sequence[str] | None = None,
    row_names: Sequence[str] | None = None,
) -> Path:
    """Write one program to an ``.lp`` or ``.mps`` file, whole or not at all.

    Bounds of integer variables are written as integers: [-0.5, 1.5] as [0, 1]. An equality with a slack is a
    ranged row, which the LP format writes as two (``NAMElo``, ``NAMEup``). Rows without any variable are left
    out. Names default to z0, z1, ... and row0, row1, ...; the rows of the blocks are counted in one sequence.
    """
    path = Path(path)
    suffix = _suffix(path)
    if program.batch_shape:
        raise ShapeError(
            f"program must be a single instance, got the batch shape {tuple(program.batch_shape)}: "
            "export program.instance(i)"
        )
    n = program.num_variables
    m = sum(block.a.shape[-2] for block in program.blocks)
    variables = _names("variable_names", variable_names, n, "z")
    rows = _names("row_names", row_names, m, "row")
    highspy = HighsBackend().load()
    lp, used = _highs_lp(highspy, program, variables, rows)
    row_lower, row_upper = np.array(lp.row_lower_), np.array(lp.row_upper_)
    is_ranged = (row_lower != row_upper) & np.isfinite(row_lower) & np.isfinite(row_upper)
    if suffix == ".lp":
        split = {name + end for name, ranged in zip(used, is_ranged, strict=True) if ranged for end in ("lo", "up")}
        clash = split.intersection(used)
        if clash:
            raise InputError(
                f"row_names: {min(clash)!r} is needed for one half of a row with a slack, take another name"
            )
    highs = _highs(highspy)
    if highs.passModel(lp) == highspy.HighsStatus.kError:
        raise InputError("program cannot be written: are all its numbers finite and below 1e15?")
    if not path.parent.is_dir():
        raise InputError(f"path must lie in a folder that exists, got {path}")
    with written_whole(path) as part:
        highs.writeModel(str(part))  # the suffix tells the format
        written, _ = read_program(part)
        if written.num_variables != n:
            raise InputError(
                f"the LP format cannot hold variables without cost, rows and bounds, of which there are "
                f"{n - written.num_variables}: write an .mps file"
            )
    return path


def read_program(
    path: str | os.PathLike[str], *, dtype: torch.dtype = torch.float64
) -> tuple[IntegerProgram, ProgramNames]:
    """Read a linear program, integer or not, from an ``.lp`` or ``.mps`` file.

    Inequalities come in a first block, equalities and ranged rows (with half the range as slack) in a second;
    rows without bounds are left out. A maximisation becomes a minimisation, see :class:`ProgramNames`. Variables come
    in the order in which the file first names them, which for an ``.lp`` file need not be that of the program
    exported: go by the names.
    """
    path = Path(path)
    suffix = _suffix(path)
    if not path.is_file():
        raise FileFormatError(f"there is no file {path}")
    _check_end(path, suffix)
    highspy = HighsBackend().load()
    highs = _highs(highspy)
    # HiGHS answers with a warning for oddities that it can live with.
    if highs.readModel(str(path)) == highspy.HighsStatus.kError or not highs.getNumCol():
        hint = " (rows with two sides, as in `1 <= x + y <= 3`, must be written as two)" if suffix == ".lp" else ""
        raise FileFormatError(f"{path} is not an {suffix[1:].upper()} file that HiGHS can read, or is empty{hint}")
    lp = highs.getLp()
    if highs.getModel().hessian_.dim_:
        raise FileFormatError(f"{path} has a quadratic objective; only linear programs can be read")
    n, m = lp.num_col_, lp.num_row_
    types = list(lp.integrality_) or [highspy.HighsVarType.kContinuous] * n
    if any(kind not in (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger) for kind in types):
        raise FileFormatError(f"{path} has semi-continuous or semi-integer variables, which cannot be read")
    a = _dense(highspy, lp)
    lower, upper = np.array(lp.row_lower_), np.array(lp.row_upper_)
    has_lower, has_upper = lower > -np.inf, upper < np.inf
    one, two = has_lower != has_upper, has_lower & has_upper
    sign = np.where(has_lower, 1.0, -1.0)
    # lower <= a·z is a·z - lower >= 0; a·z <= upper is -a·z + upper >= 0.
    b = np.where(has_lower, -np.where(has_lower, lower, 0.0), np.where(has_upper, upper, 0.0))
    middle, half = (lower[two] + upper[two]) / 2, (upper[two] - lower[two]) / 2
    if (half < 0).any():
        raise FileFormatError(f"{path} has a ranged row whose lower bound is above the upper one")

    def tensor(array: Any) -> torch.Tensor:
        return torch.tensor(np.asarray(array), dtype=dtype)

    blocks = []
    if one.any():
        blocks.append(ConstraintBlock(tensor(a[one] * sign[one, None]), tensor(b[one])))
    if two.any():
        blocks.append(ConstraintBlock(tensor(a[two]), tensor(-middle), slack=tensor(half)))
    is_maximised = lp.sense_ == highspy.ObjSense.kMaximize
    cost = np.array(lp.col_cost_) * (-1.0 if is_maximised else 1.0)
    is_integer = torch.tensor([kind == highspy.HighsVarType.kInteger for kind in types])
    try:
        program = IntegerProgram(
            cost=tensor(cost),
            bounds=Bounds(tensor(lp.col_lower_), tensor(lp.col_upper_)),
            blocks=tuple(blocks),
            is_integer=None if bool(is_integer.all()) else is_integer,
        )
    except InputError as error:
        raise FileFormatError(f"{path}: {error}") from None
    rows = list(lp.row_names_) or [f"row{i}" for i in range(m)]
    order = [*np.flatnonzero(one), *np.flatnonzero(two)]
    names = ProgramNames(
        variables=tuple(lp.col_names_) or tuple(f"z{j}" for j in range(n)),
        rows=tuple(rows[i] for i in order),
        is_maximised=bool(is_maximised),
        objective_offset=float(lp.offset_),
    )
    return program, names


def safe_names(names: Sequence[str]) -> list[str]:
    """Names made fit for :func:`export`: other characters become ``_``, and doubles get a number."""
    taken: set[str] = set()
    safe = []
    for name in names:
        base = re.sub(r"[^A-Za-z0-9_.]", "_", str(name))[:180]
        if not _is_safe(base):
            base = f"_{base}"
        candidate, k = base, 2
        while candidate in taken:
            candidate, k = f"{base}_{k}", k + 1
        taken.add(candidate)
        safe.append(candidate)
    return safe


def _is_safe(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and not _KEYWORD.fullmatch(name)


def _names(argument: str, names: Sequence[str] | None, count: int, prefix: str) -> list[str]:
    if names is None:
        return [f"{prefix}{i}" for i in range(count)]
    if len(names) != count:
        raise InputError(f"{argument} must hold {count} names, got {len(names)}")
    seen = set()
    for name in names:
        if not isinstance(name, str) or not _is_safe(name):
            raise InputError(
                f"{argument} must be letters, digits, '_' and '.', begin with a letter or '_', and be no number or "
                f"keyword of the LP format: got {name!r}; safe_names() makes such names"
            )
        if name in seen:
            raise InputError(f"{argument} must be unique: {name!r} occurs twice")
        seen.add(name)
    return list(names)


def _highs_lp(highspy: Any, program: IntegerProgram, variables: list[str], rows: list[str]) -> tuple[Any, list[str]]:
    """A HighsLp of the program without its empty rows, and the names of the rows that are left."""
    n = program.num_variables

    def array(tensor: torch.Tensor) -> Any:
        return tensor.detach().to("cpu", torch.float64).numpy()

    is_integer = np.ones(n, bool) if program.is_integer is None else program.is_integer.cpu().numpy()
    parts_a, parts_lower, parts_upper = [np.zeros((0, n))], [np.zeros(0)], [np.zeros(0)]
    for block in program.blocks:
        b = array(block.b)
        slack = None if block.slack is None else array(block.slack)
        parts_a.append(array(block.a))
        parts_lower.append(-b if slack is None else -b - slack)
        parts_upper.append(np.full(len(b), np.inf) if slack is None else slack - b)
    a, row_lower, row_upper = (np.concatenate(parts) for parts in (parts_a, parts_lower, parts_upper))
    cost = array(program.cost)
    for name, values in (("cost", cost), ("blocks", a), ("blocks", row_lower)):
        if not np.isfinite(values).all():
            raise InputError(f"{name} must be finite, got NaN or infinity")
    if (row_lower > row_upper).any():
        raise InputError("the slack of an equality must not be negative")
    keep = (a != 0).any(1)
    broken = ~keep & ((row_lower > 0) | (row_upper < 0))
    if broken.any():
        raise InputError(f"{rows[int(np.argmax(broken))]} has no variables and cannot hold: the program is infeasible")
    a, row_lower, row_upper = a[keep], row_lower[keep], row_upper[keep]
    used = [name for name, kept in zip(rows, keep, strict=True) if kept]
    lower, upper = array(program.bounds.lower), array(program.bounds.upper)
    mask = a != 0
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = n, len(a)
    lp.col_cost_ = cost
    lp.col_lower_ = np.where(is_integer, np.ceil(lower), lower)
    lp.col_upper_ = np.where(is_integer, np.floor(upper), upper)
    lp.row_lower_, lp.row_upper_ = row_lower, row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.concatenate([[0], np.cumsum(mask.sum(1))]).astype(np.int32)
    lp.a_matrix_.index_ = mask.nonzero()[1].astype(np.int32)
    lp.a_matrix_.value_ = a[mask]
    kinds = highspy.HighsVarType
    lp.integrality_ = [kinds.kInteger if integer else kinds.kContinuous for integer in is_integer]
    lp.col_names_, lp.row_names_ = variables, used
    return lp, used


def _dense(highspy: Any, lp: Any) -> Any:
    a = np.zeros((lp.num_row_, lp.num_col_))
    starts, index, value = (np.array(x) for x in (lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_))
    outer = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    if lp.a_matrix_.format_ == highspy.MatrixFormat.kColwise:
        a[index.astype(int), outer] = value
    else:
        a[outer, index.astype(int)] = value
    return a


def _highs(highspy: Any) -> Any:
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    # Else HiGHS drops learned coefficients below 1e-9 on the way.
    highs.setOptionValue("small_matrix_value", 1e-12)
    return highs


def _suffix(path: Path) -> str:
    suffix = path.suffix
    if suffix not in SUFFIXES:
        raise InputError(f"path must end in .lp or .mps, which choose the format, got {str(path)!r}")
    return suffix


def _check_end(path: Path, suffix: str) -> None:
    """HiGHS may take a truncated file for a smaller program, so look for the word that ends one."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path} cannot be read as text: {error}") from None
    comment, word = ("\\", "end") if suffix == ".lp" else ("*", "endata")
    lines = [line.split(comment)[0].strip() if suffix == ".lp" else line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith(comment)]
    if not lines or lines[-1].split()[-1].lower() != word:
        raise FileFormatError(
            f"{path} does not end with {word.upper()}: it is truncated or no {suffix[1:].upper()} file"
        )
