"""`placewright fit`: memory limit against step time on one device."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from placewright.cli import INTERRUPTED
from placewright.cli.options import Dims, Json, Keep, Measured, Model, Quiet, parse_dims


def fit(
    model: Model,
    devices: Annotated[
        str,
        typer.Option(
            "--devices", "-d", metavar="MACHINE", show_default=False, help="One device: h100, a100-80g, or a file."
        ),
    ],
    training: Annotated[
        bool, typer.Option("--training", help="Of FILE.py:FUNCTION a training step: forward, backward and optimizer.")
    ] = False,
    keep: Keep = None,
    measured: Measured = None,
    dim: Dims = None,
    evaluations: Annotated[
        int | None, typer.Option(metavar="N", help="Budget of each limit. By default about a second's.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Same seed, same plans.")] = 0,
    report: Annotated[Path | None, typer.Option(metavar="HTML", help="Write a page with a chart of it.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """What a step takes within each memory limit when ops run again."""
    from placewright import api
    from placewright.cli.interruption import Interruption
    from placewright.cli.outputs import check_outputs
    from placewright.cli.printing import print_json, print_parts
    from placewright.cli.progress import watched
    from placewright.importers.python_source import made_by
    from placewright.importers.sources import names_code, place_of
    from placewright.report.frontier import write_frontier_report
    from placewright.terminal.frontier_table import frontier_table

    check_outputs({"--report": report}, inputs=[place_of(model), devices, measured])
    with Interruption() as interrupted:
        with watched(model, "step-time") as on_progress:
            module, arguments = made_by(model) if training and names_code(model) else (model, ())
            found = api.frontier(
                module,
                devices,
                args=arguments,
                training=training,
                keep=keep or (),
                evaluations=evaluations,
                seed=seed,
                measured=measured,
                dims=parse_dims(dim),
                on_progress=on_progress,
                interrupted=interrupted,
            ).facts
        written: dict[str, str] = {}
        if report is not None:
            write_frontier_report(found, report)
            written[str(report)] = "report"
        if as_json:
            print_json(asdict(found))
        else:
            print_parts(*frontier_table(found, written))
        return INTERRUPTED if interrupted() else 0
