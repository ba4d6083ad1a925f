"""Commands that read graphs: inspect and check."""

from __future__ import annotations

from typing import Annotated

import typer

from placewright.cli.options import Dims, Json, Measured, Model, PlanFile, Training, parse_dims
from placewright.cli.printing import print_found


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
    """What a graph holds, what it costs, and where it fits."""
    import placewright
    from placewright.terminal.inspect_tables import inspect_tables

    inspection = placewright.inspect(model, devices, training=training, dims=parse_dims(dim), measured=measured).facts
    print_found(inspection, inspect_tables(inspection), as_json)
    return 0


def check(model: Model, plan_file: PlanFile, dim: Dims = None, measured: Measured = None, as_json: Json = False) -> int:
    """Simulate a plan or a memory map anew; a wrong one exits with 1."""
    from placewright.api.questions import judge
    from placewright.cli.mapping import check_map
    from placewright.memory_levels.file import is_map_file
    from placewright.plans.file import read_plan
    from placewright.terminal.check_table import check_table

    if is_map_file(plan_file):
        return check_map(model, plan_file, parse_dims(dim), as_json)
    plan = read_plan(plan_file)
    found = judge(plan, model, dims=parse_dims(dim), measured=measured, name=f"'{plan_file}'")
    print_found(found, check_table(plan, found.problems, found.unchecked), as_json)
    return 0 if found.correct else 1
