"""What a plan was made from, found again: its graph, and the file of measured times."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from placewright.costs.measured import with_workspaces
from placewright.graph import Graph
from placewright.importers.sources import load_graph, names_code, read_graph
from placewright.plans.graph_match import require_match
from placewright.plans.record import Plan
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
    """The graph a plan is for, without its reruns. model: that graph, or the file of it; None for what the plan was
    made from. dims: of the file; measured: the file of measured workspaces; what the plan was made with where they are
    not given. name: what errors call the plan. asked: how one names the model, as `recorded_graph` takes it.

    Raises InputError where the plan is for another graph, says no file, or the file cannot be read.
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
    """The graph of a plan's or a map's configuration, or the one that is given in its place; not yet compared with
    what was planned. asked: how one gives it, with {file} and {graph} where a command and Python name it.

    What the configuration records is data, whoever wrote it: code that it names is not run. Raises InputError for such
    code, and where neither says a file.
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
    """The file of measured times that the plan was made with."""
    measured = plan.configuration.get("measured")
    return Path(measured) if isinstance(measured, str) else None


def recorded_dims(configuration: Mapping[str, Any]) -> dict[str, int]:
    """The sizes of open dimensions that the graph was read with."""
    dims = configuration.get("dims")
    return dims if isinstance(dims, dict) and all(type(size) is int for size in dims.values()) else {}
