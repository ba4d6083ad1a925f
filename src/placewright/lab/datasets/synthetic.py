"""REGAL's synthetic graphs (Paliwal et al. 2020, appendix A.1.4): random topologies with Gaussian costs, kept where a
longer search pays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count, islice
from pathlib import Path
from random import Random

import numpy as np

from placewright.graph import Graph, Op, Tensor
from placewright.importers.graph_set import SUFFIX, write_graph_set
from placewright.lab.datasets.problem_set import DEFAULT_CONTROL, PAPER_MACHINE
from placewright.lab.datasets.random_topologies import TOPOLOGIES, Edge
from placewright.lab.datasets.split import in_degrees
from placewright.lab.peers.brkga import Brkga
from placewright.machines import load_machine
from placewright.problem import Problem
from placewright.problem.objective import ControlMode
from placewright.support.errors import InputError
from placewright.support.files import locked_folder

MIN_NODES, MAX_NODES = 50, 200
#: Probabilities of 0, 1 and 2 outputs; and of a dependency without a tensor where one could be passed.
NUM_OUTPUTS_WEIGHTS = (0.1, 0.8, 0.1)
CONTROL_PROBABILITY = 0.2
SIZE_MEAN, SIZE_DEVIATION, TIME_NOISE = 50, 10, 0.1

#: A graph is kept when MANY_EVALUATIONS reduce the step time that FEW_EVALUATIONS reach by this share.
FEW_EVALUATIONS, MANY_EVALUATIONS, LEAST_GAIN = 1_000, 10_000, 0.18
#: Parts of 12 in the paper's split: 10,000 / 1,000 / 1,000.
_PARTS = {"train": 10, "valid": 1, "test": 1}

#: Ten times the paper's count; more would take days to find, and all are held in memory until the end.
MAX_COUNT = 120_000

#: Candidates that are judged together; a few more than requested may be judged.
_AT_ONCE = 16

OnKept = Callable[[int, int], None]


def write_synthetic(
    out: Path, count: int, seed: int, on_kept: OnKept | None = None, control: ControlMode = DEFAULT_CONTROL
) -> dict[str, Path]:
    """Write train, valid and test sets with `count` graphs in all, split 10 : 1 : 1, to a folder that is created if
    needed; return the files by split.

    on_kept: called with the number of graphs kept and of candidates seen so far. control: the treatment of control
    dependencies by the search that filters the graphs.

    Raises InputError when there are fewer than 12 graphs to split, or too many, or a file cannot be written.
    """
    if count > MAX_COUNT:
        raise InputError(f"{count:,} graphs are too many: at most {MAX_COUNT:,} can be made")
    if count < sum(_PARTS.values()):
        raise InputError(f"{count} graphs cannot be split 10 : 1 : 1; at least {sum(_PARTS.values())} can")
    with locked_folder(out, "another process makes graphs for"):
        return _write_parts(out, count, seed, control, list(islice(interesting_graphs(seed, on_kept, control), count)))


def _write_parts(out: Path, count: int, seed: int, control: ControlMode, graphs: Sequence[Graph]) -> dict[str, Path]:
    sizes = {split: count * parts // sum(_PARTS.values()) for split, parts in _PARTS.items()}
    sizes["train"] = count - sizes["valid"] - sizes["test"]
    files, begin = {}, 0
    for split, size in sizes.items():
        files[split] = out / f"{split}{SUFFIX}"
        metadata = {"source": "REGAL appendix A.1.4", "seed": seed, "count": count, "split": split, "control": control}
        write_graph_set(files[split], graphs[begin : begin + size], metadata)
        begin += size
    return files


def interesting_graphs(
    seed: int, on_kept: OnKept | None = None, control: ControlMode = DEFAULT_CONTROL
) -> Iterator[Graph]:
    """Yield random graphs without end: only those on which a longer search gains, and no two with the same topology.

    Topologies are compared by their sorted in-degrees, as the paper does for its TensorFlow graphs: two graphs that
    differ only in the order of their nodes count as one.
    """
    seen: set[tuple[int, ...]] = set()
    kept = 0
    for candidates, (graph, is_interesting) in enumerate(_judged(seed, control), start=1):
        topology = in_degrees(graph)
        if is_interesting and topology not in seen:
            seen.add(topology)
            kept += 1
            yield graph
        if on_kept is not None:
            on_kept(kept, candidates)


def _judged(seed: int, control: ControlMode) -> Iterator[tuple[Graph, bool]]:
    """Yield every candidate in order with the filter's verdict; searches run on all cores, a few candidates ahead."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for first in count(step=_AT_ONCE):
            graphs = [random_graph(seed, index) for index in range(first, first + _AT_ONCE)]
            yield from zip(graphs, pool.map(partial(is_interesting, control=control), graphs), strict=True)


def is_interesting(graph: Graph, control: ControlMode = DEFAULT_CONTROL) -> bool:
    """True if BRKGA gains at least 18% between 1,000 and 10,000 evaluations on the paper's machine.

    The search is REGAL's baseline: with other populations the filter would keep next to nothing or everything.
    """
    machine = load_machine(PAPER_MACHINE)
    times = np.array([[op.time_ns] * machine.num_devices for op in graph.ops], np.int64)
    problem = Problem(graph=graph, machine=machine, time_ns=times, control=control)
    search = Brkga().start(problem, seed=0)
    search.advance(FEW_EVALUATIONS)
    after_few = search.best_objective
    search.advance(MANY_EVALUATIONS)
    return search.best_objective <= (1 - LEAST_GAIN) * after_few


def random_graph(seed: int, index: int, scale: int = 1) -> Graph:
    """Return candidate number `index` of a seed, before any filter; its unitless costs are read as bytes and ns. scale:
    number of nodes relative to the paper's graphs."""
    random = Random(f"{seed}/{index}")
    topology = random.choice(list(TOPOLOGIES))
    num_nodes = scale * random.randint(MIN_NODES, MAX_NODES)
    # Numbering the nodes by a random order directs every edge from the smaller number to the larger.
    number_of = random.sample(range(num_nodes), num_nodes)
    pairs = ((number_of[one], number_of[other]) for one, other in TOPOLOGIES[topology](num_nodes, random))
    edges = sorted((min(pair), max(pair)) for pair in pairs)
    outputs = [random.choices((0, 1, 2), NUM_OUTPUTS_WEIGHTS)[0] for _ in range(num_nodes)]
    return _with_costs(f"synthetic-{seed}-{index}", topology, edges, outputs, random)


def _with_costs(name: str, topology: str, edges: list[Edge], num_outputs: list[int], random: Random) -> Graph:
    tensors = [
        Tensor(name=f"{node}:{port}", size_bytes=max(1, round(random.gauss(SIZE_MEAN, SIZE_DEVIATION))))
        for node, ports in enumerate(num_outputs)
        for port in range(ports)
    ]
    first_output = [sum(num_outputs[:node]) for node in range(len(num_outputs))]
    inputs: list[list[int]] = [[] for _ in num_outputs]
    controls: list[list[int]] = [[] for _ in num_outputs]
    for before, after in edges:
        if num_outputs[before] == 0 or random.random() < CONTROL_PROBABILITY:
            controls[after].append(before + 1)
        else:
            inputs[after].append(first_output[before] + random.randrange(num_outputs[before]))
    ops = [Op(name="source", kind="other", time_ns=0)]
    for node, ports in enumerate(num_outputs):
        outputs = range(first_output[node], first_output[node] + ports)
        total = sum(tensors[tensor].size_bytes for tensor in (*inputs[node], *outputs))
        ops.append(
            Op(
                name=str(node),
                kind="other",
                inputs=tuple(inputs[node]),
                outputs=tuple(outputs),
                controls=tuple(controls[node]) if inputs[node] or controls[node] else (0,),
                time_ns=max(0, round(total * (1 + random.gauss(0, TIME_NOISE)))),
            )
        )
    followed = {before for before, _ in edges}
    tails = tuple(node + 1 for node in range(len(num_outputs)) if node not in followed)
    ops.append(Op(name="sink", kind="other", controls=tails, time_ns=0))
    return Graph(name=name, ops=tuple(ops), tensors=tuple(tensors), metadata={"topology": topology})
