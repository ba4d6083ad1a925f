"""The origin of a plan: its graph, found and compared again, and the file of measured times."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from placewright.costs.measured import with_workspaces
from placewright.graph import Graph, Op
from placewright.importers.sources import load_graph, names_code, read_graph
from placewright.plans.record import Plan, ScheduledOp
from placewright.rematerialization.reruns import rewritten
from placewright.support.errors import InputError, shown


def find_graph(
    plan: Plan,
    model: Graph | str | Path | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    measured: Path | None = None,
    name: str = "the plan",
    asked: str,
) -> Graph:
    """Find the graph of a plan, without its reruns.

    model: that graph, or its file; None for the one that the plan was made from. dims: of the file. measured: the file
    of measured workspaces. Both default to those that the plan was made with. name: how errors call the plan. asked:
    how to name the model, as `recorded_graph` takes it.

    Raises InputError where the plan is for another graph or names no file, or the file cannot be read.
    """
    graph = recorded_graph(plan.configuration, model, dims, name=name, asked=asked)
    if graph.fingerprint != plan.graph_fingerprint:
        graph = with_workspaces(graph, measured or recorded_times(plan))
    source = model if model is not None else plan.configuration.get("model")
    require_match(plan, graph, source=graph.name if isinstance(source, Graph) else str(source), name=name)
    return graph


def recorded_graph(
    configuration: Mapping[str, Any],
    model: Graph | str | Path | None,
    dims: Mapping[str, int] | None,
    *,
    name: str,
    asked: str,
) -> Graph:
    """Return the graph that is given, or else the one that the configuration of a plan or a map records; it is not yet
    compared with the plan. asked: how to give it, with {file} and {graph} where a command and Python name it.

    The configuration is data from any author: code that it names is not run. Raises InputError for such code, and if
    neither names a file.
    """
    given = dims or recorded_dims(configuration)
    if model is not None:
        training = configuration.get("training") is True
        return model if isinstance(model, Graph) else load_graph(model, dims=given, training=training)
    source = configuration.get("model")
    if not isinstance(source, str):
        raise InputError(
            f"{name} was made in Python, not from a file, so say which graph it is for: "
            f"{asked.format(file='FILE', graph='graph')}; placewright.save_graph writes such a file"
        )
    if names_code(source):
        again = asked.format(file=shlex.quote(source), graph=repr(source))
        raise InputError(
            f"{name} was made from '{shown(source)}', and code that a file records is never run; name it to have it "
            f"run: {again}"
        )
    return read_graph(source, dims=given)


def recorded_times(plan: Plan) -> Path | None:
    """Return the file of measured times that the plan was made with."""
    measured = plan.configuration.get("measured")
    return Path(measured) if isinstance(measured, str) else None


def recorded_dims(configuration: Mapping[str, Any]) -> dict[str, int]:
    """Return the sizes of open dimensions that the graph was read with."""
    dims = configuration.get("dims")
    return dims if isinstance(dims, dict) and all(type(size) is int for size in dims.values()) else {}


#: The number of differences of one sort that are named; more are only counted.
_NUM_NAMED = 3


def match_graph(plan: Plan, graph: Graph) -> list[str]:
    """List the differences between a plan's graph and `graph`, one sentence each; empty when the fingerprints agree."""
    try:
        graph = planned_graph(plan, graph)
    except InputError as error:
        return [str(error)]
    if plan.graph_fingerprint == graph.fingerprint:
        return []
    planned = {op.name: op for op in plan.ops}
    present = {op.name: op for op in graph.ops if op.kind != "view"}
    changes = [f"{name} ({what})" for name, op in planned.items() if (what := _change(op, present.get(name), graph))]
    problems = [
        *_listed(
            "of the plan is not in the graph", "of the plan are not in the graph", planned.keys() - present.keys()
        ),
        *_listed(
            "of the graph is not in the plan", "of the graph are not in the plan", present.keys() - planned.keys()
        ),
        *_listed("differs", "differ", changes),
    ]
    return problems or ["the ops agree, but some of their inputs, sizes, attributes or stated times differ"]


def planned_graph(plan: Plan, graph: Graph) -> Graph:
    """Return the graph as it is planned: with the plan's reruns and moves as ops. Raises InputError as `rewritten`
    does."""
    return rewritten(graph, plan.reruns, plan.moves, plan.device_of).graph


def require_match(plan: Plan, graph: Graph, *, source: str, name: str = "the plan") -> None:
    """Raise InputError unless a plan is one for a graph. source, name: how the error calls the graph and the plan."""
    if differences := match_graph(plan, graph):
        raise InputError(f"{name} is not a plan for '{source}': {'; '.join(differences)}")


def with_planned_workspaces(graph: Graph, plan: Plan) -> Graph:
    """Return the graph with the workspaces of a plan, which were measured on the plan's host. Another host may measure
    other workspaces and can still run the plan."""
    planned = {buffer.name: buffer.size_bytes for buffer in plan.buffers if buffer.kind == "workspace"}
    ops = tuple(replace(op, workspace_bytes=planned.get(op.name, 0)) for op in graph.ops)
    return replace(graph, ops=ops)


def _change(planned: ScheduledOp, op: Op | None, graph: Graph) -> str:
    if op is None:
        return ""
    own_bytes = sum(graph.tensors[t].held_bytes for t in op.outputs if graph.tensors[t].alias_of is None)
    pairs = {"kind": (planned.kind, op.kind), "module": (planned.module, op.module)}
    pairs |= {"output bytes": (f"{planned.output_bytes:,}", f"{own_bytes:,}")}
    return ", ".join(f"{what} {then}, now {now}" for what, (then, now) in pairs.items() if then != now)


def _listed(singular: str, plural: str, names: Iterable[str]) -> list[str]:
    ordered = sorted(names)
    if not ordered:
        return []
    more = f" and {len(ordered) - _NUM_NAMED:,} more" if len(ordered) > _NUM_NAMED else ""
    subject, verb = ("1 op", singular) if len(ordered) == 1 else (f"{len(ordered):,} ops", plural)
    return [f"{subject} {verb}: {', '.join(map(shown, ordered[:_NUM_NAMED]))}{more}"]
