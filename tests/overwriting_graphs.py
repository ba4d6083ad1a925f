"""Small random graphs for one device with features that training steps lack: ops that overwrite memory in place and
make other results too, views whose sizes are tensors, ops that take no time, and orders set by controls alone."""

from __future__ import annotations

import random
from dataclasses import replace

from placewright.graph import Graph, Op, Tensor


def overwriting_graph(seed: int, num_ops: int) -> Graph:
    """A random graph: an op that overwrites memory comes after all its users so far; later ops read no older name."""
    source = random.Random(seed)
    tensors = [Tensor(name="w", size_bytes=source.choice([1, 4, 10]), role="parameter")]
    ops: list[Op] = []
    outdated: set[int] = set()

    def tensor(size: int, alias_of: int | None = None) -> int:
        tensors.append(Tensor(name=f"t{len(tensors)}", size_bytes=size, alias_of=alias_of))
        return len(tensors) - 1

    def base(index: int) -> int:
        while (alias := tensors[index].alias_of) is not None:
            index = alias
        return index

    while len(ops) < num_ops:
        readable = [index for index in range(len(tensors)) if index not in outdated]
        inputs = source.sample(readable, min(len(readable), source.randint(1, 3)))
        controls = set(source.sample(range(len(ops)), source.randint(0, 1))) if ops else set()
        outputs = []
        draw = source.random()
        if draw < 0.2 and base(inputs[0]) != 0:
            kind, outputs = "view", [tensor(tensors[inputs[0]].size_bytes, inputs[0])]
        else:
            kind = source.choice(["elementwise", "elementwise", "matmul", "other"])
            if draw < 0.45 and base(inputs[0]) != 0:
                written = base(inputs[0])
                used = [*range(len(tensors))]
                controls |= {
                    place
                    for place, op in enumerate(ops)
                    if any(base(each) == written for each in (*op.inputs, *op.outputs))
                }
                outdated |= {index for index in used if base(index) == written}
                outputs.append(tensor(tensors[inputs[0]].size_bytes, inputs[0]))
            outputs += [tensor(source.choice([1, 4, 10, 20])) for _ in range(source.randint(0 if outputs else 1, 2))]
        ops.append(
            Op(
                name=f"o{len(ops)}",
                kind=kind,
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                controls=tuple(sorted(controls)),
                workspace_bytes=0 if kind == "view" else source.choice([0, 0, 3, 20]),
                time_ns=0 if kind == "view" else source.choice([0, 1, 2, 8]),
            )
        )
    kept = [replace(each, is_output=each.is_output or source.random() < 0.1) for each in tensors]
    return Graph(name=f"overwriting{seed}", ops=tuple(ops), tensors=tuple(kept))
