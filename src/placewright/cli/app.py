"""The table of commands. What they need is imported when they run, so that --help is quick."""

from __future__ import annotations

from typing import Annotated

import typer

from placewright.cli import (
    bench,
    datasets,
    devices,
    examples,
    fitting,
    graphs,
    lists,
    mapping,
    planning,
    plans,
    profiling,
    running,
    training,
)
from placewright.cli.example_lines import add_examples

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
app.command("inspect")(graphs.inspect)
app.command("show")(plans.show)
app.command("explain")(plans.explain)
app.command("diff")(plans.diff)
app.command("check")(graphs.check)
app.command("export")(plans.export)
app.command("profile")(profiling.profile)
app.command("run")(running.run)
app.command("examples")(examples.list_examples)
app.command("solvers")(lists.solvers)
app.command("policies")(lists.policies)
app.command("schema")(lists.schema)
app.add_typer(devices.app, name="devices")
app.add_typer(datasets.app, name="dataset")
app.add_typer(bench.app, name="bench")
app.command("train")(training.train)

add_examples(app)
for group in app.registered_groups:
    assert group.typer_instance is not None
    add_examples(group.typer_instance, f"{group.name} ")
