"""The command that runs plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placewright.cli.options import Dims, Json, Quiet, parse_dims, parse_objective
from placewright.support.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from placewright.api.questions import Answer
    from placewright.plans.record import Plan


ModelFunction = Annotated[
    str,
    typer.Argument(
        metavar="FILE.py:FUNCTION",
        help="A function that returns a PyTorch module and the tuple it is called with.",
        show_default=False,
    ),
]
LocalDevices = Annotated[
    str,
    typer.Option("--devices", "-d", metavar="DEVICES", help="Devices of this host: cpu:0, cuda:0, streams cuda:0/0."),
]
Training = Annotated[bool, typer.Option("--training", help="Training steps: forward and backward.")]


def run(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="FILE.py:FUNCTION, a function that returns a PyTorch module and the tuple it is called with, or an "
            "ONNX file.",
            show_default=False,
        ),
    ],
    plan_file: Annotated[
        Path | None, typer.Argument(metavar="[PLAN]", help="A plan for it; one is made where none is given.")
    ] = None,
    devices: LocalDevices = "cpu:0,cpu:1",
    training: Training = False,
    objective: Annotated[str, typer.Option(metavar="GOAL", help="step-time or peak-memory.")] = "step-time",
    measured: Annotated[
        Path | None,
        typer.Option(metavar="CSV", help="Op times: read where the file exists, else made."),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Op times as `placewright profile` keeps them; new ones are added."),
    ] = None,
    inductor: Annotated[
        bool,
        typer.Option("--inductor", help="Compile runs of ops where that is faster, and measure torch.compile too."),
    ] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Plan again with what the run measured, until both agree.")
    ] = False,
    dim: Dims = None,
    feeds: Annotated[
        Path | None,
        typer.Option(metavar="NPZ", help="Inputs of an ONNX model by name; by default random ones."),
    ] = None,
    steps: Annotated[int, typer.Option(metavar="N", min=1, max=100_000, help="Steps of each sort to measure.")] = 20,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="PLAN", help="Write the plan.")] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="HTML", help="Write a report: planned and measured on one axis.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="TRACE", help="Write a Perfetto trace of both (.json or .json.gz).")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run a module or ONNX model as planned here, and measure it."""
    from placewright import api
    from placewright.cli.outputs import check_outputs
    from placewright.export.run_trace import write_run_trace
    from placewright.plans.file import read_plan
    from placewright.report import write_report
    from placewright.terminal.run_table import run_table

    goal = parse_objective(objective)
    given: Plan | None = None if plan_file is None else read_plan(plan_file)
    is_onnx = model.lower().endswith(".onnx")
    check_outputs(
        {"--output": output, "--report": report, "--trace": trace},
        inputs=[plan_file, measured, feeds, model if is_onnx else None],
    )
    if is_onnx:
        if training or inductor or calibrate or any(path is not None for path in (profile, report, trace)):
            raise InputError(
                "--training, --inductor, --calibrate, --profile, --report and --trace are for PyTorch modules, not "
                "ONNX files"
            )
        onnx_options = {"devices": devices, "plan": given, "measured": measured, "objective": goal}
        return _run_onnx(model, dim, feeds, steps, output, as_json, onnx_options)
    if dim or feeds is not None:
        raise InputError("--dim and --feeds are for ONNX files; a function returns its module's arguments")
    from placewright.importers.python_source import made_by

    module, arguments = made_by(model)
    compiled = api.compile(
        module,
        arguments,
        devices=devices,
        training=training,
        plan=given,
        measured=measured,
        profile=profile,
        inductor=inductor,
        objective=goal,
    )
    with compiled:
        if calibrate:
            compiled.calibrate(*arguments, steps=steps)
        if output is not None:
            api.save(compiled.plan, output)
        found = compiled.compare(*arguments, steps=steps)
        if report is not None:
            write_report(compiled.plan, report, run=found.facts)
        if trace is not None:
            write_run_trace(compiled.plan, trace, found.facts)
    return _told(found, as_json, run_table)


def _run_onnx(
    path: str,
    dim: list[str] | None,
    feeds: Path | None,
    steps: int,
    output: Path | None,
    as_json: bool,
    options: Mapping[str, Any],
) -> int:
    from placewright import api
    from placewright.execution.onnx_runtime.npz import read_feeds
    from placewright.terminal.onnx_run_table import onnx_run_table

    given = None if feeds is None else read_feeds(feeds)
    with api.compile_onnx(path, dims=parse_dims(dim), feeds=given, **options) as compiled:
        if output is not None:
            api.save(compiled.plan, output)
        found = compiled.compare(steps=steps)
    return _told(found, as_json, onnx_run_table)


def _told(found: Answer[Any], as_json: bool, tables: Callable[[Any], Iterable[RenderableType]]) -> int:
    from placewright.cli.printing import print_json, print_parts

    if as_json:
        print_json(asdict(found.facts))
    else:
        print_parts(*tables(found.facts))
    return 0
