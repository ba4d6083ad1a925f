"""A plan in the formats of other tools: Perfetto, spreadsheets, Graphviz, accelerate, PyTorch's memory viewer."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from placewright.export import csv, device_map, dot, dot_flow, memory_viz, perfetto
from placewright.export.map_cost import judge_map, judgement_words, objections
from placewright.graph import Graph
from placewright.plans.provenance import find_graph, recorded_times
from placewright.plans.record import Plan
from placewright.support.errors import InputError
from placewright.support.files import write_atomically

#: What `export_plan` can write: each function returns the content of the file.
TARGETS: Mapping[str, Callable[[Plan], bytes]] = MappingProxyType(
    {
        "perfetto": perfetto.to_bytes,
        "csv": csv.to_bytes,
        "dot": dot.to_bytes,
        "device-map": device_map.to_bytes,
        "memory-viz": memory_viz.to_bytes,
    }
)

#: What shows who reads what, when the plan's graph is given.
_WITH_GRAPH: Mapping[str, Callable[[Plan, Graph], bytes]] = MappingProxyType(
    {"dot": dot_flow.to_bytes, "perfetto": perfetto.to_bytes}
)

#: Readers of the other targets do not unpack.
_COMPRESSIBLE = "perfetto"


#: A target that is executed and does not hold the whole plan: it is judged by planning anew.
_LOSSY = "device-map"
_LOGGER = logging.getLogger(__name__)


def export_plan(plan: Plan, target: str, path: str | Path, *, graph: Graph | str | Path | None = None) -> None:
    """Write a plan for another tool.

    Parameters
    ----------
    plan
        What is written.
    target
        "perfetto", "csv", "dot", "device-map" or "memory-viz".
    path
        The file; a Perfetto trace is compressed when its name ends in .gz.
    graph
        What the plan is for, or its file; by default the file that it was made from. "dot" and "perfetto" show who
        reads what in a graph that is given, otherwise what each step waited for. A device map does not hold the whole
        plan: with the graph it is planned anew, and what speaks against the map is logged as warnings.

    Raises
    ------
    InputError
        When the target is unknown, the plan lacks what it needs, the graph is another one, or the file cannot be
        written.
    """
    write_export(plan, target, path, graph=graph)
    if target == _LOSSY:
        for objection in told_of_map(plan, graph)[1]:
            _LOGGER.warning(objection)


def told_of_map(plan: Plan, graph: Graph | str | Path | None = None) -> tuple[list[str], list[str]]:
    """Tell what a plan's device map costs, and what speaks against it, in sentences.

    Parameters
    ----------
    plan
        What the map is made of.
    graph
        As `export_plan` takes it. Where none is given and none found, all that is told is that the cost is not known.

    Raises
    ------
    InputError
        When the graph given cannot be read or is another one.
    """
    try:
        found = find_graph(plan, graph)
    except InputError as error:
        if graph is not None:
            raise
        return [], [f"what this device map costs is not known without the plan's graph, so name it ({error})"]
    judged = judge_map(plan, found, recorded_times(plan))
    return list(judgement_words(plan, judged)), list(objections(plan, judged))


def write_export(plan: Plan, target: str, path: str | Path, *, graph: Graph | str | Path | None = None) -> None:
    """As `export_plan`, without a judgement of what is written."""
    if target not in TARGETS:
        raise InputError(f"cannot export to '{target}': it is one of {', '.join(TARGETS)}")
    if graph is not None and target in _WITH_GRAPH:
        data = _WITH_GRAPH[target](plan, find_graph(plan, graph))
    else:
        data = TARGETS[target](plan)
    if target == _COMPRESSIBLE and str(path).endswith(".gz"):
        data = gzip.compress(data, compresslevel=6, mtime=0)
    write_atomically(path, data)
