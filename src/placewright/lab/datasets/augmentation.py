"""More problems from one graph: the same topology with noisy sizes and times (Paliwal et al. 2020, appendix A.1.2)."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from placewright.graph import Graph

#: A size or time is multiplied by a number drawn uniformly between these.
LEAST_FACTOR, MAX_FACTOR = 0.5, 1.5


def noisy_copy(graph: Graph, number: int, seed: int) -> Graph:
    """The graph "NAME~number": the given one with other tensor sizes and op times.

    Every tensor size and every stated op time has its own factor in every copy; an alias has the factor of the tensor
    it aliases, so that views stay views of the same bytes. What was positive stays positive. A copy depends on the
    seed, the graph's name and its own number alone. Workspaces stay: the paper has noise for tensors and ops.
    """
    random = Random(f"{seed}/{graph.name}/{number}")
    factor = [random.uniform(LEAST_FACTOR, MAX_FACTOR) for _ in graph.tensors]
    sizes = [
        _scaled(tensor.size_bytes, factor[base]) for tensor, base in zip(graph.tensors, graph.base_of, strict=True)
    ]
    factors = [random.uniform(LEAST_FACTOR, MAX_FACTOR) for _ in graph.ops]
    times = [
        op.time_ns if op.time_ns is None else _scaled(op.time_ns, f) for op, f in zip(graph.ops, factors, strict=True)
    ]
    return Graph(
        name=f"{graph.name}~{number}",
        tensors=tuple(replace(tensor, size_bytes=size) for tensor, size in zip(graph.tensors, sizes, strict=True)),
        ops=tuple(replace(op, time_ns=time) for op, time in zip(graph.ops, times, strict=True)),
        metadata={**graph.metadata, "copy_of": graph.name, "copy": number, "noise_seed": seed},
    )


def _scaled(value: int, factor: float) -> int:
    """The product as a whole number within the bounds of the factors, positive when the value is."""
    return max(round(value * factor), min(value, 1))
