"""REGAL's figures 5 to 7, of the graphs that policies learn from and are measured on:

    python benchmarks/graph_figures.py OUT SET.graphs.gz [SET.graphs.gz ...]

Into OUT go, each as .svg and .png, graph-sizes (figure 5: how many ops and edges the graphs of each set have),
graph-diameters (figure 6) and synthetic-examples (figure 7: one synthetic graph of each random topology), and
graphs.csv with the medians of each set. An edge leads from an op to one that reads what it makes or waits for it. The
diameter is the longest of all shortest paths between two ops, in edges, whichever way they point. Without its source
and its sink, to which all ends are tied, a synthetic graph would have a greater one. Wants the extras bench and levels.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, shortest_path

from placewright.graph import Graph
from placewright.importers.graph_set import SUFFIX, read_graph_set
from placewright.lab.bench.figure_style import INK, LINE_COLOURS, QUIET, as_files, headline, style
from placewright.lab.datasets.random_topologies import TOPOLOGIES
from placewright.lab.datasets.synthetic import random_graph
from placewright.support.files import make_folder, write_atomically

#: Ops whose distances to all others are in memory at once.
AT_ONCE = 256
BINS = 24
#: Of the examples: few enough to be seen one by one.
EXAMPLE_OPS = range(60, 90)

Edges = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Of all graphs of a set, each a number per graph."""

    name: str
    ops: list[int]
    edges: list[int]
    diameters: list[int]


def edges_of(graph: Graph) -> Edges:
    """Pairs of ops, each once, [edges, 2]."""
    pairs = {
        (before, after)
        for after, op in enumerate(graph.ops)
        for before in (*(graph.producer_of[tensor] for tensor in op.inputs), *op.controls)
        if before >= 0
    }
    return np.array(sorted(pairs), np.int64).reshape(-1, 2)


def diameter(num_ops: int, edges: Edges) -> int:
    """Of the largest part that hangs together; by iFUB (Crescenzi et al. 2013), which looks from the rim inwards and
    stops when no two ops nearer to the middle can be further apart."""
    ones = np.ones(len(edges), np.int8)
    adjacent = coo_array((ones, (edges[:, 0], edges[:, 1])), shape=(num_ops, num_ops)).tocsr()
    _, part = connected_components(adjacent, directed=False)
    largest = np.flatnonzero(part == np.bincount(part).argmax())

    def distances(ops: Edges) -> Edges:
        """To all of the largest part, [ops, len(largest)]."""
        found = shortest_path(adjacent, directed=False, unweighted=True, indices=ops)
        return np.asarray(found[:, largest], np.int64)

    one = largest[distances(largest[:1])[0].argmax()]
    from_one = distances(np.array([one]))[0]
    other = largest[from_one.argmax()]
    furthest = int(from_one.max())
    between = (from_one + distances(np.array([other]))[0] == furthest) & (from_one == furthest // 2)
    from_middle = distances(largest[between][:1])[0]
    for rim in range(int(from_middle.max()), 0, -1):
        if furthest >= 2 * rim:
            break
        ops = largest[from_middle == rim]
        for begin in range(0, len(ops), AT_ONCE):
            furthest = max(furthest, int(distances(ops[begin : begin + AT_ONCE]).max()))
    return furthest


def sizes_of(path: Path) -> Sizes:
    graphs = read_graph_set(path)
    name = path.name.removesuffix(SUFFIX)
    name = f"{path.parent.name}-{name}" if name in ("train", "valid", "test") else name
    found = Sizes(name=name, ops=[], edges=[], diameters=[])
    for index in range(len(graphs)):
        graph = graphs[index]
        edges = edges_of(graph)
        found.ops.append(len(graph.ops))
        found.edges.append(len(edges))
        found.diameters.append(diameter(len(graph.ops), edges))
    return found


def histograms(sets: Sequence[Sizes], keys: Sequence[str], title: str) -> Any:
    """One panel for each key of `Sizes`, by that name."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(4.6 * len(keys) + 0.6, 4.2), layout="constrained")
    figure.get_layout_engine().set(rect=(0, 0, 0.985, 1 - 0.62 / 4.2))
    panels = figure.subplots(1, len(keys), sharey=True, squeeze=False)[0]
    for axes, key in zip(panels, keys, strict=True):
        values = [getattr(each, key) for each in sets]
        low, high = min(map(min, values)), max(map(max, values))
        bins = np.geomspace(max(1, low), high + 1, BINS)
        for number, (each, own) in enumerate(zip(sets, values, strict=True)):
            share = np.histogram(own, bins)[0] * 100 / len(own)
            axes.stairs(share, bins, color=LINE_COLOURS[number % len(LINE_COLOURS)], linewidth=1.6, label=each.name)
        axes.set_xscale("log")
        axes.set_xlabel({"ops": "ops", "edges": "edges", "diameters": "diameter in edges"}[key])
        axes.xaxis.set_major_formatter("{x:,.0f}")
    panels[0].set_ylabel("% of the graphs")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, labelcolor="linecolor")
    headline(figure, title, "share of each set's graphs by size (log scale)")
    return figure


def examples() -> Iterator[tuple[str, Graph]]:
    """The first candidate of each topology that is small enough to be drawn."""
    wanted = set(TOPOLOGIES)
    for index in count():
        graph = random_graph(0, index)
        topology = str(graph.metadata["topology"])
        if topology in wanted and len(graph.ops) in EXAMPLE_OPS:
            wanted.remove(topology)
            yield topology, graph
        if not wanted:
            return


def layered(num_ops: int, edges: Edges) -> NDArray[np.float64]:
    """Where ops are drawn, [ops, 2]: x is the length of the longest path to an op; y follows its neighbours before and
    after it in turn, so that few edges cross (Sugiyama et al. 1981)."""
    level, neighbours = np.zeros(num_ops, np.int64), [defaultdict[int, list[int]](list) for _ in range(2)]
    for before, after in edges.tolist():  # sorted, and ops are in topological order
        level[after] = max(level[after], level[before] + 1)
        neighbours[0][after].append(before)
        neighbours[1][before].append(after)
    layers = [np.flatnonzero(level == each) for each in range(level.max() + 1)]
    y = np.zeros(num_ops)
    for layer in layers:
        y[layer] = _spaced(len(layer))
    for sweep in range(8):
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            side = neighbours[sweep % 2]
            middle = [y[side[op]].mean() if side[op] else y[op] for op in layer.tolist()]
            y[layer[np.argsort(middle, kind="stable")]] = _spaced(len(layer))
    return np.column_stack([level, y])


def _spaced(number: int) -> NDArray[np.float64]:
    """Around 0, at distances of 1."""
    return np.arange(number, dtype=np.float64) - (number - 1) / 2


def drawn(graphs: Sequence[tuple[str, Graph]]) -> Any:
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(9.8, 6.4), layout="constrained")
    figure.get_layout_engine().set(rect=(0, 0, 0.985, 1 - 0.62 / 6.4))
    for axes, (topology, graph) in zip(figure.subplots(2, 2).flat, graphs, strict=True):
        edges = edges_of(graph)
        place = layered(len(graph.ops), edges)
        axes.add_collection(LineCollection(list(place[edges]), colors=QUIET, linewidths=0.4, alpha=0.5, zorder=1))
        axes.scatter(*place.T, s=10, color=LINE_COLOURS[0], edgecolor=INK, linewidth=0.3, zorder=2)
        axes.set_title(f"{topology}: {len(graph.ops)} ops, {len(edges)} edges")
        axes.set_axis_off()
    headline(figure, "Synthetic graphs", "one of each random topology, from source to sink; ops by their depth")
    return figure


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("sets", type=Path, nargs="+", metavar="SET")
    return options


def main() -> None:
    arguments = parser().parse_args()
    make_folder(arguments.out)
    sets = [sizes_of(path) for path in arguments.sets]
    lines = ["set,graphs,median ops,median edges,median diameter,greatest diameter"]
    for each in sets:
        medians = (f"{np.median(values):g}" for values in (each.ops, each.edges, each.diameters))
        lines.append(",".join([each.name, str(len(each.ops)), *medians, str(max(each.diameters))]))
    print("\n".join(lines))
    write_atomically(arguments.out / "graphs.csv", "".join(f"{line}\n" for line in lines).encode())
    with style():
        figures = {
            "graph-sizes": histograms(sets, ("ops", "edges"), "Ops and edges of the graphs"),
            "graph-diameters": histograms(sets, ("diameters",), "Diameters of the graphs"),
            "synthetic-examples": drawn(list(examples())),
        }
        for name, figure in figures.items():
            for suffix, content in as_files(figure).items():
                write_atomically(arguments.out / f"{name}.{suffix}", content)


if __name__ == "__main__":
    main()
