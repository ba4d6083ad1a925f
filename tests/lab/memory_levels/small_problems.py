"""Small memory problems: some made by hand, some at random."""

from __future__ import annotations

import numpy as np
from instances import sketch

from placewright.graph import Graph
from placewright.importers.builder import GraphBuilder
from placewright.lab.memory_levels.chip import Chip, MemoryLevel


def chip_of(*levels: tuple[str, int, float], overhead_ns: int = 0, prefetched: bool = False) -> Chip:
    """Levels as (name, bytes, bytes per second); computing is as good as free. prefetched: of all but the fastest."""
    return Chip(
        name="small",
        levels=tuple(
            MemoryLevel(name=name, capacity_bytes=size, bandwidth_bytes_per_s=rate, is_prefetched=prefetched and i > 0)
            for i, (name, size, rate) in enumerate(levels)
        ),
        mac_rate=1e15,
        vector_rate=1e15,
        op_overhead_ns=overhead_ns,
    )


def two_ops() -> Graph:
    """a: weight of 60 B, makes 40 B. b: reads them and a weight of 50 B, makes 20 B. The example of the documents."""
    return sketch(
        *("x -> x=0 | kind=input", "a.weight=60", "a x a.weight -> a=40", "b.weight=50", "b a b.weight -> b=20"),
        kind="matmul",
        name="two-ops",
    )


def random_graph(seed: int, num_ops: int = 12) -> Graph:
    """Ops that read up to three earlier results, views and parameters; some share a parameter or overwrite in place."""
    random = np.random.default_rng(seed)
    graph = GraphBuilder(f"random-{seed}")
    results = [graph.add_tensor("x", size_bytes=int(random.integers(1, 100)))]
    graph.add_op("x", "input", outputs=results[:1])
    weights = [
        graph.add_tensor(f"w{i}", size_bytes=int(random.integers(0, 200)), role="parameter")
        for i in range(num_ops // 2 + 1)
    ]
    for number in range(num_ops):
        kind = str(random.choice(["matmul", "elementwise", "copy", "gather", "embedding", "view", "in-place"]))
        if kind in ("view", "in-place"):
            base = int(random.choice(results))
            size = graph.tensors[base].size_bytes
            size = int(random.integers(0, size + 1)) if kind == "view" else size
            made = graph.add_tensor(f"t{number}", size_bytes=size, alias_of=base)
            graph.add_op(
                f"op{number}", "view" if kind == "view" else "elementwise", inputs=[base], outputs=[made], time_ns=None
            )
        else:
            read = random.choice(results, min(len(results), int(random.integers(1, 4))), replace=False).tolist()
            read += random.choice(weights, int(random.integers(0, 3)), replace=False).tolist()
            made = graph.add_tensor(
                f"t{number}", size_bytes=int(random.integers(0, 150)), is_output=bool(random.random() < 0.1)
            )
            graph.add_op(
                f"op{number}",
                kind,
                inputs=read,
                outputs=[made],
                time_ns=int(random.integers(0, 300)) if random.random() < 0.5 else None,
            )
        results.append(made)
    return graph.build()


def random_chip(seed: int) -> Chip:
    """Two to four levels, some too small for anything, some that prefetch or take their time."""
    random = np.random.default_rng(seed)
    count = int(random.integers(2, 5))
    rates = sorted((float(10 ** random.uniform(8, 11)) for _ in range(count)), reverse=True)
    levels = tuple(
        MemoryLevel(
            name=f"L{index}",
            capacity_bytes=int(random.integers(0, 600)) if index < count - 1 else 10**6,
            bandwidth_bytes_per_s=rate,
            latency_ns=int(random.integers(0, 3)) * 50,
            is_prefetched=bool(index > 0 and random.random() < 0.4),
        )
        for index, rate in enumerate(rates)
    )
    return Chip(name=f"random-{seed}", levels=levels, mac_rate=1e9, vector_rate=1e9, op_overhead_ns=100)


def overwriting_graph(seed: int, num_ops: int = 14) -> Graph:
    """Parameters, results and the input, each overwritten in place again and again, whole or through views; what is
    read is any of their names, before or after."""
    random = np.random.default_rng(seed)
    graph = GraphBuilder(f"overwriting-{seed}")
    known = [graph.add_tensor("x", size_bytes=int(random.integers(1, 100)))]
    graph.add_op("x", "input", outputs=known[:1])
    known += [
        graph.add_tensor(f"w{i}", size_bytes=int(random.integers(0, 200)), role=role)
        for i, role in enumerate(random.choice(["parameter", "parameter", "constant"], 4).tolist())
    ]
    for number in range(num_ops):
        read = random.choice(known, int(random.integers(1, 4)), replace=False).tolist()
        base = read[0]
        size = graph.tensors[base].size_bytes
        kind = str(random.choice(["matmul", "copy", "gather", "embedding", "optimizer", "view", "view"]))
        made = []
        if kind == "view":
            read = [base]
            made.append(
                graph.add_tensor(
                    f"v{number}", size_bytes=int(random.choice([size, random.integers(0, size + 1)])), alias_of=base
                )
            )
        elif random.random() < 0.6:
            made.append(graph.add_tensor(f"t{number}", size_bytes=size, alias_of=base, is_output=random.random() < 0.3))
            # An overwritten tensor need not be read, and may be read twice.
            read = [read[1:], read, [*read, base]][random.integers(0, 3)]
        if kind != "view" and (not made or random.random() < 0.2):
            made.append(graph.add_tensor(f"r{number}", size_bytes=int(random.integers(0, 150))))
        time_ns = int(random.integers(0, 300)) if random.random() < 0.5 and kind != "view" else None
        graph.add_op(f"op{number}", kind, inputs=read, outputs=made, time_ns=time_ns, attributes={"function": "sgd"})
        known += made
    return graph.build()
