"""Commands that run models on this host: run and profile."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placewright.cli.options import Goal, Json, Keep, Quiet, parse_objective
from placewright.cli.printing import print_found
from placewright.cli.progress import Show, staged
from placewright.support.errors import InputError

if TYPE_CHECKING:
    from placewright.api.questions import Answer
    from placewright.execution.comparison import RunComparison
    from placewright.plans.record import Plan


ModelFunction = Annotated[
    str,
    typer.Argument(
        metavar="FILE.py:FUNCTION",
        help="A function that returns a PyTorch module, the tuple it is called with, and what it is given by name.",
        show_default=False,
    ),
]
LocalDevices = Annotated[
    str,
    typer.Option("--devices", "-d", metavar="DEVICES", help="Devices of this host: cpu:0, cuda:0, streams cuda:0/0."),
]
Passes = Annotated[bool, typer.Option("--training", help="Training steps: forward and backward.")]


MeasuredHere = Annotated[
    Path | None, typer.Option("--measured", metavar="CSV", help="Op times: read where the file exists, else made.")
]
ProfileFolder = Annotated[
    Path | None,
    typer.Option(
        "--profile", metavar="FOLDER", help="Op times as `placewright profile` keeps them; new ones are added."
    ),
]
Inductor = Annotated[
    bool, typer.Option("--inductor", help="Compile runs of ops where that is faster, and measure torch.compile too.")
]
CudaGraph = Annotated[
    bool, typer.Option("--cuda-graph", help="Record a step on streams of one GPU, and launch it at once.")
]
Calibrate = Annotated[
    bool, typer.Option("--calibrate", help="Plan again with what the run measured, until both agree.")
]
NumSteps = Annotated[
    int, typer.Option("--steps", metavar="N", min=1, max=100_000, help="Steps of each sort to measure.")
]
RunReport = Annotated[
    Path | None, typer.Option("--report", metavar="HTML", help="Write a report: planned and measured on one axis.")
]
RunTrace = Annotated[
    Path | None, typer.Option("--trace", metavar="TRACE", help="Write a Perfetto trace of both (.json or .json.gz).")
]


def run(
    model: ModelFunction,
    plan_file: Annotated[
        Path | None, typer.Argument(metavar="[PLAN]", help="A plan for it; one is made where none is given.")
    ] = None,
    devices: LocalDevices = "cpu:0,cpu:1",
    training: Passes = False,
    objective: Goal = "step-time",
    memory_limit: Annotated[
        str | None, typer.Option(metavar="SIZES", help="As of `plan`: ops may run again to keep it.")
    ] = None,
    keep: Keep = None,
    measured: MeasuredHere = None,
    profile: ProfileFolder = None,
    inductor: Inductor = False,
    cuda_graph: CudaGraph = False,
    calibrate: Calibrate = False,
    steps: NumSteps = 20,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="PLAN", help="Write the plan.")] = None,
    report: RunReport = None,
    trace: RunTrace = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run a module as planned here, and measure it."""
    from placewright.cli.outputs import check_outputs
    from placewright.plans.file import read_plan
    from placewright.terminal.run_table import run_table

    check_outputs({"--output": output, "--report": report, "--trace": trace}, inputs=[plan_file, measured])
    if cuda_graph and calibrate:
        raise InputError("--calibrate is for steps that are launched op by op; leave it or --cuda-graph out")
    goal = parse_objective(objective)
    given = None if plan_file is None else read_plan(plan_file)
    options: dict[str, Any] = {"devices": devices, "plan": given, "measured": measured, "objective": goal}
    options |= {"memory_limit": memory_limit, "training": training, "profile": profile, "inductor": inductor}
    options |= {"cuda_graph": cuda_graph, "keep": keep or ()}
    with staged() as show:
        found = _run_module(model, calibrate, steps, output, report, trace, options, show)
    print_found(found.facts, run_table(found.facts), as_json)
    return 0


def _run_module(
    source: str,
    calibrate: bool,
    steps: int,
    output: Path | None,
    report: Path | None,
    trace: Path | None,
    options: Mapping[str, Any],
    show: Show,
) -> Answer[Any]:
    import placewright
    from placewright.importers.python_source import made_by

    show(f"making {source}")
    module, arguments, by_name = made_by(source)
    if "steps" in by_name:
        raise InputError(
            f"'{source}' gives its module 'steps' by name, which `run` takes for its own; give it by position"
        )
    show("capturing the module, timing its ops and planning")
    with placewright.compile(module, arguments, kwargs=by_name, **options) as compiled:
        if calibrate:
            show("running the plan and planning again")
            compiled.calibrate(*arguments, steps=steps, **by_name)
        if output is not None:
            placewright.save(compiled.plan, output)
        show(f"running {steps} steps of each sort")
        found = compiled.compare(*arguments, steps=steps, **by_name)
        _write(compiled.plan, found.facts, report, trace)
    return found


def _write(plan: Plan, run: RunComparison, report: Path | None, trace: Path | None) -> None:
    from placewright.export.perfetto import write_run_trace
    from placewright.report import write_report

    if report is not None:
        write_report(plan, report, run=run)
    if trace is not None:
        write_run_trace(plan, trace, run)


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
