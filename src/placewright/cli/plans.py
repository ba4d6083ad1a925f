"""Commands that read plans and graphs: show, explain, diff, export, check, inspect."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from placewright.cli.extensions import kind_of
from placewright.cli.options import Dims, Json, Measured, Model, PlanFile, Quiet, Training, parse_dims
from placewright.cli.printing import emit, print_found
from placewright.support.errors import InputError, did_you_mean
from placewright.support.files import write_atomically


def show(plan_file: PlanFile, as_json: Json = False) -> int:
    """A plan's table, as `plan` prints it, or a memory map's."""
    from placewright.plans.file import read_plan
    from placewright.terminal.plan_summary import plan_summary
    from placewright.terminal.plan_table import plan_table

    if kind := kind_of(plan_file):
        print_found(*kind.show(plan_file), as_json)
    else:
        plan = read_plan(plan_file)
        print_found(plan_summary(plan), plan_table(plan), as_json)
    return 0


def explain(
    plan_file: PlanFile,
    op: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="An op or a module: why it is where it is, and what each other device would cost."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="With --op: the model, if it is not where it was."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Explain why a plan or a memory map costs what it costs."""
    from placewright.analysis.explain import explain as explain_plan
    from placewright.api.questions import why_there
    from placewright.plans.file import read_plan
    from placewright.terminal.explain_tables import explain_tables
    from placewright.terminal.op_tables import op_tables

    if kind := kind_of(plan_file):
        if op is not None:
            raise InputError(f"'{plan_file}' is a {kind.title}, which is explained as a whole")
        print_found(*kind.explain(plan_file), as_json)
        return 0
    plan = read_plan(plan_file)
    if op is not None:
        there = why_there(plan, op, model, name=f"'{plan_file}'")
        print_found(there, op_tables(plan, there), as_json)
    else:
        of_plan = explain_plan(plan)
        print_found(of_plan, explain_tables(plan, of_plan), as_json)
    return 0


def diff(
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="A plan file.", show_default=False)],
    second: Annotated[
        Path, typer.Argument(metavar="SECOND", help="Another one for the same graph.", show_default=False)
    ],
    as_json: Json = False,
) -> int:
    """Two plans for one graph side by side."""
    from placewright.analysis.comparison import compare
    from placewright.plans.file import read_plan
    from placewright.terminal.diff_tables import diff_tables

    plans = read_plan(first), read_plan(second)
    changed = compare(*plans)
    print_found(changed, diff_tables(*plans, changed), as_json)
    return 0


class ExportCommand(TyperCommand):
    """The command `export`. Its help lists the export targets, whose import loads all exporters, so it is delayed until
    this command is used."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return arguments and options, which Typer asks for when it reads a command and when it prints help."""
        from placewright.export import TARGETS

        parameters: list[Any] = super().get_params(ctx)
        *listed, last = (f"{name} ({target.summary})" for name, target in TARGETS.items())
        next(each for each in parameters if each.name == "to").help = f"{', '.join(listed)} or {last}."
        return parameters


def export(
    plan_file: PlanFile,
    to: Annotated[
        str,
        typer.Option(metavar="TARGET"),
    ],
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="The plan's model: what a device map or a pipeline costs, who reads what in perfetto.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="By default beside the plan.")
    ] = None,
    alignment: Annotated[
        int | None,
        typer.Option("--alignment", metavar="BYTES", help="Of offsets: a power of two, by default 64."),
    ] = None,
    quiet: Quiet = False,
) -> int:
    """Write a plan or a memory map for another tool."""
    from placewright.cli.outputs import check_outputs
    from placewright.export import TARGETS, require_alignment, told_of_export, write_export
    from placewright.plans.file import read_plan
    from placewright.support.errors import printable

    if to not in TARGETS:
        raise InputError(f"unknown export target '{to}'{did_you_mean(to, TARGETS)}")
    require_alignment(to, alignment)
    stem = plan_file.name.removesuffix(".gz").removesuffix(".json")
    path = output or plan_file.with_name(stem + TARGETS[to].suffix)
    check_outputs({"--output": path}, inputs=[plan_file, model])
    if kind := kind_of(plan_file):
        if to not in kind.targets:
            targets = " or ".join(kind.targets)
            raise InputError(f"'{plan_file}' is a {kind.title}, which is exported to {targets}, not to {to}")
        write_atomically(path, kind.targets[to](plan_file))
        emit(str(path))
        return 0
    plan = read_plan(plan_file)
    told, warnings = told_of_export(plan, to, model)
    write_export(plan, to, path, graph=model, alignment=alignment)
    emit("\n".join([str(path), *told]))
    for warning in warnings:
        print(f"placewright: warning: {printable(warning)}", file=sys.stderr)
    return 0


def inspect(
    model: Model,
    devices: Annotated[
        str,
        typer.Option(
            "--devices", "-d", metavar="MACHINE", help="Machine whose times are shown and whose memory is judged."
        ),
    ] = "h100",
    training: Training = False,
    dim: Dims = None,
    measured: Measured = None,
    as_json: Json = False,
) -> int:
    """Show what a graph holds, what it costs, and where it fits."""
    import placewright
    from placewright.terminal.inspect_tables import inspect_tables

    inspection = placewright.inspect(model, devices, training=training, dims=parse_dims(dim), measured=measured).facts
    print_found(inspection, inspect_tables(inspection), as_json)
    return 0


def check(model: Model, plan_file: PlanFile, dim: Dims = None, measured: Measured = None, as_json: Json = False) -> int:
    """Simulate a plan or a memory map anew; a wrong one exits with 1."""
    from placewright.api.questions import judge
    from placewright.plans.file import read_plan
    from placewright.terminal.check_table import check_table

    dims = parse_dims(dim)
    if kind := kind_of(plan_file):
        found, tables = kind.check(plan_file, model, dims)
    else:
        plan = read_plan(plan_file)
        found = judge(plan, model, dims=dims, measured=measured, name=f"'{plan_file}'")
        tables = check_table(plan, found.problems, found.unchecked)
    print_found(found, tables, as_json)
    return 0 if found.correct else 1
