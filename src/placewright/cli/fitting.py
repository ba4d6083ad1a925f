"""`placewright fit`: memory limit against step time on one device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from placewright.cli.exit_codes import INTERRUPTED
from placewright.cli.options import Dims, Json, Keep, Measured, Model, Quiet, Training, parse_dims
from placewright.cli.printing import print_found
from placewright.importers.sources import names_code, place_of
from placewright.support.errors import InputError
from placewright.support.quantities import format_time_ns


def fit(
    model: Model,
    devices: Annotated[
        str,
        typer.Option(
            "--devices",
            "-d",
            metavar="MACHINE",
            show_default=False,
            help="One device: h100, a100-80g, or a file. With --alternatives several, each looked at alone.",
        ),
    ],
    training: Training = False,
    alternatives: Annotated[
        bool,
        typer.Option(
            "--alternatives",
            help="Of FILE.py:FUNCTION also what else fits: batches, bfloat16, optimizers, gradient accumulation.",
        ),
    ] = False,
    memory_limit: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Of --alternatives: 8GiB. By default all there is.", show_default=False),
    ] = None,
    time_limit: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Of --alternatives: 30s. By default 60 s.", show_default=False),
    ] = None,
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
    import placewright
    from placewright.analysis.alternatives import Alternatives
    from placewright.analysis.frontier import Frontier
    from placewright.api.functions import as_machine
    from placewright.cli.outputs import check_outputs
    from placewright.cli.progress import following, staged
    from placewright.importers.python_source import made_by
    from placewright.report.frontier import write_frontier_report
    from placewright.support.interruption import Interruption, until_interrupted
    from placewright.terminal.alternatives_table import alternatives_table
    from placewright.terminal.frontier_table import frontier_table

    check_outputs({"--report": report}, inputs=[place_of(model), devices, measured])
    for option, value in (("--memory-limit", memory_limit), ("--time-limit", time_limit)):
        if value is not None and not alternatives:
            raise InputError(f"{option} is for --alternatives; the table without it is of all limits")
    if alternatives and not names_code(model):
        raise InputError("--alternatives captures a module for other batches, so it needs FILE.py:FUNCTION")
    machine = as_machine(devices)
    with Interruption() as interrupted:
        with staged() as show:
            show(f"reading {model}")
            is_code = (training or alternatives) and names_code(model)
            module, arguments, by_name = made_by(model) if is_code else (model, (), {})
            shared: dict[str, Any] = {
                "args": arguments,
                "kwargs": by_name,
                "keep": keep or (),
                "evaluations": evaluations,
                "seed": seed,
                "on_progress": following(show, format_time_ns),
                "on_stage": show,
                "interrupted": interrupted,
            }
            tried: Alternatives | None = None
            if alternatives:
                limits: dict[str, Any] = {"memory_limit": memory_limit, "time_limit": time_limit or "60s"}
                tried = placewright.alternatives(module, machine, **limits, **shared).facts
            found: Frontier | Alternatives | None = tried
            if tried is None or (machine.num_devices == 1 and not interrupted()):
                with until_interrupted(interrupted):
                    frontier = placewright.frontier(
                        module,
                        machine,
                        training=training or alternatives,
                        measured=measured,
                        dims=parse_dims(dim),
                        **shared,
                    ).facts
                    found = replace(frontier, alternatives=tried)
        if found is None:
            return INTERRUPTED
        written: dict[str, str] = {}
        if report is not None:
            write_frontier_report(found, report)
            written[str(report)] = "report"
        if isinstance(found, Alternatives):
            print_found(found, alternatives_table(found, written), as_json)
        else:
            print_found(found, frontier_table(found, written), as_json)
        return INTERRUPTED if interrupted() else 0
