"""What there is to choose from: `placewright solvers` and `schema`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from placewright.cli.options import Json, Plugins


def solvers(plugin: Plugins = None, as_json: Json = False) -> int:
    """Methods that plan --solver and bench run --solvers take."""
    from placewright.cli.exit_codes import complain
    from placewright.cli.printing import print_json, print_parts
    from placewright.methods.plugins import load_plugins
    from placewright.methods.summaries import method_summaries
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
    from placewright.cli.printing import print_json
    from placewright.cli.schemas import schema_of

    print_json(schema_of(command))
    return 0
