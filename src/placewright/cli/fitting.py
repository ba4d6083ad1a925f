"""`placewright fit`: ways to train within the memory of a device, and memory limit against step time."""

from __future__ import annotations

from collections.abc import Mapping
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
            help="One device: h100, a100-80g, or a file. Of several, each is looked at alone.",
        ),
    ],
    memory_limit: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="8GiB. By default what there is, less 0.6 GiB on GPUs.", show_default=False),
    ] = None,
    optimizer: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Yours: adamw (the default), adam, adam8bit, sgd, sgd-momentum."),
    ] = None,
    time_limit: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="After which nothing else is tried: 60s. By default 20 s."),
    ] = None,
    limits: Annotated[
        bool,
        typer.Option("--limits", help="What a step takes within each memory limit, as for graphs and functions."),
    ] = False,
    training: Training = False,
    keep: Keep = None,
    measured: Measured = None,
    dim: Dims = None,
    evaluations: Annotated[
        int | None, typer.Option(metavar="N", help="Budget of each search. By default up to a second's.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Same seed, same plans.")] = 0,
    report: Annotated[Path | None, typer.Option(metavar="HTML", help="Write a page of it.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """The fastest way to train in a GPU's memory, as code."""
    import placewright
    from placewright.api.pass_captures import is_torch_module
    from placewright.cli.outputs import check_outputs
    from placewright.cli.progress import following, staged
    from placewright.importers.python_source import made_by
    from placewright.machines.specification import as_machine
    from placewright.report.alternatives import write_alternatives_report
    from placewright.report.frontier import write_frontier_report
    from placewright.support.interruption import Interruption
    from placewright.terminal.alternatives_table import alternatives_table
    from placewright.terminal.frontier_table import frontier_table

    check_outputs({"--report": report}, inputs=[place_of(model), devices, measured])
    machine = as_machine(devices)
    with Interruption() as interrupted:
        with staged() as show:
            show(f"reading {model}")
            is_code = names_code(model) and (training or not limits)
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
            is_advice = is_torch_module(module) and not limits
            advised = {"--memory-limit": memory_limit, "--optimizer": optimizer, "--time-limit": time_limit}
            if is_advice:
                _check_absent({"--measured": measured, "--dim": dim}, "tables of limits; add --limits")
                own: dict[str, Any] = {"memory_limit": memory_limit, "optimizer": optimizer}
                if time_limit is not None:
                    own["time_limit"] = time_limit
                tried = placewright.alternatives(module, machine, **own, **shared).facts
            else:
                _check_absent(advised, "modules of PyTorch that FILE.py:FUNCTION makes, without --limits")
                table: dict[str, Any] = {"training": training, "measured": measured, "dims": parse_dims(dim)}
                frontier = placewright.frontier(module, machine, **table, **shared).facts
        written: dict[str, str] = {} if report is None else {str(report): "report"}
        if is_advice:
            if report is not None:
                write_alternatives_report(tried, report)
            print_found(tried, alternatives_table(tried, written), as_json)
        else:
            if report is not None:
                write_frontier_report(frontier, report)
            print_found(frontier, frontier_table(frontier, written), as_json)
        return INTERRUPTED if interrupted() else 0


def _check_absent(options: Mapping[str, Any], purpose: str) -> None:
    """Raise InputError for an option that would do nothing."""
    for option, value in options.items():
        if value is not None:
            raise InputError(f"{option} is for {purpose}")
