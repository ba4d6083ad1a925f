"""The command that measures what ops and links take on this host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from placewright.cli.options import Json, Quiet
from placewright.cli.printing import print_found
from placewright.cli.progress import staged
from placewright.cli.running import CudaGraph, LocalDevices, ModelFunction, Passes


def profile(
    model: ModelFunction,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FOLDER", help="Keeps what is measured of this and other models."),
    ],
    devices: LocalDevices = "cpu:0,cpu:1",
    training: Passes = False,
    cuda_graph: CudaGraph = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Measure what ops and links take on this host."""
    import placewright
    from placewright.importers.python_source import made_by
    from placewright.terminal.profile_table import profile_table

    with staged() as show:
        show(f"making {model}")
        module, arguments, by_name = made_by(model)
        show("capturing the module, timing its ops and links")
        found = placewright.profile(
            module,
            arguments,
            kwargs=by_name,
            devices=devices,
            folder=output,
            training=training,
            cuda_graph=cuda_graph,
        )
    print_found(found.facts, profile_table(found.facts), as_json)
    return 0
