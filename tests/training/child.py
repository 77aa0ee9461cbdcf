"""A run in its own process, to be killed: ``child.py FOLDER SECONDS_A_STEP``; exits with 130 when interrupted."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import torch
from problem import LONGER, NoisyStep, make_step, run

from neuralilp.training import RunFolder


class SlowStep(NoisyStep):
    """Says how many steps have begun, and takes its time."""

    pause = 0.0
    count = 0

    def forward(self, *args: Any, **rest: Any) -> Any:
        print(self.count, flush=True)
        self.count += 1
        time.sleep(self.pause)
        return super().forward(*args, **rest)


def main() -> None:
    torch.set_num_threads(1)
    step = make_step()
    step.__class__ = SlowStep
    step.pause = float(sys.argv[2])  # type: ignore[assignment]
    folder = RunFolder(Path(sys.argv[1]), {"task": "tour"}, tensorboard=False, picture=False)
    outcome, _ = run(folder.path, step, folder=folder, schedule=LONGER, resume=True)
    print(outcome.stopped, flush=True)
    sys.exit(130 if outcome.stopped == "interrupted" else 0)


if __name__ == "__main__":
    main()
