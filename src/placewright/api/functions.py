"""The main job from Python: `plan`, `save` and `load`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from placewright.api.arguments import budget, constraints, globs, recorded_options, share
from placewright.api.questions import Answer, Plan, answer
from placewright.costs.measured import with_workspaces
from placewright.graph import Graph
from placewright.importers import load_graph
from placewright.importers.python_source import captured
from placewright.machine import Machine
from placewright.machines.limits import host_and_limits
from placewright.machines.specification import as_machine
from placewright.methods.plugins import solve
from placewright.methods.policy_file import find_policy
from placewright.methods.table import default_evaluations, make_method
from placewright.plans.assemble import assemble_plan
from placewright.plans.one_device import within_one_device
from placewright.plans.record import Plan as PlanRecord
from placewright.problem import make_problem
from placewright.problem.objective import ControlMode, Objective
from placewright.rematerialization.within_limits import RerunOptions, solve_within_limits
from placewright.search.run.budget import Interrupted, OnProgress
from placewright.search.run.search_run import MAX_THREADS, SearchRun
from placewright.support.errors import InputError
from placewright.support.quantities import whole_number

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

    from placewright.analysis.inspection import Inspection

    Model: TypeAlias = Graph | str | Path | torch.nn.Module | ExportedProgram | Callable[..., Any]


def plan(
    model: Model,
    devices: Machine | str | Path | Sequence[str],
    *,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    training: bool = False,
    objective: Objective = "step-time",
    memory_limit: int | str | Mapping[str | int, int | str] | Sequence[int | str | None] | None = None,
    pins: Mapping[str, str | int] | None = None,
    forbids: Mapping[str, str | int | Sequence[str | int]] | None = None,
    colocate: Sequence[Sequence[str]] = (),
    control: ControlMode = "signal",
    solver: str = "auto",
    evaluations: int | None = None,
    time_limit: float | str | None = None,
    seed: int = 0,
    threads: int | None = None,
    policy: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    measured: str | Path | None = None,
    dims: Mapping[str, int] | None = None,
    keep: Sequence[str] = (),
    max_slowdown: float | str | None = None,
    on_progress: OnProgress | None = None,
    interrupted: Interrupted | None = None,
) -> Plan:
    """Find where each op runs, in what order, and when tensors move.

    The same graph, machine, options, seed and number of evaluations give the same plan on any number of threads.

    Parameters
    ----------
    model
        A Graph, the path of a model or graph file, "example:NAME", a PyTorch module, an ExportedProgram, or a JAX
        function, as `from_jax` takes it.
    devices
        A Machine, a name like "2xh100", a list of names, or the path of a devices.toml.
    args, kwargs
        The arguments of a module or function; one tensor means a tuple of it.
    training
        Whether a module, or a function that gives a loss, is planned with its backward pass and optimizer.
    objective
        What is minimized: "step-time" or "peak-memory".
    memory_limit
        Bytes or "10GiB" for every device but CPUs, "gpu0=30GiB,cpu=64GiB" or a mapping for some, or a list with one
        entry per device. The capacities of the devices hold as well. "host" is the memory of the host, to which GPUs
        can move tensors; it has no limit of its own.
    pins
        Device by glob over names of ops or modules: the ops run there.
    forbids
        Device, or several, by such a glob: the ops never run there.
    colocate
        Groups of such globs; the ops of a group share a device.
    control
        The meaning of a control dependency across devices: "signal", "order" or "transfer".
    solver
        A method that `placewright solvers` lists, or a registered one.
    evaluations
        Budget: the most solutions that are evaluated. By default about a second's worth, unless there is a time limit.
        The search for ops that run again has a budget of its own, as long; twice the default here doubles it.
    time_limit
        Budget in seconds, or text like "1s". Only without one is the plan reproducible.
    seed
        Seed of all random choices.
    threads
        Number of threads; None for all cores. The plan depends on it only under a time limit.
    policy
        Guides the solvers `regal`, `idrs` and `gas`: a name or a file; None for the one shipped for the problem. Solver
        `gdp` begins with one, and returns at once unless a budget says to go on.
    settings
        Settings of the solver, by name, instead of its own; a plan's `configuration` lists them.
    measured
        A CSV file of measured op times, which override the cost model, and workspaces.
    dims
        Sizes of the open dimensions of an ONNX file, by name.
    keep
        Globs over names of ops or modules: these run once, and what they make stays on the device; ["*"] means all.
        With "recompute:" before a glob they run once; with "move:" what they make and their weights stay; "weight:"
        selects weights by their names. Other ops may run again where devices have too little memory to hold everything,
        and their results may be moved to the host's memory and back. On one device the weights of an inference may also
        lie in the host's memory.
    max_slowdown
        With the objective "peak-memory", on one device: ops may run again, as long as the step takes no more than this
        share longer than each op running once: 0.1 or "10%".
    on_progress
        Called now and then with the best so far.
    interrupted
        Asked now and then; True ends the search with what it has.

    Returns
    -------
    Plan
        Where nothing keeps the memory limits, the plan nearest to them, with status "infeasible".

    Raises
    ------
    InputError
        For bad input: one sentence that names the file or argument.
    MissingExtraError
        Where the model or the solver needs a package that is not installed.
    """
    began = time.perf_counter()
    seed = whole_number("seed", seed, 0, 2**64 - 1)
    cores = os.cpu_count() or 1 if threads is None else whole_number("threads", threads, 1, MAX_THREADS)
    guide = None if policy is None else find_policy(str(policy))
    method = make_method(solver, policy=guide, settings=settings)
    limits = budget(evaluations, time_limit, default_evaluations=5000)
    keep = globs("keep", keep)
    machine = as_machine(devices)
    host, limited = host_and_limits(memory_limit, machine)
    graph = as_graph(model, args=args, kwargs=kwargs, training=training, dims=dims)
    times = None if measured is None else Path(measured)
    problem = make_problem(
        with_workspaces(graph, times),
        machine,
        objective=objective,
        control=control,
        memory_limit=limited,
        constraints=constraints(pins, forbids, colocate),
        measured=times,
    )
    usual = partial(default_evaluations, solver, problem, guide)
    if evaluations is None and limits.seconds is None:
        limits = replace(limits, evaluations=usual())
    reruns = RerunOptions.of(
        problem, keep, host, share("max_slowdown", max_slowdown), usual=None if evaluations is None else usual
    )
    begin = partial(SearchRun, seed=seed, threads=cores, on_progress=on_progress, interrupted=interrupted)
    result, again = solve_within_limits(problem, partial(solve, method), begin, limits, reruns)
    within = within_one_device(problem, seed, limits.seconds, keep, interrupted)
    options = {
        **recorded_options(model, dims, limits),
        "training": training,
        "measured": None if measured is None else str(measured),
        "memory_limit": limited,
        "keep": list(keep),
        "max_slowdown": reruns.max_slowdown,
    }
    seconds = time.perf_counter() - began
    return Plan.of(
        assemble_plan(
            problem,
            result,
            solver=solver,
            seconds=seconds,
            options=options,
            again=again,
            host=reruns.host,
            within=within,
            may_run_again=reruns.is_possible,
        )
    )


def load(path: str | Path) -> Plan:
    """Read a saved plan.

    Parameters
    ----------
    path
        A file that `save` or `placewright plan -o` wrote.

    Raises
    ------
    InputError
        When the file is not a plan; the error names it.
    """
    from placewright.plans.file import read_plan

    return Plan.of(read_plan(path))


def save(plan: PlanRecord, path: str | Path) -> None:
    """Write a plan as Plan JSON; equal plans give equal bytes.

    Parameters
    ----------
    plan
        The plan to write.
    path
        The file, gzipped when its name ends in .gz.

    Raises
    ------
    InputError
        When the file cannot be written.
    """
    from placewright.plans.file import write_plan

    write_plan(plan, path)


def inspect(
    model: Model,
    devices: Machine | str | Path = "h100",
    *,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    training: bool = False,
    dims: Mapping[str, int] | None = None,
    measured: str | Path | None = None,
) -> Answer[Inspection]:
    """Describe what a graph holds, what it costs, and on which devices it fits.

    Parameters
    ----------
    model, args, kwargs, training, dims
        As `plan` takes them.
    devices
        The machine for which times and memory are computed.
    measured
        A CSV file of measured op times.

    Returns
    -------
    Answer
        `facts` are what `placewright inspect --json` prints.

    Raises
    ------
    InputError
        For bad input, and when an op has no time on the machine.
    """
    from placewright.analysis.inspection import inspect_graph
    from placewright.terminal.inspect_tables import inspect_tables

    graph = as_graph(model, args=args, kwargs=kwargs, training=training, dims=dims)
    times = None if measured is None else Path(measured)
    found = inspect_graph(with_workspaces(graph, times), as_machine(devices), measured=times)
    return answer(found, inspect_tables(found))


def as_graph(
    model: Model,
    *,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    training: bool = False,
    dims: Mapping[str, int] | None = None,
) -> Graph:
    """The graph for whatever `plan` accepts as a model."""
    if not isinstance(model, Graph | str | Path):
        return captured(model, args, kwargs, training=training)
    graph = model if isinstance(model, Graph) else load_graph(model, dims=dims or {}, training=training)
    if kwargs or not (isinstance(args, tuple | list) and not args):
        raise InputError(f"args and kwargs are for a module or function, and '{graph.name}' is a graph already")
    if training and graph.metadata.get("mode") != "training":
        raise InputError(
            f"'{graph.name}' is a graph already, and not of a training step; training is for modules and functions"
        )
    return graph
