"""Saved folders: the same model back, and clear errors for anything that is not one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
import yaml
from torch import Tensor, nn

from neuralilp.blocks import Bounds, ConstraintBlock
from neuralilp.constraints import Box, KnownConstraints, LearnableConstraints, NetworkConstraints
from neuralilp.costs import KnownCost, LearnableCost, NetworkCost
from neuralilp.errors import FileFormatError, InputError
from neuralilp.model import NeuralILP
from neuralilp.program import IntegerProgram
from neuralilp.solving import solve
from neuralilp.storage import load, save

INF = float("inf")


def static_model() -> NeuralILP:
    """Every module of ours that needs no network: equalities of both kinds, known rows, infinite bounds."""
    return NeuralILP(
        KnownCost(factor=-2.0),
        [
            LearnableConstraints(4, 3, origin=(-1.0, 1.0)),
            LearnableConstraints(2, 3, slack=0.1),
            LearnableConstraints(1, 3, slack=0.25, slack_is_distance=True),
            LearnableConstraints(2, 3, restarts=5),
            KnownConstraints(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([1.0])),
            KnownConstraints(torch.tensor([[1.0, 0.0, -1.0]]), torch.tensor([0.0]), slack=0.0),
        ],
        Box(torch.tensor([-INF, 0.0, -0.5]), torch.tensor([4.0, INF, 1.5])),
    )


def network_model() -> NeuralILP:
    rows = nn.Sequential(nn.Linear(5, 6), nn.Unflatten(-1, (2, 3)))
    encoder = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh())
    constraints = [NetworkConstraints(rows, offset=1.0, slack=0.5), LearnableConstraints(2, 3)]
    return NeuralILP(NetworkCost(nn.Linear(5, 3)), constraints, Box(0, 1, 3), encoder=encoder)


def networks_of(model: NeuralILP) -> dict[str, nn.Module]:
    """The modules to hand over, with other weights."""
    modules = dict(network_model().named_modules())
    return {path: modules[path] for path in ("encoder", "cost.network", "constraints.0.network")}


def mixed_program() -> IntegerProgram:
    """A batch with broadcast parts, an expanded tensor, all flags, and a variable that is not integer."""
    return IntegerProgram(
        cost=torch.tensor([[1.0, 2.0, 3.0], [0.5, -1.0, 0.0]], requires_grad=True),
        bounds=Bounds(torch.tensor([-INF, 0.0, -0.5]), torch.tensor([INF, 7.0, 1.5])),
        blocks=(
            ConstraintBlock(torch.tensor([[0.6, 0.8, 0.0]]), torch.tensor([1.0]), is_learned=True, is_unit=True),
            ConstraintBlock(torch.ones(1, 3).expand(2, 2, 3), torch.zeros(2), slack=torch.full((2,), 0.25)),
        ),
        is_integer=torch.tensor([True, False, True]),
        cost_is_learned=True,
    )


def assert_same(program: IntegerProgram, other: IntegerProgram) -> None:
    def flags(p: IntegerProgram) -> list[object]:
        return [p.cost_is_learned, p.batch_shape, *((b.is_equality, b.is_learned, b.is_unit) for b in p.blocks)]

    def tensors(p: IntegerProgram) -> list[Tensor]:
        parts = [p.cost, p.bounds.lower, p.bounds.upper, *(t for b in p.blocks for t in (b.a, b.b, b.slack))]
        return [part for part in [*parts, p.is_integer] if part is not None]

    assert flags(program) == flags(other)
    assert (program.bounds.is_finite, program.bounds.is_binary) == (other.bounds.is_finite, other.bounds.is_binary)
    for mine, its in zip(tensors(program), tensors(other), strict=True):
        assert mine.dtype == its.dtype
        assert torch.equal(mine, its)


def loaded_model(folder: Path, networks: dict[str, nn.Module] | None = None) -> NeuralILP:
    model = load(folder, networks=networks)
    assert isinstance(model, NeuralILP)
    return model


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_model_of_our_own_modules_comes_back(tmp_path: Path, dtype: torch.dtype) -> None:
    model = static_model().to(dtype)
    assert save(model, tmp_path / "model") == tmp_path / "model"
    back = loaded_model(tmp_path / "model")
    x = torch.randn(5, 3, dtype=dtype)
    assert_same(model(x), back(x))
    assert {name for name, _ in back.named_parameters()} == {name for name, _ in model.named_parameters()}
    assert all(parameter.requires_grad for parameter in back.parameters())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == ["config.yaml", "weights.safetensors"]


def test_model_with_learnable_cost_and_without_rows(tmp_path: Path) -> None:
    model = NeuralILP(LearnableCost(2), [], Box(-5, 5, 2))
    back = loaded_model(save(model, tmp_path / "model"))
    assert_same(model(None), back(None))
    assert not back.box().is_binary


def test_double_bounds_keep_every_digit(tmp_path: Path) -> None:
    box = Box(0.0, 1.0, 2).double()
    box.lower, box.upper = torch.full((2,), -1e300, dtype=torch.float64), torch.full((2,), 1 / 3, dtype=torch.float64)
    back = loaded_model(save(NeuralILP(KnownCost(), [], box), tmp_path / "model"))
    assert torch.equal(back.box.lower, box.lower)
    assert torch.equal(back.box.upper, box.upper)
    assert back.box().is_finite


def test_loading_leaves_the_global_generator_alone(tmp_path: Path) -> None:
    folder = save(NeuralILP(LearnableCost(2), [LearnableConstraints(2, 2)], Box(0, 1, 2)), tmp_path / "model")
    state = torch.get_rng_state()
    load(folder)
    assert torch.equal(torch.get_rng_state(), state)


def test_learning_goes_on_after_loading(tmp_path: Path) -> None:
    back = loaded_model(save(static_model(), tmp_path / "model"))
    back(torch.zeros(3)).blocks[0].b.sum().backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is not None for parameter in back.constraints[0].parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_networks_come_from_the_caller(tmp_path: Path, dtype: torch.dtype) -> None:
    model = network_model().to(dtype)
    model(torch.randn(8, 4, dtype=dtype))  # moves the statistics of the BatchNorm
    folder = save(model, tmp_path / "model")
    networks = networks_of(model)
    back = loaded_model(folder, networks)
    assert back.encoder is networks["encoder"]
    x = torch.randn(5, 4, dtype=dtype)
    assert_same(model.eval()(x), back.eval()(x))


def test_module_of_the_callers_own_comes_from_the_caller(tmp_path: Path) -> None:
    class Knapsack(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.rand(3))

        def forward(self, x: Tensor) -> ConstraintBlock:
            return ConstraintBlock(-self.weight.unsqueeze(0), torch.ones(1), is_learned=True)

    class MyRows(LearnableConstraints):
        """Derived from one of ours, so it may need other facts to be built."""

    model = NeuralILP(KnownCost(), [Knapsack(), MyRows(2, 3)], Box(0, 1, 3))
    folder = save(model, tmp_path / "model")
    back = loaded_model(folder, {"constraints.0": Knapsack(), "constraints.1": MyRows(2, 3)})
    assert_same(model(torch.ones(3)), back(torch.ones(3)))


def test_tied_weights_stay_tied(tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
            self.second.weight = self.first.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.first(x))

    model = NeuralILP(NetworkCost(Tied().double()), [], Box(0, 1, 3).double())
    network = Tied()
    back = loaded_model(save(model, tmp_path / "model"), {"cost.network": network})
    assert network.first.weight is network.second.weight
    x = torch.randn(2, 3, dtype=torch.float64)
    assert_same(model(x), back(x))


def test_missing_and_surplus_networks_are_named(tmp_path: Path) -> None:
    model = network_model()
    folder = save(model, tmp_path / "model")
    with pytest.raises(InputError, match=r"model: networks must hold .*'constraints.0.network': .*'encoder'"):
        load(folder, networks={"cost.network": nn.Linear(5, 3)})
    with pytest.raises(InputError, match=r"got \['cost'\] as well"):
        load(folder, networks={**networks_of(model), "cost": nn.Identity()})
    with pytest.raises(InputError, match=r"must hold nothing, got \['encoder'\]"):
        load(save(mixed_program(), tmp_path / "program"), networks={"encoder": nn.Identity()})


def test_network_of_another_shape_is_named(tmp_path: Path) -> None:
    model = network_model()
    folder = save(model, tmp_path / "model")
    with pytest.raises(InputError, match=r"networks\['cost.network'\] .*Linear differs in \['bias', 'weight'\]"):
        load(folder, networks={**networks_of(model), "cost.network": nn.Linear(5, 4)})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_program_comes_back(tmp_path: Path, dtype: torch.dtype) -> None:
    program = mixed_program().to(dtype)
    back = load(save(program, tmp_path / "program"))
    assert isinstance(back, IntegerProgram)
    assert_same(program, back)


def test_program_without_integer_mask_solves_to_the_same(tmp_path: Path) -> None:
    cost, bounds = torch.tensor([-2.0, -3.0]), Bounds(torch.zeros(2), torch.full((2,), 5.0))
    program = IntegerProgram(cost, bounds, (ConstraintBlock(torch.tensor([[-2.0, -3.0]]), torch.tensor([7.5])),))
    back = load(save(program, tmp_path / "program"))
    assert isinstance(back, IntegerProgram)
    assert back.is_integer is None
    assert solve(back).objective == solve(program).objective


def test_config_is_readable(tmp_path: Path) -> None:
    model = NeuralILP(KnownCost(), [LearnableConstraints(2, 3, slack=0.1)], Box(0, 1, 3))
    text = (save(model, tmp_path / "model") / "config.yaml").read_text()
    config = yaml.safe_load(text)
    assert list(config) == ["format", "version", "written_by", "kind", "modules", "tensors"]
    assert config["modules"]["constraints.0"] == {
        "class": "LearnableConstraints",
        "num_constraints": 2,
        "num_variables": 3,
        "slack": 0.1,
        "slack_is_distance": False,
        "restarts": None,
    }
    assert config["tensors"]["constraints.0.a"] == ["float32", 2, 3]
    assert len(text.splitlines()) == 16  # about a line for each module and tensor


# --- overwriting ---


def test_existing_folder_is_kept_unless_told(tmp_path: Path) -> None:
    folder = save(mixed_program(), tmp_path / "it")
    with pytest.raises(InputError, match="exists already: pass overwrite=True"):
        save(static_model(), folder)
    assert isinstance(load(folder), IntegerProgram)
    save(static_model(), folder, overwrite=True)
    assert isinstance(load(folder), NeuralILP)
    assert [path.name for path in tmp_path.iterdir()] == ["it"]


def test_folder_with_other_files_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"holds more than a model \(thesis.tex\)"):
        save(mixed_program(), tmp_path, overwrite=True)
    with pytest.raises(InputError, match="is a file or a link"):
        save(mixed_program(), tmp_path / "thesis.tex", overwrite=True)
    with pytest.raises(InputError, match="folder that exists"):
        save(mixed_program(), tmp_path / "not" / "there")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("failing", ["write", "second_rename"])
def test_failed_overwrite_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    folder = save(mixed_program(), tmp_path / "it")
    import neuralilp.storage as storage

    rename = storage.os.rename

    def broken(source: Path, target: Path) -> None:
        if Path(target) == folder and "-old" not in Path(source).name:
            raise OSError("no")
        rename(source, target)

    def full(*_: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        if failing == "write":
            patch.setattr(storage, "write_to_disk", full)
        else:
            patch.setattr(storage.os, "rename", broken)
        with pytest.raises(OSError, match=r"no|disk full"):
            save(static_model(), folder, overwrite=True)
    assert isinstance(load(folder), IntegerProgram)
    assert [path.name for path in tmp_path.iterdir()] == ["it"]


# --- files that are not what they should be ---


def edit_config(**changes: object) -> Callable[[Path], object]:
    def edit(folder: Path) -> None:
        config = yaml.safe_load((folder / "config.yaml").read_text())
        (folder / "config.yaml").write_text(yaml.safe_dump({**config, **changes}))

    return edit


def edit_modules(path: str, **facts: object) -> Callable[[Path], object]:
    def edit(folder: Path) -> None:
        config = yaml.safe_load((folder / "config.yaml").read_text())
        config["modules"].setdefault(path, {}).update(facts)
        (folder / "config.yaml").write_text(yaml.safe_dump(config))

    return edit


def replace_tensor(name: str, tensor: Tensor) -> Callable[[Path], object]:
    def edit(folder: Path) -> None:
        path = folder / "weights.safetensors"
        safetensors.torch.save_file({**safetensors.torch.load_file(path), name: tensor}, path)

    return edit


def cut(name: str, share: float) -> Callable[[Path], object]:
    def edit(folder: Path) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: int(len(data) * share)])

    return edit


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shutil.rmtree, "there is no file .*config.yaml"),
        (lambda folder: (folder / "config.yaml").unlink(), "there is no file .*config.yaml"),
        (lambda folder: (folder / "weights.safetensors").unlink(), "there is no file .*weights.safetensors"),
        (cut("config.yaml", 0), r"config.yaml has no line `format: neuralilp`"),
        (cut("config.yaml", 0.5), r"config.yaml"),
        (cut("weights.safetensors", 0), r"weights.safetensors is truncated or no safetensors file"),
        (cut("weights.safetensors", 0.1), r"weights.safetensors is truncated or no safetensors file"),
        (cut("weights.safetensors", 0.9), r"weights.safetensors is truncated or no safetensors file"),
        (lambda folder: (folder / "config.yaml").write_bytes(b"\xff\x00\xfe"), r"config.yaml cannot be read as YAML"),
        (lambda folder: (folder / "config.yaml").write_text("a: [1, 2"), r"config.yaml cannot be read as YAML"),
        (lambda folder: (folder / "config.yaml").write_text("- 1"), r"config.yaml has no line `format: neuralilp`"),
        (
            lambda folder: (folder / "config.yaml").write_text("!!python/object/apply:os.getcwd []"),
            r"config.yaml cannot be read as YAML",
        ),
        (edit_config(format="other"), r"config.yaml has no line `format: neuralilp`"),
        (edit_config(version=2), r"config.yaml has the format version 2, and this neuralilp reads 1"),
        (edit_config(kind="Sequential"), r"the kind must be NeuralILP or IntegerProgram, got 'Sequential'"),
        (edit_config(modules=None), r"config.yaml does not describe a model"),
        (edit_config(modules={}), r"the modules must be a cost, a Box and numbered constraints, got \[\]"),
        (edit_config(tensors=[]), r"config.yaml is truncated"),
        (edit_modules("cost", **{"class": "os.system"}), r"cost has a class that is not ours, 'os.system'"),
        (edit_modules("cost", surprise=1), r"config.yaml does not describe a model: .*surprise"),
        (edit_modules("cost", **{"class": "LearnableCost"}), r"config.yaml does not describe a model"),
        (edit_modules("constraints.0", num_constraints=3), r"does not describe a model: .*size mismatch"),
        (edit_modules("constraints.0", num_constraints="many"), r"config.yaml does not describe a model"),
        (edit_modules("constraints.7", **{"class": "KnownCost"}), r"the modules must be"),
        (edit_modules("box", **{"class": "KnownCost"}), r"the modules must be a cost, a Box"),
        (
            replace_tensor("constraints.0.a", torch.zeros(2, 2)),
            r"weights.safetensors does not belong .*constraints.0.a",
        ),
        (replace_tensor("constraints.0.a", torch.zeros(4, 3).double()), r"constraints.0.a is .*float64"),
        (replace_tensor("other", torch.zeros(1)), r"other is .*expected no such tensor"),
        (replace_tensor("box.lower", torch.full((3,), 9.0)), r"lower must not be above upper"),
    ],
)
def test_damaged_folder(tmp_path: Path, damage: Callable[[Path], object], message: str) -> None:
    folder = save(static_model(), tmp_path / "model")
    damage(folder)
    with pytest.raises(FileFormatError, match=message):
        load(folder)


def test_tensor_that_belongs_nowhere(tmp_path: Path) -> None:
    for model in (static_model(), mixed_program()):
        folder = save(model, tmp_path / type(model).__name__)
        replace_tensor("other", torch.zeros(1))(folder)
        config = yaml.safe_load((folder / "config.yaml").read_text())
        edit_config(tensors={**config["tensors"], "other": ["float32", 1]})(folder)
        with pytest.raises(FileFormatError, match=r"belong nowhere, \['other'\]"):
            load(folder)


def test_program_without_one_of_its_tensors(tmp_path: Path) -> None:
    folder = save(mixed_program(), tmp_path / "program")
    edit_config(blocks=[{"is_equality": True, "is_learned": True, "is_unit": True}])(folder)
    with pytest.raises(FileFormatError, match=r"'blocks.0.slack' is missing"):
        load(folder)


@pytest.mark.wrong_types
def test_only_models_and_programs_can_be_saved(tmp_path: Path) -> None:
    class Stateful(nn.Module):
        def get_extra_state(self) -> object:
            return {"a": 1}

        def forward(self, x: Tensor) -> Tensor:
            return x

    class MyBox(Box):
        pass

    with pytest.raises(InputError, match="must be a NeuralILP or an IntegerProgram, got Linear"):
        save(nn.Linear(2, 2), tmp_path / "it")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"cost.network._extra_state in its state is no tensor but dict"):
        save(NeuralILP(NetworkCost(Stateful()), [], Box(0, 1, 2)), tmp_path / "it")
    with pytest.raises(InputError, match=r"model.box must be a Box to be saved, got MyBox"):
        save(NeuralILP(KnownCost(), [], MyBox(0, 1, 2)), tmp_path / "it")
    assert not list(tmp_path.iterdir())
