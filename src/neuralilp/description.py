"""What a model or a program is, as plain facts and tensors, and how it is built again from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.constraints import Box, KnownConstraints, LearnableConstraints, NetworkConstraints
from neuralilp.costs import KnownCost, LearnableCost, NetworkCost
from neuralilp.errors import InputError
from neuralilp.model import NeuralILP
from neuralilp.program import IntegerProgram

Facts = dict[str, Any]
"""Strings, numbers, and lists and dictionaries of them."""

FROM_CALLER = "from_caller"
"""Stands for the class of a module that is not ours, which the caller must bring."""


class NetworkError(InputError):
    """The modules that the caller brings do not fit the description."""


def describe(model: NeuralILP | IntegerProgram) -> tuple[Facts, dict[str, Tensor]]:
    """The facts and the tensors from which :func:`rebuild` makes the same again."""
    if isinstance(model, IntegerProgram):
        return _program_facts(model), _program_tensors(model)
    if type(model) is NeuralILP:
        return _model_facts(model), _model_tensors(model)
    raise InputError(f"model must be a NeuralILP or an IntegerProgram, got {type(model).__name__}")


def rebuild(
    facts: Facts, tensors: Mapping[str, Tensor], networks: Mapping[str, nn.Module]
) -> NeuralILP | IntegerProgram:
    """Build what the facts describe; any builtin or neuralilp error but NetworkError says that they are not right."""
    if facts["kind"] == "IntegerProgram":
        _check_networks(set(), networks)
        return _build_program(facts, dict(tensors))
    if facts["kind"] == "NeuralILP":
        return _build_model(facts, tensors, networks)
    raise ValueError(f"the kind must be NeuralILP or IntegerProgram, got {facts['kind']!r}")


# Models. A class is built only if it is in this table; names in a file are never imported.


@dataclasses.dataclass(frozen=True)
class _Own:
    """One of our classes, and how to build it from its facts; the tensors are filled in afterwards."""

    kind: type[nn.Module]
    build: Callable[[Facts], nn.Module] | None
    """None: the class wraps a network of the caller's."""


def _box(facts: Facts) -> nn.Module:
    return Box(torch.zeros(facts["shape"]), torch.ones(facts["shape"]))


def _learnable_constraints(facts: Facts) -> nn.Module:
    # With a generator of its own, loading does not move the global one.
    return LearnableConstraints(generator=torch.Generator(), **facts)


def _known_constraints(facts: Facts) -> nn.Module:
    rows, variables = facts["num_constraints"], facts["num_variables"]
    return KnownConstraints(torch.ones(rows, variables), torch.zeros(rows), slack=facts["slack"])


_OWN = {
    own.kind.__name__: own
    for own in (
        _Own(Box, _box),
        _Own(LearnableConstraints, _learnable_constraints),
        _Own(KnownConstraints, _known_constraints),
        _Own(NetworkConstraints, None),
        _Own(KnownCost, lambda facts: KnownCost(**facts)),
        _Own(LearnableCost, lambda facts: LearnableCost(generator=torch.Generator(), **facts)),
        _Own(NetworkCost, None),
    )
}


def _slots(model: NeuralILP) -> Iterator[tuple[str, Any]]:
    yield "cost", model.cost
    for i, module in enumerate(model.constraints):
        yield f"constraints.{i}", module
    yield "box", model.box
    if model.encoder is not None:
        yield "encoder", model.encoder


def _module_facts(module: Any) -> Facts:
    name = type(module).__name__
    own: Any = _OWN[name].kind if name in _OWN else None
    if type(module) is not own:  # a subclass may do anything
        return {"class": FROM_CALLER}
    return {"class": name, **({"shape": list(module.lower.shape)} if name == "Box" else module.config())}


def _model_facts(model: NeuralILP) -> Facts:
    if type(model.box) is not Box:
        raise InputError(f"model.box must be a Box to be saved, got {type(model.box).__name__}")
    return {"kind": "NeuralILP", "modules": {path: _module_facts(module) for path, module in _slots(model)}}


def _model_tensors(model: NeuralILP) -> dict[str, Tensor]:
    state = model.state_dict()
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise InputError(f"model cannot be saved: {name} in its state is no tensor but {type(value).__name__}")
    return dict(state)


def _build_model(facts: Facts, tensors: Mapping[str, Tensor], networks: Mapping[str, nn.Module]) -> NeuralILP:
    modules: dict[str, Facts] = {path: dict(module) for path, module in facts["modules"].items()}
    rows = [f"constraints.{i}" for i in range(sum(path.startswith("constraints.") for path in modules))]
    if set(modules) - {"encoder"} != {"cost", "box", *rows} or modules["box"]["class"] != "Box":
        raise ValueError(f"the modules must be a cost, a Box and numbered constraints, got {list(modules)}")
    wraps = set()
    for path, module in modules.items():
        if module["class"] != FROM_CALLER and module["class"] not in _OWN:
            raise ValueError(f"{path} has a class that is not ours, {module['class']!r}")
        if module["class"] in _OWN and _OWN[module["class"]].build is None:
            wraps.add(path)
    brought = {path for path, module in modules.items() if module["class"] == FROM_CALLER}
    _check_networks(brought | {f"{path}.network" for path in wraps}, networks)

    rest, built = dict(tensors), {}
    for path, module in modules.items():
        name = module.pop("class")
        place = f"{path}.network" if path in wraps else path
        state = {key.removeprefix(f"{place}."): rest.pop(key) for key in tensors if key.startswith(f"{place}.")}
        if place in networks:
            _fill(place, networks[place], state)
        build = None if name == FROM_CALLER else _OWN[name].build
        if path in brought:
            built[path] = networks[path]
        elif build is None:
            built[path] = _OWN[name].kind(networks[place], **module)
        else:
            built[path] = build(module)
            # New tensors instead of new values in the old ones: dtypes are kept, and a Box sees that it has changed.
            built[path].load_state_dict(state, assign=True)
    if rest:
        raise ValueError(f"there are tensors that belong nowhere, {sorted(rest)}")
    box = built["box"]
    assert isinstance(box, Box)
    box()  # looks at the bounds
    return NeuralILP(built["cost"], [built[path] for path in rows], box, encoder=built.get("encoder"))


def _check_networks(wanted: set[str], networks: Mapping[str, nn.Module]) -> None:
    missing, surplus = sorted(wanted - set(networks)), sorted(set(networks) - wanted)
    if missing:
        example = ", ".join(f"{path!r}: ..." for path in missing)
        raise NetworkError(f"networks must hold the modules that cannot be rebuilt: pass networks={{{example}}}")
    if surplus:
        raise NetworkError(f"networks must hold {sorted(wanted) or 'nothing'}, got {surplus} as well")


def _fill(path: str, network: nn.Module, state: dict[str, Tensor]) -> None:
    """Give the caller's module its saved weights and dtypes in place, so that tied weights stay tied."""
    own = network.state_dict(keep_vars=True)
    differing = [n for n in sorted(own | state) if n not in own or n not in state or own[n].shape != state[n].shape]
    if differing:
        raise NetworkError(
            f"networks[{path!r}] must have the tensors that were saved: {type(network).__name__} differs in {differing}"
        )
    for name, tensor in state.items():
        if own[name].dtype != tensor.dtype:
            own[name].data = own[name].data.to(tensor.dtype)
    network.load_state_dict(state)


# Programs.


def _program_facts(program: IntegerProgram) -> Facts:
    blocks = [
        {"is_equality": block.is_equality, "is_learned": block.is_learned, "is_unit": block.is_unit}
        for block in program.blocks
    ]
    return {"kind": "IntegerProgram", "cost_is_learned": program.cost_is_learned, "blocks": blocks}


def _program_tensors(program: IntegerProgram) -> dict[str, Tensor]:
    tensors = {"cost": program.cost, "bounds.lower": program.bounds.lower, "bounds.upper": program.bounds.upper}
    for i, block in enumerate(program.blocks):
        tensors |= {f"blocks.{i}.a": block.a, f"blocks.{i}.b": block.b}
        if block.slack is not None:
            tensors[f"blocks.{i}.slack"] = block.slack
    if program.is_integer is not None:
        tensors["is_integer"] = program.is_integer
    return tensors


def _build_program(facts: Facts, tensors: dict[str, Tensor]) -> IntegerProgram:
    blocks = tuple(
        ConstraintBlock(
            tensors.pop(f"blocks.{i}.a"),
            tensors.pop(f"blocks.{i}.b"),
            tensors.pop(f"blocks.{i}.slack") if block["is_equality"] else None,
            is_learned=block["is_learned"],
            is_unit=block["is_unit"],
        )
        for i, block in enumerate(facts["blocks"])
    )
    program = IntegerProgram(
        cost=tensors.pop("cost"),
        bounds=Bounds(tensors.pop("bounds.lower"), tensors.pop("bounds.upper")),
        blocks=blocks,
        is_integer=tensors.pop("is_integer", None),
        cost_is_learned=facts["cost_is_learned"],
    )
    if tensors:
        raise ValueError(f"there are tensors that belong nowhere, {sorted(tensors)}")
    return program
