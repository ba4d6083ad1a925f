"""The table of commands. What they need is imported when they run, so that --help is quick."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated

import typer

from placewright.cli import (
    devices,
    fitting,
    lists,
    mapping,
    planning,
    plans,
    running,
)
from placewright.cli.example_lines import EXAMPLES, add_examples
from placewright.cli.extensions import all_commands

app = typer.Typer(
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Plans which device runs each op of a neural network, in what order, and when tensors move.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from placewright.version import VERSION

        typer.echo(VERSION)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """What holds for all commands."""


app.command("plan")(planning.plan)
app.command("fit")(fitting.fit)
app.command("map")(mapping.map_command)
app.command("inspect")(plans.inspect)
app.command("show")(plans.show)
app.command("explain")(plans.explain)
app.command("diff")(plans.diff)
app.command("check")(plans.check)
app.command("export", cls=plans.ExportCommand)(plans.export)
app.command("profile")(running.profile)
app.command("run")(running.run)
app.command("examples")(lists.examples)
app.command("solvers")(lists.solvers)
app.command("schema")(lists.schema)
app.add_typer(devices.app, name="devices")
add_examples(app, EXAMPLES)
_OWN = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """The table of commands, with those of extensions unless the arguments name one of placewright's own."""
    return app if arguments and arguments[0] in _OWN else whole_app()


@cache
def whole_app() -> typer.Typer:
    """With the commands of all extensions."""
    for commands in all_commands():
        commands.add_to(app)
        add_examples(app, commands.examples)
    return app
