"""A user's own graphs as a set: collected, costed, split into train, valid and test, written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from placewright.costs import estimate_costs
from placewright.graph import Graph
from placewright.importers.graph_set import SUFFIX, write_graph_set
from placewright.importers.sources import load_graphs
from placewright.lab.datasets.split import split_by_size
from placewright.machine import Machine
from placewright.machines import load_machine
from placewright.support.errors import InputError, shown
from placewright.support.files import locked_folder

#: With fewer graphs, a part would be empty.
_LEAST_TO_SPLIT = 4


def pack(
    sources: Sequence[str | Path], out: Path, device: str, dims: Mapping[str, int] | None = None
) -> dict[Path, int]:
    """Write the graphs of all sources, each as `load_graphs` takes it; return the number of graphs in each file.

    out: a file NAME.graphs.gz for one set of all; otherwise a folder, created if missing, for train, valid and test.
    device: its roofline and launch give a time to every op that states none, so that the set needs no particular
        machine.
    dims: sizes of open dimensions, as `load_graphs` takes them.

    Raises InputError when a source cannot be read or no file written, and for too few graphs to split.
    """
    machine = with_launches(load_machine(device))
    read = [load_graphs(source, dims=dims) for source in sources]
    named = [(label, timed(graphs[i], machine)) for graphs in read for i, label in enumerate(graphs.labels)]
    graphs = _named_apart(named)
    metadata = {"device": device}
    if out.name.endswith(SUFFIX):
        write_graph_set(out, graphs, metadata)
        return {out: len(graphs)}
    if len(graphs) < _LEAST_TO_SPLIT:
        few = f"{len(graphs)} graphs are too few to split into train, valid and test"
        raise InputError(f"{few}; --out NAME{SUFFIX} keeps them together")
    split = split_by_size(graphs)
    parts = {"train": split.train, "valid": split.valid, "test": split.test}
    with locked_folder(out, "another process makes graphs for"):
        for name, part in parts.items():
            write_graph_set(out / f"{name}{SUFFIX}", part, {**metadata, "part": name})
    return {out / f"{name}{SUFFIX}": len(part) for name, part in parts.items()}


def with_launches(machine: Machine) -> Machine:
    """Return the machine whose op times include the launch, as the papers' machine, which has no launches, needs it."""
    devices = tuple(replace(device, launches_itself=True, kernel_gap_ns=0) for device in machine.devices)
    return replace(machine, devices=devices)


def timed(graph: Graph, machine: Machine) -> Graph:
    """Return the graph with every op stating its time on the machine's first device."""
    time_ns = estimate_costs(graph, machine).time_ns[:, 0].tolist()
    ops = tuple(replace(op, time_ns=time) for op, time in zip(graph.ops, time_ns, strict=True))
    return replace(graph, ops=ops)


def _named_apart(graphs: Sequence[tuple[str, Graph]]) -> list[Graph]:
    """Rename graphs that share their name to that of their file: exporters give many the same name."""
    count = Counter(graph.name for _, graph in graphs)
    named = [graph if count[graph.name] == 1 else replace(graph, name=label) for label, graph in graphs]
    count = Counter(graph.name for graph in named)
    if repeated := [name for name, number in count.items() if number > 1]:
        raise InputError(f"two graphs are named '{shown(repeated[0])}', and so are their files; rename one")
    return named
