"""``neuralilp fit``, ``solve`` and ``export``: from a table of past decisions to rules, answers and an LP file."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from neuralilp.cli.sweeps import Cluster

Model = Annotated[Path, typer.Argument(help="Folder that `neuralilp fit` wrote.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]
Ignored = Annotated[
    list[str] | None, typer.Option("--ignore", help="A column that is no number, such as a date; may be repeated.")
]
Workers = Annotated[int, typer.Option(help="Instances solved at once; -1 for one a core.")]


def fit(
    decisions: Annotated[Path, typer.Argument(help="CSV or Parquet: a row for each decision, a column a variable.")],
    costs: Annotated[
        Path | None, typer.Option(help="CSV or Parquet with the same rows and columns: what was minimised.")
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(help="CSV or Parquet with the same rows: what unknown costs depend on."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder to write the model to.")] = Path("model"),
    known: Annotated[Path | None, typer.Option(help="LP or MPS file of constraints that are known already.")] = None,
    axes: Annotated[
        str | None,
        typer.Option(help="What the parts of the columns' names are, as in nurse,day,shift for anna_mon_night."),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            help="Rows that the optimality conditions may suggest.", min=0, show_default="by held-out examples"
        ),
    ] = None,
    held_out: Annotated[float, typer.Option(help="Share of the rows that is kept back for the report.")] = 0.2,
    time_limit: Annotated[float | None, typer.Option(help="Seconds, about.", min=0, show_default="none")] = None,
    ignore: Ignored = None,
    seed: Annotated[int, typer.Option(help="Seed.", min=0)] = 0,
    workers: Workers = 1,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a model that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Learn the rules behind a table of past decisions, and print them.

    With --costs the decisions are taken to be the cheapest that the rules allow; without, only to be allowed.
    """
    from neuralilp.errors import FileFormatError, InputError
    from neuralilp.estimator import NoCostsWarning, ProgramLearner
    from neuralilp.reporting import as_facts
    from neuralilp.tables import column_names, read_table

    if costs is not None and features is not None:
        raise typer.BadParameter("give either costs or features", param_hint="--features")
    if out.exists() and not overwrite:
        raise InputError(f"{out} exists already: give --overwrite, or another name with --out")
    y = read_table(decisions, without=ignore or ())
    given = costs or features
    x = None
    if given is not None:
        there = column_names(given) if ignore else ()
        x = read_table(given, without=[name for name in ignore or () if name in there])
        if costs is not None:
            x = x.select(y.names, str(costs))
        if len(x.values) != len(y.values):
            raise FileFormatError(f"{given} must have the {len(y.values)} rows of {decisions}, got {len(x.values)}")
    learner = ProgramLearner(
        inputs="features" if features is not None else "costs",
        known=None if known is None else str(known),
        axes=None if axes is None else tuple(axes.split(",")),
        rows=rows,
        held_out=held_out,
        time_limit=time_limit,
        workers=workers,
        seed=seed,
        progress=True,
    )
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", NoCostsWarning)
        learner.fit(x, y)
    learner.save(out, overwrite=overwrite)
    if as_json:
        typer.echo(json.dumps({"model": str(out), "rules": learner.rules_, "report": as_facts(learner.report_)}))
        return
    for warning in told:
        typer.echo(f"warning: {warning.message}", err=True)
    typer.echo(learner.explain())
    typer.echo(f"written: {out}")


def solve(
    model: Model,
    costs: Annotated[Path, typer.Argument(help="CSV or Parquet: costs, or features, of new instances, a row each.")],
    out: Annotated[Path, typer.Option(help="CSV or Parquet to write: the solutions, and their `status`.")],
    ignore: Ignored = None,
    time_limit: Annotated[float, typer.Option(help="Seconds for each instance.", min=0)] = 10.0,
    workers: Workers = 1,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Solve new instances by the rules that were learnt. A row without a solution is empty but for its status."""
    from neuralilp.clusters import connected
    from neuralilp.estimator import ProgramLearner
    from neuralilp.files import check_new
    from neuralilp.tables import read_table, write_table

    check_new(out)
    at_once = workers if cluster is None else -1
    learner = ProgramLearner.load(model).set_params(workers=at_once, solve_seconds=time_limit, progress=True)
    table = read_table(costs, without=ignore or ())
    if learner.kind_ != "features":
        table = table.select(learner.names_, str(costs))
    with connected(cluster):
        answer = learner.solve(table)
    rows = [
        [*(None if z != z else z for z in row), status.value]
        for row, status in zip(answer.z.tolist(), answer.status, strict=True)
    ]
    write_table(out, [*learner.names_, "status"], rows)
    counts = answer.counts()
    told = ", ".join(f"{count} {status}" for status, count in counts.items())
    typer.echo(json.dumps({"file": str(out), "statuses": counts}) if as_json else f"{out}: {told}")


def export(
    model: Model,
    path: Annotated[Path, typer.Argument(help="File to write, .lp or .mps.")],
    costs: Annotated[
        Path | None, typer.Option(help="CSV or Parquet whose first row is the objective.", show_default="no objective")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The learnt program as an LP or MPS file, for any solver. Names that LP files cannot hold are changed."""
    from neuralilp.estimator import ProgramLearner
    from neuralilp.files import check_new
    from neuralilp.tables import read_table

    check_new(path)
    learner = ProgramLearner.load(model)
    row = None
    if costs is not None:
        table = read_table(costs)
        row = learner.costs(table if learner.kind_ == "features" else table.select(learner.names_, str(costs)))[0]
    learner.export(path, row)
    rows = sum(len(block.a) for block in learner.program_.blocks)
    facts: dict[str, Any] = {"file": str(path), "variables": len(learner.names_), "rows": rows}
    typer.echo(json.dumps(facts) if as_json else f"{path}: {len(learner.names_)} variables, {rows} rows")
