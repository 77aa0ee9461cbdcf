"""Records of runs that never ran, for tests of tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def make_record(
    method: str = "ilploss",
    domain: str = "dense",
    constraints: int = 8,
    dataset: int = 0,
    *,
    task: str = "random-constraints",
    seed: int = 0,
    accuracy: Any = 0.5,
    seconds: float = 60.0,
    **more: Any,
) -> dict[str, Any]:
    return {
        "record": 1,
        "task": task,
        "method": method,
        "seed": seed,
        "setting": {"domain": domain, "constraints": constraints, "dataset": dataset},
        "data_fingerprint": f"{domain}/{constraints}/{dataset}",
        "stopped": "patience",
        "epochs": 20,
        "steps": 3000,
        "best_epoch": 10,
        "train_seconds": seconds,
        "total_seconds": 2 * seconds,
        "validation": {},
        "test": {"vector_accuracy": accuracy, "variable_accuracy": 0.75},
        "statuses": {"optimal": 1000},
        "versions": {},
        "machine": {},
        **more,
    }


def write_run(folder: Path, *arguments: Any, **options: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "record.json"
    path.write_text(json.dumps(make_record(*arguments, **options)))
    return path
