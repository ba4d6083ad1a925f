"""`placewright plan`: the main command."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.exit_codes import INTERRUPTED, NOTHING_FEASIBLE, complain
from placewright.cli.options import (
    Dims,
    Evaluations,
    Goal,
    Json,
    Keep,
    Measured,
    Model,
    Plugins,
    Quiet,
    Report,
    TimeLimit,
    Training,
    parse_dims,
    parse_forbids,
    parse_groups,
    parse_objective,
    parse_rules,
    parse_settings,
)
from placewright.cli.printing import print_found
from placewright.importers.sources import place_of
from placewright.problem.objective import format_objective
from placewright.support.errors import InputError

if TYPE_CHECKING:
    from placewright.api.questions import Plan


def plan(
    model: Model,
    devices: Annotated[
        str,
        typer.Option(
            "--devices",
            "-d",
            metavar="MACHINE",
            show_default=False,
            help="Machine: 2xh100, cpu+2xk80, 4xa100-80g/nvlink, or a devices.toml.",
        ),
    ],
    training: Training = False,
    objective: Goal = "step-time",
    memory_limit: Annotated[
        str | None,
        typer.Option(metavar="SIZES", help="10GiB for every device but CPUs, or gpu0=30GiB,cpu=64GiB."),
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB=DEVICE", help="Ops or modules that run there: 'layers.0.*=gpu0'; repeatable."),
    ] = None,
    forbid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB=DEVICES", help="Ops or modules that never run there: 'embed*=gpu0,gpu1'; repeatable."
        ),
    ] = None,
    colocate: Annotated[
        list[str] | None, typer.Option(metavar="GLOB,GLOB", help="Ops or modules that share a device; repeatable.")
    ] = None,
    keep: Keep = None,
    max_slowdown: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="With peak-memory: how much longer the step may take, like 10%."),
    ] = None,
    measured: Measured = None,
    dim: Dims = None,
    solver: Annotated[str, typer.Option(metavar="NAME", help="One of `placewright solvers`.")] = "auto",
    plugin: Plugins = None,
    evaluations: Evaluations = None,
    time_limit: TimeLimit = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Same seed, same plan.")] = 0,
    threads: Annotated[
        int | None, typer.Option(metavar="N", help="All cores by default; matters to the plan only with --time-limit.")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Guides regal, idrs, gas or gdp: a file, or one of `placewright policies`."),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of the solver: batch=20; repeatable."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="PLAN", help="Write the plan (.json or .json.gz).")
    ] = None,
    report: Report = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="TRACE", help="Write a Perfetto trace (.json or .json.gz).")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Find where each op runs, in what order, and when tensors move."""
    from placewright.analysis.advice import shortage_words
    from placewright.api import functions
    from placewright.cli.outputs import check_outputs
    from placewright.cli.progress import announce_effort, watched
    from placewright.methods.plugins import load_plugins
    from placewright.support.interruption import Interruption

    goal = parse_objective(objective)
    load_plugins(plugin or ())
    announce_effort(solver, time_limit)
    check_outputs(
        {"--output": output, "--report": report, "--trace": trace}, inputs=[place_of(model), devices, measured]
    )
    with Interruption() as interrupted:
        with watched(model, partial(format_objective, goal)) as on_progress:
            found = functions.plan(
                model,
                devices,
                training=training,
                objective=goal,
                memory_limit=memory_limit,
                pins=parse_rules("--pin", pin),
                forbids=parse_forbids(forbid),
                colocate=parse_groups(colocate),
                max_slowdown=max_slowdown,
                solver=solver,
                evaluations=evaluations,
                time_limit=time_limit,
                seed=seed,
                threads=threads,
                policy=policy,
                settings=parse_settings(setting),
                measured=measured,
                dims=parse_dims(dim),
                keep=keep or (),
                on_progress=on_progress,
                interrupted=interrupted,
            )
        written = _write(found, output, report, trace)
        _print(found, written, as_json)
        if interrupted():
            return INTERRUPTED
    if found.status == "infeasible":
        complain(shortage_words(found))
        return NOTHING_FEASIBLE
    return 0


def _write(plan: Plan, output: Path | None, report: Path | None, trace: Path | None) -> dict[str, str]:
    """Write the requested files; return the kind of content by path."""
    import placewright
    from placewright.terminal.plan_table import written_words

    writers: list[tuple[Path | None, str, Callable[[Path], None]]] = [
        (output, "plan", lambda path: placewright.save(plan, path)),
        (report, "report", plan.write_report),
        (trace, "trace", lambda path: placewright.export_plan(plan, "perfetto", path)),
    ]
    written: dict[str, str] = {}
    for path, what, write in writers:
        if path is not None:
            try:
                write(path)
            except InputError as error:
                before = f"; written before: {written_words(written)}" if written else ""
                raise InputError(f"{error}{before}") from error
            written[str(path)] = what
    return written


def _print(plan: Plan, written: dict[str, str], as_json: bool) -> None:
    from placewright.terminal.plan_summary import plan_summary
    from placewright.terminal.plan_table import plan_table

    print_found(plan_summary(plan, written), plan_table(plan, written), as_json)
