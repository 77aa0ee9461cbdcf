"""``neuralilp explain``: what was learnt, by ``fit`` or in a run of a task, in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from neuralilp.cli.words import in_words


def explain(
    run: Annotated[Path, typer.Argument(help="Model folder of `neuralilp fit`, run folder, or its record.json.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")] = False,
) -> None:
    """The rules that were learnt, or read from learnt constraints, and how well they do."""
    from neuralilp.errors import FileFormatError
    from neuralilp.estimator import ProgramLearner
    from neuralilp.learner_files import FACTS_FILE
    from neuralilp.reporting import as_facts
    from neuralilp.tasks.table import RECORD_FILE
    from neuralilp.training import read_record

    if (run / FACTS_FILE).is_file():
        learner = ProgramLearner.load(run)
        learnt = {"rules": learner.rules_, "report": as_facts(learner.report_)}
        typer.echo(json.dumps(learnt) if as_json else learner.explain())
        return
    path = run / RECORD_FILE if run.is_dir() else run
    record = read_record(path)
    rules = record.get("rules")
    if not isinstance(rules, list):
        raise FileFormatError(f"{path} has no rules: {record['task']} by {record['method']} does not read any")
    if as_json:
        facts = ("task", "method", "setting", "rules", "test", "test_raw", "solved_by", "has_true_rules")
        typer.echo(json.dumps({name: record.get(name) for name in facts}))
        return
    for rule in rules:
        typer.echo(rule)
    if record.get("has_true_rules"):
        typer.echo("these are the true rules: they have the same row space")
    typer.echo("")
    by_rules = "by these rules"
    if record.get("solved_by") == "rows":
        by_rules = "these say too little, so by the learnt rows"
    for name, label in (("test", by_rules), ("test_raw", "by the learnt rows as they are")):
        if name in record:
            instances = sum(record.get(name.replace("test", "statuses"), {}).values())
            typer.echo(f"{label}: {in_words(record[name])} on {instances} instances")
