"""The command line. One file a command, which imports what it alone needs when it runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from neuralilp import __version__
from neuralilp.cli import bench, data, demo, explain, fit, keypoints, table, train
from neuralilp.errors import NeuralILPError


class _Commands(TyperGroup):
    """Errors that neuralilp raises on purpose end a command with their message instead of a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except NeuralILPError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(1) from None


app = typer.Typer(
    cls=_Commands,
    help="Learn integer linear programs from examples of optimal solutions, without a solver while learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)


def _print_version(is_asked: bool) -> bool:
    if is_asked:
        typer.echo(__version__)
        raise typer.Exit
    return is_asked


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


# A command is registered as a function, a group of commands with app.add_typer(group.app, name="group").
app.command("demo")(demo.run)
app.command("fit")(fit.fit)
app.command("solve")(fit.solve)
app.command("explain")(explain.explain)
app.command("export")(fit.export)
data.app.command("keypoints")(keypoints.data)
train.app.command("keypoints")(keypoints.train)
app.add_typer(bench.app, name="bench")
app.add_typer(data.app, name="data")
app.add_typer(table.app, name="table")
app.add_typer(train.app, name="train")
