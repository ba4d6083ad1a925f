"""Commands that read graphs: inspect and check."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.options import Dims, Json, Measured, Model, PlanFile, parse_dims

if TYPE_CHECKING:
    from placewright.plan import Plan

_MOST_PROBLEMS = 20


def inspect(
    model: Model,
    devices: Annotated[
        str,
        typer.Option(
            "--devices", "-d", metavar="MACHINE", help="Machine whose times are shown and whose memory is judged."
        ),
    ] = "h100",
    dim: Dims = None,
    measured: Measured = None,
    as_json: Json = False,
) -> int:
    """What a graph holds, what it costs, and where it fits."""
    from placewright.cli.printing import print_json, print_parts
    from placewright.importers import load_graph
    from placewright.inspection import inspect_graph
    from placewright.machines import load_machine
    from placewright.terminal.inspect_tables import inspect_tables

    machine = load_machine(devices)
    inspection = inspect_graph(load_graph(model, dims=parse_dims(dim)), machine, measured=measured)
    if as_json:
        print_json(asdict(inspection))
    else:
        print_parts(*inspect_tables(inspection))
    return 0


def check(model: Model, plan_file: PlanFile, dim: Dims = None, measured: Measured = None) -> int:
    """Simulate a plan anew; exit code 1 when it is wrong."""
    from placewright.checker import check_plan
    from placewright.cli.printing import print_parts
    from placewright.costs import estimate_costs
    from placewright.errors import InputError
    from placewright.importers import load_graph
    from placewright.plan_file import match_graph, read_plan
    from placewright.quantities import counted
    from placewright.terminal.tables import line

    plan = read_plan(plan_file)
    dims, recorded = _recorded(plan)
    graph = load_graph(model, dims=parse_dims(dim) or dims)
    if differences := match_graph(plan, graph):
        raise InputError(f"'{plan_file}' is no plan for '{model}': {'; '.join(differences)}")
    costs = estimate_costs(graph, plan.machine, measured or recorded)
    problems = check_plan(plan, graph, costs.time_ns, costs.origin)
    if not problems:
        print_parts(
            line(f"correct: {len(plan.ops):,} ops and {len(plan.transfers):,} transfers simulate to the same plan")
        )
        return 0
    shown = problems[:_MOST_PROBLEMS]
    more = len(problems) - len(shown)
    print_parts(
        line(f"wrong: {counted(len(problems), 'difference')}", "bold red"), *(line(f"- {problem}") for problem in shown)
    )
    print_parts(line(f"and {more:,} more") if more else None)
    return 1


def _recorded(plan: Plan) -> tuple[dict[str, int], Path | None]:
    """The open dimensions and the file of measured times the plan was made with."""
    dims, measured = plan.configuration.get("dims"), plan.configuration.get("measured")
    known = dims if isinstance(dims, dict) and all(type(size) is int for size in dims.values()) else {}
    return known, Path(measured) if isinstance(measured, str) else None
