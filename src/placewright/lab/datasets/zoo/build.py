"""The zoo as a set of graphs: every network captured, told apart by topology, split and written (paper, A.1.2)."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from placewright.graph import Graph
from placewright.importers.graph_set import SUFFIX, write_graph_set
from placewright.lab.datasets.headroom import has_room
from placewright.lab.datasets.split import one_per_topology, split_by_size
from placewright.lab.datasets.zoo.capture import DEVICE, OPTIMIZER
from placewright.lab.datasets.zoo.catalogue import all_networks
from placewright.lab.datasets.zoo.libraries import LIBRARIES, check_library
from placewright.lab.datasets.zoo.pool import Captured, Networks, Task, capture_all, tasks_of
from placewright.support.errors import InputError
from placewright.support.files import locked_folder


@dataclass(frozen=True, kw_only=True)
class ZooProgress:
    """The latest capture, in the order of the catalogue; `done` of `total` are over."""

    done: int
    total: int
    latest: Captured


@dataclass(frozen=True, kw_only=True)
class ZooSummary:
    """What `build_zoo` made.

    failures: one sentence for each network and mode without a graph. without_room, repeated: names of graphs left out
    because one device does as well, or because an earlier graph has their topology. num_ops: of each graph, ascending,
    by part. size_bytes: by file name.
    """

    failures: tuple[str, ...]
    without_room: tuple[str, ...]
    repeated: tuple[str, ...]
    num_ops: Mapping[str, tuple[int, ...]]
    size_bytes: Mapping[str, int]
    seconds: float

    @property
    def num_graphs(self) -> int:
        """In all parts together."""
        return sum(len(part) for part in self.num_ops.values())


def build_zoo(
    out: Path,
    *,
    on_progress: Callable[[ZooProgress], None] | None = None,
    networks: Networks = all_networks,
    processes: int = 2,
) -> ZooSummary:
    """Captures every network in every mode and writes train, valid and test; equal runs write equal bytes.

    A graph stays when both objectives leave room for improvement, so the parts serve both. A network that cannot be
    captured is named in the summary, and the others go on.

    out: a folder, made when missing. networks: a function at the top of a module. processes: captures at once; 1 stays
    in this process.

    Raises MissingExtraError without one of the libraries, InputError when no graph remains or a file cannot be
    written.
    """
    for library in LIBRARIES:
        check_library(library)
    with locked_folder(out, "another process makes graphs for"):
        return _built(out, on_progress, networks, processes)


def _built(
    out: Path, on_progress: Callable[[ZooProgress], None] | None, networks: Networks, processes: int
) -> ZooSummary:
    """What `build_zoo` makes, in a folder that is there."""
    began = time.perf_counter()
    captured = list(_reported(tasks_of(networks), processes, on_progress))
    graphs = [each.graph for each in captured if each.graph is not None]
    with_room = [graph for graph in graphs if has_room(graph, "step-time") and has_room(graph, "peak-memory")]
    distinct = one_per_topology(with_room)
    if not distinct:
        raise InputError(f"none of the {len(captured)} graphs of the zoo can be used, so nothing was written")
    split = split_by_size(distinct)
    parts = {"train": split.train, "valid": split.valid, "test": split.test}
    return ZooSummary(
        failures=tuple(each.failure for each in captured if each.failure),
        without_room=_names_missing(with_room, graphs),
        repeated=_names_missing(distinct, with_room),
        num_ops={name: tuple(len(graph.ops) for graph in part) for name, part in parts.items()},
        size_bytes=dict(_written(out, parts)),
        seconds=time.perf_counter() - began,
    )


def _reported(
    tasks: Sequence[Task], processes: int, on_progress: Callable[[ZooProgress], None] | None
) -> Iterator[Captured]:
    for done, latest in enumerate(capture_all(tasks, processes), start=1):
        if on_progress is not None:
            on_progress(ZooProgress(done=done, total=len(tasks), latest=latest))
        yield latest


def _names_missing(kept: Sequence[Graph], of: Sequence[Graph]) -> tuple[str, ...]:
    names = {graph.name for graph in kept}
    return tuple(graph.name for graph in of if graph.name not in names)


def _written(out: Path, parts: Mapping[str, Sequence[Graph]]) -> Iterator[tuple[str, int]]:
    """Name and bytes of each file; a part without graphs has none."""
    # "2.13.0+cpu" traces as "2.13.0" does, so both write the same file.
    made_with = {name: importlib.metadata.version(name).partition("+")[0] for name in LIBRARIES}
    for part, graphs in parts.items():
        if graphs:
            metadata = {"set": "zoo", "part": part, "device": DEVICE, "optimizer": OPTIMIZER, **made_with}
            name = f"{part}{SUFFIX}"
            yield name, write_graph_set(out / name, graphs, metadata)
