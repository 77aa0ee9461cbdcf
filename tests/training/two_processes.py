"""Two processes that train together: ``two_processes.py FOLDER``. Fabric starts the second one by itself."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
from lightning_fabric import Fabric
from problem import CASES, case

from neuralilp.training import Schedule


def main() -> None:
    torch.set_num_threads(1)
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    folder = Path(sys.argv[1])
    found = {}
    for name in CASES:
        outcome, step = case(name, folder / name, fabric=fabric)
        found[name] = {"weights": [weight.tolist() for weight in step.parameters()], "best": outcome.best}
    # The same again in two pieces.
    case("uneven", folder / "pieces", fabric=fabric, schedule=Schedule(epochs=1, batch_size=7))
    outcome, step = case("uneven", folder / "pieces", fabric=fabric, resume=True)
    found["pieces"] = {"weights": [weight.tolist() for weight in step.parameters()], "best": outcome.best}
    # A failure of the first process, which alone validates, is one of all.
    try:
        case("even", folder / "failing", fabric=fabric, monitor="missing")
    except Exception as error:
        found["error"] = f"{type(error).__name__}: {error}"
    (folder / f"rank{fabric.global_rank}.json").write_text(json.dumps(found))
    fabric.barrier()
    torch.distributed.destroy_process_group()
    # All is written. Now and then PyTorch aborts as a process ends: "terminate called without an active exception".
    os._exit(0)


if __name__ == "__main__":
    main()
