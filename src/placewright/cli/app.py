"""The table of commands. Their dependencies are imported when they run, so that --help is quick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated

import typer

from placewright.cli import (
    devices,
    fitting,
    lists,
    planning,
    plans,
    running,
)
from placewright.cli.extensions import all_commands

#: For each command, example command lines and their explanations.
EXAMPLES: Mapping[str, Mapping[str, str]] = {
    "plan": {
        "placewright plan example:inception-v3 -d 2xp100 --report report.html": "step time on two P100",
        "placewright plan model.onnx -d h100 --objective peak-memory --dim batch=8": "the order with the least memory",
        "placewright plan model.onnx -d cpu+2xt4 --memory-limit 10GiB -o plan.json": "within a limit",
        "placewright plan set.graphs.gz:NAME -d 4xa100-80g/nvlink --pin 'embed*=0'": "one graph of a set",
    },
    "fit": {
        "placewright fit example:inception-v3-train -d p100": "limit against step time, beside block checkpointing",
        "placewright fit net.py:build -d h100 --training --report fit.html": "a module, and a chart",
    },
    "inspect": {
        "placewright inspect model.onnx -d 2xh100": "what it costs, where it fits",
        "placewright inspect example:llama-3-8b-train --json": "for programs",
    },
    "show": {"placewright show plan.json": "the table that plan printed"},
    "explain": {
        "placewright explain plan.json": "peak, critical path, idle devices, gap",
        "placewright explain plan.json --op matmul_3": "why that op is where it is",
        "placewright explain plan.json --op encoder.layer.3": "the same of all ops of a module",
    },
    "diff": {"placewright diff one.json two.json": "what moved, and what it changed"},
    "check": {"placewright check model.onnx plan.json": "judge a plan by another simulator"},
    "export": {
        "placewright export plan.json --to perfetto": "for ui.perfetto.dev",
        "placewright export plan.json --to device-map -o map.json": "for accelerate",
    },
    "profile": {
        "placewright profile net.py:build -d cpu:0,cpu:1 -o here": "time ops and links, for plan and run",
        "placewright profile other.py:build -o here --training": "only what is new in another model",
    },
    "run": {
        "placewright run net.py:build -d cpu:0,cpu:1": "plan a module for two CPU devices, and measure it",
        "placewright run net.py:build --profile here --calibrate -o p.json": "plan again with what the run measured",
        "placewright run net.py:build --report r.html --trace t.json.gz": "planned and measured on one axis",
        "placewright run net.py:build plan.json --training": "a plan that was made before",
    },
    "examples": {"placewright examples": "networks that ship with placewright"},
    "solvers": {"placewright solvers": "what plan --solver takes"},
    "schema": {"placewright schema explain": "JSON Schema of explain --json"},
    "devices list": {"placewright devices list": "presets and links"},
    "devices show": {"placewright devices show 2xh100 -o machine.json": "a machine, to change it"},
    "devices detect": {"placewright devices detect -o here.json": "this machine, for --devices here.json"},
}


def add_examples(commands: typer.Typer, examples: Mapping[str, Mapping[str, str]], group: str = "") -> None:
    """Append examples to the help of the commands of `commands` and of its groups."""
    for command in commands.registered_commands:
        name = f"{group}{command.name or getattr(command.callback, '__name__', '')}"
        if name in examples:
            lines = [f"  # {what}\n  {line}" for line, what in examples[name].items()]
            # The mark preserves the line breaks.
            command.epilog = "\b\nExamples:\n" + "\n".join(lines)
    for inner in commands.registered_groups:
        assert inner.typer_instance is not None
        add_examples(inner.typer_instance, examples, f"{inner.name} ")


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
    """Options of all commands."""


app.command("plan")(planning.plan)
app.command("fit")(fitting.fit)
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
    """Return the table of commands, with those of extensions unless the arguments name one of placewright's own."""
    return app if arguments and arguments[0] in _OWN else whole_app()


@cache
def whole_app() -> typer.Typer:
    """Return the table with the commands of all extensions."""
    for commands in all_commands():
        commands.add_to(app)
        add_examples(app, commands.examples)
    return app
