"""Cost of one run of the body of a fusion, a loop or a branch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from placewright.costs.estimate import compute_dtype, dearest_dtype
from placewright.costs.flops import NoFormulaError, count_flops
from placewright.costs.traffic import count_bytes
from placewright.importers.builder import GraphBuilder, tensor_bytes
from placewright.importers.xla.kinds import SLICING_OPCODES
from placewright.importers.xla.program import Body, Computation, leaves, like
from placewright.importers.xla.translation import Translation


def body_of(translation: Translation, computation: Computation, *, is_fused: bool = False) -> Body:
    """The work of one run of a computation, by itself."""
    bodies, key = translation.shared.bodies, (id(computation), is_fused)
    if key not in bodies:
        nested = Translation(GraphBuilder("body"), translation.shared, depth=translation.depth + 1, is_fused=is_fused)
        arguments = [
            nested.add_tensor(nested.unique("argument"), array, role="parameter")
            for array in leaves(tuple(computation.parameters.values()))
        ]
        places = iter(arguments)
        root = nested.run(computation, [like(kind, places) for kind in computation.parameters.values()])
        bodies[key] = _measured(nested, arguments, list(leaves(root)))
    return bodies[key]


def _measured(nested: Translation, arguments: Sequence[int], root: Sequence[Any]) -> Body:
    """The Body of a finished translation. arguments: tensors of its parameters; root: leaves of its result."""
    results = [leaf for leaf in root if isinstance(leaf, int)]
    folded = [leaf for leaf in root if leaf is not None and not isinstance(leaf, int)]
    live = [index for index in nested.live_ops(set(results)) if nested.builder.ops[index].kind != "view"]
    flops_by_kind, flops_by_dtype, bytes_moved = _work(nested, live)
    last = nested.builder.ops[live[-1]].kind if live else "copy"
    dearest = max(flops_by_kind, key=lambda kind: flops_by_kind[kind], default=last)
    place = {tensor: position for position, tensor in enumerate(arguments)}
    return Body(
        flops=flops_by_kind.total(),
        bytes_moved=bytes_moved,
        kind=dearest if flops_by_kind.total() else last,
        computes=dearest_dtype(flops_by_dtype, nested.builder.tensors),
        num_ops=len(live),
        read_bytes=tuple(_read_bytes(nested, tensor, set(live)) for tensor in arguments),
        written_bytes=sum(_written_bytes(nested, leaf) for leaf in results)
        + sum(leaf.array.size_bytes for leaf in folded),
        temporary_bytes=_temporary_bytes(nested, live, results),
        passed={position: place[leaf] for position, leaf in enumerate(root) if leaf in place},
    )


def _work(nested: Translation, live: Sequence[int]) -> tuple[Counter[str], Counter[str | None], int]:
    """FLOPs by kind, FLOPs by dtype, and bytes moved. An op without a FLOP formula counts with its bytes alone."""
    by_kind: Counter[str] = Counter()
    by_dtype: Counter[str | None] = Counter()
    bytes_moved = 0
    tensors = nested.builder.tensors
    for index in live:
        op = nested.builder.ops[index]
        inputs, outputs = [tensors[tensor] for tensor in op.inputs], [tensors[tensor] for tensor in op.outputs]
        bytes_moved += count_bytes(op, [tensors[tensor] for tensor in dict.fromkeys(op.inputs)], outputs)
        try:
            flops = count_flops(op, inputs, outputs)
        except NoFormulaError:
            continue
        by_kind[op.kind] += flops
        by_dtype[compute_dtype(op, inputs, outputs)] += flops
    return by_kind, by_dtype, bytes_moved


def _read_bytes(nested: Translation, argument: int, live: set[int]) -> int:
    """Bytes read of a parameter: all of it, unless its readers only take slices of it or update a part of it."""
    whole = nested.arrays[argument].size_bytes
    total = 0
    for index in nested.readers.get(argument, ()):
        if index not in live:
            continue
        op, opcode = nested.builder.ops[index], nested.opcodes[index]
        is_first = bool(op.inputs) and nested.owner[op.inputs[0]] == argument
        if is_first and opcode in SLICING_OPCODES:
            total += sum(nested.arrays[tensor].size_bytes for tensor in op.outputs)
        elif not (is_first and opcode == "dynamic-update-slice"):
            return whole
    return min(whole, total)


def _written_bytes(nested: Translation, leaf: int) -> int:
    index = nested.producer.get(nested.owner[leaf], -1)
    if index >= 0 and nested.opcodes[index] == "dynamic-update-slice" and len(nested.builder.ops[index].inputs) > 1:
        return nested.arrays[nested.builder.ops[index].inputs[1]].size_bytes
    array = nested.arrays[leaf]
    return tensor_bytes(array.shape, array.dtype) if array.is_stretched else array.size_bytes


def _temporary_bytes(nested: Translation, live: Sequence[int], results: Sequence[int]) -> int:
    """Peak bytes of the tensors that ops pass to each other, without results."""
    outside = {nested.owner[leaf] for leaf in results}
    last_use = {nested.owner[tensor]: index for index in live for tensor in nested.builder.ops[index].inputs}
    freed: dict[int, int] = {}
    held = most = 0
    for index in live:
        for tensor in nested.builder.ops[index].outputs:
            if tensor not in outside and tensor in last_use:
                held += nested.arrays[tensor].size_bytes
                freed[last_use[tensor]] = freed.get(last_use[tensor], 0) + nested.arrays[tensor].size_bytes
        most = max(most, held)
        held -= freed.pop(index, 0)
    return most
