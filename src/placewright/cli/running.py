"""The command that runs plans."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placewright.cli.options import Json, Quiet, parse_objective
from placewright.support.errors import InputError, shown

if TYPE_CHECKING:
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
    typer.Option("--devices", "-d", metavar="DEVICES", help="Devices of this host. CPUs share its cores."),
]
Training = Annotated[bool, typer.Option("--training", help="Training steps: forward and backward.")]


def run(
    model: ModelFunction,
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
    steps: Annotated[int, typer.Option(metavar="N", min=1, max=100_000, help="Steps of each sort to measure.")] = 20,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="PLAN", help="Write the plan.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run a module as planned on this host, and measure it."""
    from placewright import api
    from placewright.cli.outputs import check_outputs
    from placewright.cli.printing import print_json, print_parts
    from placewright.plans.file import read_plan
    from placewright.terminal.run_table import run_table

    goal = parse_objective(objective)
    given: Plan | None = None if plan_file is None else read_plan(plan_file)
    check_outputs({"--output": output}, inputs=[plan_file, measured])
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
    if as_json:
        print_json(asdict(found.facts))
    else:
        print_parts(*run_table(found.facts))
    return 0


def made_by(model: str) -> tuple[Any, tuple[Any, ...]]:
    """Module and arguments of "FILE.py:FUNCTION"."""
    from placewright.support.modules import PLUGIN_PREFIX, load_file

    path, _, name = model.rpartition(":")
    if not path or not name:
        raise InputError(f"'{shown(model)}' does not name a function; write it like net.py:build")
    if not Path(path).is_file():
        raise InputError(f"cannot read '{shown(path)}': No such file or directory")
    function = getattr(load_file(Path(path), PLUGIN_PREFIX + Path(path).stem), name, None)
    if not callable(function):
        raise InputError(f"'{shown(path)}' has no function '{shown(name)}'")
    made = function()
    if not (isinstance(made, tuple) and len(made) == 2):
        raise InputError(f"'{shown(model)}' must return a module and its arguments, not a {shown(type(made).__name__)}")
    module, arguments = made
    return module, arguments if isinstance(arguments, tuple) else (arguments,)
