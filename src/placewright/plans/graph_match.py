"""Whether a plan is one for a graph, and if not, what differs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from placewright.graph import Graph, Op
from placewright.plans.record import Plan, ScheduledOp
from placewright.rematerialization.reruns import rewritten
from placewright.support.errors import InputError, shown

#: How many differences of one sort are named before they are only counted.
_NUM_NAMED = 3


def match_graph(plan: Plan, graph: Graph) -> list[str]:
    """What keeps a plan from being one for `graph`, one sentence each; empty when the fingerprints agree."""
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
    """The graph as it is planned: with the plan's reruns and moves as ops. Raises InputError as `rewritten` does."""
    return rewritten(graph, plan.reruns, plan.moves, plan.device_of).graph


def require_match(plan: Plan, graph: Graph, *, source: str, name: str = "the plan") -> None:
    """Raises InputError unless a plan is one for a graph. source, name: what the error calls the graph and the plan."""
    if differences := match_graph(plan, graph):
        raise InputError(f"{name} is not a plan for '{source}': {'; '.join(differences)}")


def with_planned_workspaces(graph: Graph, plan: Plan) -> Graph:
    """The graph with the workspaces that a plan has. They were measured where it was made; another host may measure
    others, and can run it all the same."""
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
