"""What a plan was made from, found again: its graph, and the file of measured times."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from placewright.costs.measured import with_workspaces
from placewright.graph import Graph
from placewright.importers import load_graph
from placewright.plans.graph_match import require_match
from placewright.plans.record import Plan
from placewright.support.errors import InputError


def find_graph(
    plan: Plan,
    model: Graph | str | Path | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    measured: Path | None = None,
    name: str = "the plan",
) -> Graph:
    """The graph a plan is for. model: that graph, or the file of it; None for what the plan was made from. dims: of the
    file; measured: the file of measured workspaces; what the plan was made with where they are not given. name: what
    errors call the plan.

    Raises InputError where the plan is for another graph, says no file, or the file cannot be read.
    """
    graph = recorded_graph(plan.configuration, model, dims, name=name)
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
) -> Graph:
    """The graph of a plan's or a map's configuration, or the one that is given in its place; not yet compared with
    what was planned. Raises InputError where neither says a file."""
    source = model if model is not None else configuration.get("model")
    if not isinstance(source, Graph | str | Path):
        raise InputError(
            f"{name} was made in Python, not from a file, so say which graph it is for: "
            "explain --op NAME --model FILE, export PLAN FILE, or in Python its check(graph); "
            "placewright.save_graph writes such a file"
        )
    return source if isinstance(source, Graph) else load_graph(source, dims=dims or _recorded_dims(configuration))


def recorded_times(plan: Plan) -> Path | None:
    """The file of measured times that the plan was made with."""
    measured = plan.configuration.get("measured")
    return Path(measured) if isinstance(measured, str) else None


def _recorded_dims(configuration: Mapping[str, Any]) -> dict[str, int]:
    dims = configuration.get("dims")
    return dims if isinstance(dims, dict) and all(type(size) is int for size in dims.values()) else {}
