"""Export of plans to the formats of other tools: Perfetto, spreadsheets, accelerate, PyTorch's memory viewer, ONNX."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from placewright.export import csv, device_map, memory_viz, offsets, onnx_model, perfetto, pipelining
from placewright.export.map_cost import judge_map, judgement_words, objections
from placewright.export.split_cost import judge_split, split_objections, split_words
from placewright.graph import Graph
from placewright.plans.offsets import DEFAULT_ALIGNMENT
from placewright.plans.provenance import find_graph, planned_graph, recorded_times
from placewright.plans.record import Plan
from placewright.support.errors import InputError
from placewright.support.files import write_atomically
from placewright.verification.order import require_order


@dataclass(frozen=True, kw_only=True)
class Target:
    """A format that plans are written in; each is a record in TARGETS.

    suffix: of the file that the command line writes next to a plan. summary: the format's description in --help.
    write: returns the content of the file; None where that needs the plan's graph. write_with_graph: returns the
    content, with the readers of each tensor, when the graph is given or needed. packs: compress the file if its name
    ends in .gz, for formats whose readers decompress it.
    arrange: for a target with an alignment, returns the content, from the plan, the path of the export and the
    alignment.
    rewrite: for a target that writes the plan into the plan's model file, returns the content, from the plan, that
    file and the path of the export.
    tell: for a target that other programs execute and that does not hold the whole plan, returns what that costs, and
    the objections to it, in sentences.
    """

    suffix: str
    summary: str
    write: Callable[[Plan], bytes] | None
    write_with_graph: Callable[[Plan, Graph], bytes] | None = None
    packs: bool = False
    tell: Callable[[Plan, Graph, Path | None], tuple[list[str], list[str]]] | None = None
    rewrite: Callable[[Plan, Path, Path], bytes] | None = None
    arrange: Callable[[Plan, Path, int], bytes] | None = None


def _tell_map(plan: Plan, graph: Graph, measured: Path | None) -> tuple[list[str], list[str]]:
    judged = judge_map(plan, graph, measured)
    return list(judgement_words(plan, judged)), list(objections(plan, judged))


def _tell_split(plan: Plan, graph: Graph, measured: Path | None) -> tuple[list[str], list[str]]:
    judged = judge_split(plan, graph, measured)
    return list(split_words(plan, judged)), list(split_objections(plan, graph, judged))


def _without_file(_: Plan) -> bytes:
    raise InputError("the target onnx writes the plan into its ONNX file, so name that: export PLAN FILE --to onnx")


TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "perfetto": Target(
            suffix=".perfetto.json.gz",
            summary="a trace for ui.perfetto.dev",
            write=perfetto.to_bytes,
            write_with_graph=perfetto.to_bytes,
            packs=True,
        ),
        "csv": Target(suffix=".csv", summary="a row per op and transfer", write=csv.to_bytes),
        "device-map": Target(
            suffix=".device-map.json",
            summary="whole modules to devices, for accelerate",
            write=None,
            write_with_graph=device_map.to_bytes,
            tell=_tell_map,
        ),
        "pipelining": Target(
            suffix=".pipelining.json",
            summary="split points for torch.distributed.pipelining",
            write=None,
            write_with_graph=pipelining.to_bytes,
            tell=_tell_split,
        ),
        "onnx": Target(
            suffix=".planned.onnx",
            summary="the model with nodes in plan order, each with its device",
            write=_without_file,
            rewrite=onnx_model.to_bytes,
        ),
        "memory-viz": Target(
            suffix=".memory-viz.pickle", summary="for pytorch.org/memory_viz", write=memory_viz.to_bytes
        ),
        "offsets": Target(
            suffix=".offsets.json",
            summary="where each buffer lies in one arena per device",
            write=None,
            arrange=offsets.to_bytes,
            packs=True,
        ),
    }
)
_LOGGER = logging.getLogger(__name__)


def export_plan(
    plan: Plan,
    target: str,
    path: str | Path,
    *,
    graph: Graph | str | Path | None = None,
    alignment: int | None = None,
) -> None:
    """Write a plan for another tool.

    Parameters
    ----------
    plan
        The plan to write.
    target
        The name of the format: "csv", "onnx" or another of those that docs/formats.md lists.
    path
        The file; a Perfetto trace and offsets are compressed when its name ends in .gz, and offsets are a table when it
        ends in .csv or .csv.gz.
    graph
        The plan's graph, or its file; by default the file that the plan was made from, unless that is Python code,
        which is run only if it is named here. "perfetto" shows the readers of each tensor if a graph is given,
        otherwise what each step waited for. "device-map" and "pipelining" need the graph, "onnx" its file. A device
        map and a split do not hold the whole plan: the graph is planned anew under them, and objections are logged as
        warnings.
    alignment
        For "offsets": all are multiples of this power of two, in bytes; by default 64.

    Raises
    ------
    InputError
        When the target is unknown or has no alignment, the plan lacks what it needs, the graph is another one, or the
        file cannot be written.
    """
    write_export(plan, target, path, graph=graph, alignment=alignment)
    for objection in told_of_export(plan, target, graph)[1]:
        _LOGGER.warning(objection)


def told_of_export(plan: Plan, target: str, graph: Graph | str | Path | None = None) -> tuple[list[str], list[str]]:
    """Return the cost of a plan as the target holds it, and the objections to it, in sentences.

    Parameters
    ----------
    plan
        The plan to export.
    target
        The name of the format; for formats that hold the whole plan both lists are empty.
    graph
        As `export_plan` takes it.

    Raises
    ------
    InputError
        When the graph cannot be found or read, or is another one.
    """
    tell = TARGETS[target].tell
    if tell is None:
        return [], []
    found = planned_graph(plan, find_graph(plan, graph, asked=_asked(target)))
    require_order(plan, found)
    return tell(plan, found, recorded_times(plan))


def write_export(
    plan: Plan,
    target: str,
    path: str | Path,
    *,
    graph: Graph | str | Path | None = None,
    alignment: int | None = None,
) -> None:
    """Write the export as `export_plan` does, without a judgement of the result."""
    if target not in TARGETS:
        raise InputError(f"cannot export to '{target}': it is one of {', '.join(TARGETS)}")
    found = TARGETS[target]
    require_alignment(target, alignment)
    file = graph if graph is not None else plan.configuration.get("model")
    if found.arrange is not None:
        data = found.arrange(plan, Path(path), DEFAULT_ALIGNMENT if alignment is None else alignment)
    elif found.rewrite is not None and isinstance(file, str | Path) and str(file).lower().endswith(".onnx"):
        data = found.rewrite(plan, Path(file), Path(path))
    else:
        data = _content(plan, found, graph, _asked(target))
    if found.packs and str(path).endswith(".gz"):
        data = gzip.compress(data, compresslevel=6, mtime=0)
    write_atomically(path, data)


def require_alignment(target: str, alignment: int | None) -> None:
    """Raise InputError when an alignment is given for a target that has none."""
    if alignment is not None and TARGETS[target].arrange is None:
        raise InputError(f"the target {target} has no alignment")


def _content(plan: Plan, target: Target, graph: Graph | str | Path | None, asked: str) -> bytes:
    if target.write is not None and (graph is None or target.write_with_graph is None):
        return target.write(plan)
    assert target.write_with_graph is not None
    found = planned_graph(plan, find_graph(plan, graph, asked=asked))
    require_order(plan, found)
    return target.write_with_graph(plan, found)


def _asked(target: str) -> str:
    """Explain how to name the plan's graph."""
    return f"export PLAN {{file}} --to {target}, in Python export_plan(plan, '{target}', path, graph={{graph}})"
