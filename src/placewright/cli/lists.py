"""Lists of the available choices: `placewright examples`, `solvers` and `schema`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.exit_codes import complain
from placewright.cli.options import Json, Plugins
from placewright.cli.printing import print_json, print_parts
from placewright.examples import names as example_names
from placewright.importers import load_graph
from placewright.support.quantities import counted

if TYPE_CHECKING:
    from placewright.graph import Graph


def examples(as_json: Json = False) -> int:
    """The graphs that ship with placewright, for use as example:NAME."""
    from placewright.analysis.inspection import describe_metadata
    from placewright.terminal.tables import table

    graphs = {name: load_graph(f"example:{name}") for name in example_names()}
    described = {name: (describe_metadata(graph.metadata), _inputs(graph)) for name, graph in graphs.items()}
    if as_json:
        facts = {
            name: {
                "num_ops": len(graphs[name].ops),
                "num_scheduled_ops": _num_scheduled(graphs[name]),
                "description": what,
                "inputs": inputs,
            }
            for name, (what, inputs) in described.items()
        }
        print_json({"schema_version": 1, "examples": facts})
        return 0
    rows = [
        [name, f"{len(graphs[name].ops):,}", f"{_num_scheduled(graphs[name]):,}", what, ", ".join(inputs)]
        for name, (what, inputs) in described.items()
    ]
    print_parts(table(["<example", "ops", "to schedule", "<what", "<inputs"], rows), "")
    print_parts(
        "to schedule: without views, which take no time and stand where their base stands",
        f"{counted(len(rows), 'example')}; use one as example:NAME, as in: placewright inspect example:{rows[0][0]}",
    )
    return 0


def _num_scheduled(graph: Graph) -> int:
    return sum(op.kind != "view" for op in graph.ops)


def _inputs(graph: Graph) -> list[str]:
    from placewright.analysis.inspection import graph_inputs

    return [
        f"{entry.dtype or 'unknown'}{list(entry.shape) if entry.shape is not None else ''}"
        for entry in graph_inputs(graph)
    ]


def solvers(plugin: Plugins = None, as_json: Json = False) -> int:
    """Methods that plan --solver and bench run --solvers take."""
    from placewright.methods.plugins import load_plugins
    from placewright.methods.table import method_summaries
    from placewright.terminal.tables import table

    load_plugins(plugin or ())
    found, complaints = method_summaries()
    if as_json:
        print_json({"schema_version": 1, "solvers": [asdict(method) for method in found]})
    else:
        needs = {method.name: f"; needs {method.needs}" if method.needs else "" for method in found}
        rows = [[method.name, method.kind, method.summary + needs[method.name]] for method in found]
        print_parts(table(["<solver", "<kind", "<what"], rows), "", "docs/algorithms.md says how they work and compare")
    for complaint in complaints:
        complain(complaint)
    return 0


def schema(
    command: Annotated[str, typer.Argument(metavar="COMMAND", help="A command that has --json.", show_default=False)],
) -> int:
    """JSON Schema of what a command prints with --json."""
    from placewright.cli.schemas import schema_of

    print_json(schema_of(command))
    return 0
