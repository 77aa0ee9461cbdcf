"""A ProgramLearner as a folder: the program, its cuts and weights as safetensors, the rest as JSON; nothing is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors
import safetensors.torch
import torch
from torch import nn

from neuralilp.contrast import ScaledLinear
from neuralilp.distill import Axes
from neuralilp.errors import FileFormatError, InputError
from neuralilp.files import folder_written_whole, write_whole
from neuralilp.program import IntegerProgram
from neuralilp.reporting import as_facts, of_facts
from neuralilp.solving import CutPool
from neuralilp.storage import load, save

if TYPE_CHECKING:
    from neuralilp.estimator import ProgramLearner

FACTS_FILE, PROGRAM_FOLDER, CUTS_FILE, COST_FILE = "learner.json", "program", "cuts.safetensors", "cost.safetensors"
VERSION = 1
PLAIN = ("inputs", "use_cuts", "held_out", "rows", "time_limit", "solve_seconds", "workers", "seed", "progress")
"""Parameters that are kept as they were given; the others are in the program."""


def save_learner(learner: ProgramLearner, folder: Path, *, overwrite: bool = False) -> Path:
    """Whole or not at all. A folder that is there must be an earlier learner's, and ``overwrite`` given."""
    if not folder.parent.is_dir():
        raise InputError(f"folder must lie in a folder that exists, got {folder}")
    if folder.exists():
        if not overwrite:
            raise InputError(f"{folder} exists already: pass overwrite=True to replace it, or take another name")
        if not (folder / FACTS_FILE).is_file():
            raise InputError(f"{folder} holds no learner and is not replaced")
    with folder_written_whole(folder) as temporary:
        _write(learner, temporary)
    return folder


def _write(learner: ProgramLearner, folder: Path) -> None:
    save(learner.program_, folder / PROGRAM_FOLDER)
    if learner.cuts_ is not None:
        cuts = {"a": torch.from_numpy(learner.cuts_.a), "b": torch.from_numpy(learner.cuts_.b)}
        write_whole(folder / CUTS_FILE, safetensors.torch.save(cuts))
    network = learner.cost_network_
    if network is not None:
        weights = {name: value.detach().cpu().contiguous().clone() for name, value in network.state_dict().items()}
        write_whole(folder / COST_FILE, safetensors.torch.save(weights))
    axes = learner.axes_
    facts: dict[str, Any] = {
        "format": "neuralilp learner",
        "version": VERSION,
        "parameters": {name: getattr(learner, name) for name in PLAIN},
        "kind": learner.kind_,
        "names": learner.names_,
        "is_named": learner.is_named_,
        "inputs": learner.n_features_in_,
        "axes": None if axes is None else {"names": axes.names, "sizes": axes.sizes, "labels": axes.labels},
        "rules": learner.rules_,
        "report": as_facts(learner.report_),
        "has_own_network": network is not None and not isinstance(network, ScaledLinear),
    }
    write_whole(folder / FACTS_FILE, json.dumps(facts, indent=1, ensure_ascii=False).encode())


def load_learner(learner: ProgramLearner, folder: Path, cost_network: nn.Module | None = None) -> ProgramLearner:
    """Fill a new learner with what is in the folder."""
    path = folder / FACTS_FILE
    if not path.is_file():
        raise FileFormatError(f"there is no file {path}: is {folder} the folder of a learnt program?")
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        if facts["version"] != VERSION:
            raise FileFormatError(f"{path} has the version {facts['version']!r}, and this neuralilp reads {VERSION}")
        learner.set_params(**facts["parameters"])
        learner.kind_, learner.names_ = facts["kind"], list(facts["names"])
        learner.is_named_, learner.n_features_in_ = bool(facts["is_named"]), int(facts["inputs"])
        axes = facts["axes"]
        labels = None if axes is None or axes["labels"] is None else tuple(map(tuple, axes["labels"]))
        learner.axes_ = None if axes is None else Axes(tuple(axes["names"]), tuple(axes["sizes"]), labels)
        learner.rules_, learner.report_ = list(facts["rules"]), of_facts(facts["report"])
        has_own = bool(facts["has_own_network"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{path} cannot be read as a learnt program: {error}") from None
    program = load(folder / PROGRAM_FOLDER)
    if not isinstance(program, IntegerProgram) or program.num_variables != len(learner.names_):
        raise FileFormatError(f"{folder / PROGRAM_FOLDER} must be a program over {len(learner.names_)} variables")
    learner.program_ = program
    learner.cuts_ = None
    if (folder / CUTS_FILE).exists():
        cuts = _tensors(folder / CUTS_FILE)
        learner.cuts_ = CutPool(cuts["a"], cuts["b"])
    learner.cost_network_ = None
    if (folder / COST_FILE).exists():
        if has_own and cost_network is None:
            raise InputError(f"cost_network must be given: {folder} was learnt with a network of the caller's")
        network = cost_network or ScaledLinear(learner.n_features_in_, len(learner.names_))
        try:
            network.load_state_dict(_tensors(folder / COST_FILE))
        except RuntimeError as error:
            raise FileFormatError(f"{folder / COST_FILE} does not fit: {' '.join(str(error).split())[:200]}") from None
        learner.cost_network_ = network.eval()
    return learner


def _tensors(path: Path) -> dict[str, torch.Tensor]:
    try:
        return safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise FileFormatError(f"{path} is truncated or no safetensors file: {error}") from None
