"""Check that a graph with reruns computes the same as without them: each run reads what its op would have read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placewright.graph import HOST_TARGET, LEAVE_TARGET, Graph, Op
from placewright.importers.xla.kinds import COLLECTIVES
from placewright.plans.record import Plan
from placewright.rematerialization.reruns import Rewritten

#: Kinds of ops whose second run would give another result, or change something else.
_ONCE = ("input", "optimizer", "control_flow", "other")


def about_reruns(graph: Graph, found: Rewritten) -> list[str]:
    """List the errors of the reruns, one sentence each.

    Both graphs are run in their order on symbols: memory holds the op of the original that wrote it last, and the index
    of the result. All runs of an op must read the same symbols as it does in the original, and later ones write nothing
    in place. So by induction over the ops, every reader gets what it would have got.
    """
    expected = [read for _, read in _runs(graph, range(len(graph.ops)), range(len(graph.tensors)))]
    problems: list[str] = []
    seen: set[int] = set()
    for place, read in _runs(found.graph, found.op_of, found.tensor_of):
        op, again, run = found.op_of[place], found.op_of[place] in seen, found.graph.ops[place]
        if op < 0:
            made_by = graph.producer_of[found.tensor_of[run.inputs[0]]]
            if made_by < 0:
                problems += _about_weight(graph, run.inputs[0])
            elif not run.outputs and read[0][0] != (made_by, graph.ops[made_by].outputs.index(run.inputs[0])):
                problems.append(f"op '{run.name}' moves what has been overwritten since it was made")
            if made_by >= 0 and run.target == LEAVE_TARGET:
                problems += _about_moved(graph, run.inputs[0])
            continue
        seen.add(op)
        if read != expected[op]:
            problems.append(f"op '{run.name}' does not read what '{graph.ops[op].name}' reads without reruns")
        if again and run.kind != "view" and _overwritten(graph, graph.ops[op]):
            problems.append(f"op '{run.name}' overwrites something once more")
        if not again and not _writes_what_it_reads(graph, graph.ops[op], found.graph, run):
            problems.append(f"op '{run.name}' overwrites other memory than it reads")
        if again and (run.kind in _ONCE or run.target in COLLECTIVES):
            problems.append(f"op '{run.name}' runs again, and an op of kind '{run.kind}' runs once")
    return problems + [f"op '{graph.ops[op].name}' never runs" for op in sorted(set(range(len(graph.ops))) - seen)]


def _overwritten(graph: Graph, op: Op) -> set[int]:
    """Find the memory that an op writes to in place, except the statistics of a normalisation, which it does not
    read."""
    found = {graph.base_of[tensor] for tensor in op.outputs if graph.tensors[tensor].alias_of is not None}
    return {base for base in found if op.kind != "normalization" or graph.producer_of[base] >= 0}


def _writes_what_it_reads(graph: Graph, op: Op, rewritten: Graph, run: Op) -> bool:
    """True if a run reads what it overwrites in one piece of memory wherever its op does."""
    pairs = [
        (rewritten.base_of[run.inputs[number]], rewritten.base_of[run.outputs[place]])
        for place, tensor in enumerate(op.outputs)
        if graph.tensors[tensor].alias_of is not None
        for number, read in enumerate(op.inputs)
        if graph.base_of[read] == graph.base_of[tensor]
    ]
    return all(read == written for read, written in pairs)


def about_devices(plan: Plan) -> Iterator[str]:
    """List reruns on a wrong device: readers on the device of an op get the results of its reruns."""
    device_of = plan.device_of
    for rerun in plan.reruns:
        if device_of.get(rerun.name) != device_of.get(rerun.op):
            yield f"op '{rerun.name}' does not run on the device of '{rerun.op}'"


def _about_weight(graph: Graph, weight: int) -> Iterator[str]:
    """Check a weight at the host: it must not be overwritten, nor belong to a step that trains."""
    name = graph.tensors[weight].name
    if any(op.phase in ("backward", "optimizer") for op in graph.ops):
        yield f"the weight '{name}' is at the host in a step that trains"
    written = (tensor for op in graph.ops if op.kind != "view" for tensor in op.outputs)
    if any(graph.base_of[tensor] == weight for tensor in written):
        yield f"the weight '{name}' is at the host, and is overwritten"


def _about_moved(graph: Graph, tensor: int) -> Iterator[str]:
    """Check that a result of an op may be moved; docs/semantics.md lists what is not moved."""
    moved = graph.tensors[tensor]
    shared = [each for op in graph.ops for each in op.outputs if graph.base_of[each] == tensor]
    if any(graph.tensors[each].is_output for each in shared):
        yield f"'{moved.name}' is moved, and is an output of the graph"
    if not moved.held_bytes:
        yield f"'{moved.name}' is moved, and takes no memory"
    writers = (op for op in graph.ops if op.kind != "view" for each in op.outputs if graph.base_of[each] == tensor)
    if len(list(writers)) > 1:
        yield f"'{moved.name}' is moved, and is overwritten in place"


def _runs(
    graph: Graph, op_of: Sequence[int], tensor_of: Sequence[int]
) -> Iterator[tuple[int, list[tuple[object, int]]]]:
    """Yield each op, by its place, with its reads: the content of the memory, and the tensor of the original through
    which it is read."""
    holds: dict[int, object] = {}
    at_host: dict[int, object] = {}
    own = _own_statistics(graph, op_of)
    for place, op in enumerate(graph.ops):
        yield (
            place,
            [
                (holds.get(graph.base_of[tensor], tensor_of[graph.base_of[tensor]]), tensor_of[tensor])
                for number, tensor in enumerate(op.inputs)
                if (op_of[place], number) not in own
            ],
        )
        if op_of[place] < 0:
            # A move begins when its tensor has been made; the tensor that comes back has that content.
            if op.target == HOST_TARGET and not op.outputs:
                at_host[op.inputs[0]] = holds[graph.base_of[op.inputs[0]]]
            weight = op.inputs[0] if graph.producer_of[op.inputs[0]] < 0 else -1
            holds |= dict.fromkeys(op.outputs, weight if weight >= 0 else at_host[op.inputs[0]])
        elif op.kind != "view":
            holds |= {graph.base_of[tensor]: (op_of[place], number) for number, tensor in enumerate(op.outputs)}


def _own_statistics(graph: Graph, op_of: Sequence[int]) -> set[tuple[int, int]]:
    """Find inputs, by original op and number, that a normalisation overwrites itself: they do not affect its
    results."""
    found = set()
    for place, op in enumerate(graph.ops):
        if op.kind == "normalization":
            outputs = (graph.base_of[tensor] for tensor in op.outputs if graph.tensors[tensor].alias_of is not None)
            written = {base for base in outputs if graph.producer_of[base] < 0}
            found |= {(op_of[place], number) for number, t in enumerate(op.inputs) if graph.base_of[t] in written}
    return found
