"""Splits of a module into stages for torch.distributed.pipelining: the layers at which stages begin.

Stages are runs of the captured forward order, one per device that the plan uses, in the order in which the plan reaches
the devices. Of all splits before layers, the one that keeps the most forward time on the plan's devices is chosen.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from placewright.export.module_ties import ModuleRecord, by_first, is_forward, module_record
from placewright.export.module_tree import up
from placewright.graph import Graph
from placewright.plans.record import Plan
from placewright.support.errors import InputError, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The stages of a pipeline. split_before: module at which each stage except the first begins. begins: index of the
    op with which each stage begins. devices: of each stage."""

    split_before: tuple[str, ...]
    begins: tuple[int, ...]
    devices: tuple[int, ...]


#: Op of the graph -> its device, and its time in ns. Views have neither.
Placed = Mapping[int, tuple[int, int]]


def to_bytes(plan: Plan, graph: Graph) -> bytes:
    """Write JSON: `split_before`, and the device of each stage in `stages`."""
    split = find_split(graph, placed_by(plan, graph))
    devices = [plan.machine.devices[device].name for device in split.devices]
    content = {"split_before": list(split.split_before), "stages": devices}
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")


def placed_by(plan: Plan, graph: Graph) -> Placed:
    """Map the ops of the graph to their device and time in the plan."""
    scheduled = {op.name: (op.device, max(1, op.finish_ns - op.start_ns)) for op in plan.ops}
    return {index: scheduled[op.name] for index, op in enumerate(graph.ops) if op.name in scheduled}


def find_split(graph: Graph, placed: Placed) -> Split:
    """Find the split that moves the least forward time away from the device where it is placed.

    Raises InputError where all ops are on one device, or the layers are too few.
    """
    forward = [index for index, op in enumerate(graph.ops) if is_forward(op)]
    devices = _in_order([placed[index] for index in forward if index in placed])
    if len(devices) < 2:
        raise InputError(f"the plan of '{shown(graph.name)}' uses one device, so there is nothing to split")
    candidates = _beginnings(graph, forward)
    if len(candidates) < len(devices) - 1:
        raise InputError(
            f"'{shown(graph.name)}' has {len(candidates)} layers at which a stage can begin, and {len(devices)} devices"
            " are used; split points need module paths, which PyTorch models have"
        )
    chosen = _best_cuts(forward, placed, devices, list(candidates))
    return Split(split_before=tuple(candidates[cut] for cut in chosen), begins=(0, *chosen), devices=tuple(devices))


def _in_order(placed: Sequence[tuple[int, int]]) -> list[int]:
    """Order the devices by the middle of their computing time, in captured order."""
    moments: defaultdict[int, float] = defaultdict(float)
    spent: Counter[int] = Counter()
    now = 0
    for device, time_ns in placed:
        moments[device] += (now + time_ns / 2) * time_ns
        spent[device] += time_ns
        now += time_ns
    return sorted(spent, key=lambda device: (moments[device] / spent[device], device))


def _beginnings(graph: Graph, forward: Sequence[int]) -> dict[int, str]:
    """Map first ops to the outermost layer that begins there and is called once, in captured order. Layers that begin
    no later than the first op that takes time begin no stage, nor do layers between ops that read or overwrite one
    buffer: each stage would have its own."""
    members: dict[str, list[int]] = {}
    for place, index in enumerate(forward):
        path = graph.ops[index].module
        while path:
            members.setdefault(path, []).append(place)
            path = path.rpartition(".")[0]
    first_timed = next((place for place, index in enumerate(forward) if graph.ops[index].kind != "view"), 0)
    record = module_record(graph)
    refused, spans = _refused(record, members), list(_overwritten(graph))
    named = {*record.other_paths, *record.other_paths.values()}
    found: dict[int, str] = {}
    for path, places in sorted(members.items(), key=lambda item: (item[1][0], item[0].count("."))):
        begin = forward[places[0]]
        whole = places[-1] - places[0] + 1 == len(places)
        if not whole or places[0] <= first_timed or path in refused:
            continue
        if any(first < begin <= last for first, last in spans):
            continue
        if not _is_called_again(graph, [forward[place] for place in places], anywhere=path in named):
            found.setdefault(begin, path)
    return found


def _refused(record: ModuleRecord, called: Collection[str]) -> set[str]:
    """Find layers at which PyTorch begins no stage, or more than one: it splits at every call of a layer, under any
    name; it never splits at a list of layers; and it does not split off a layer that contains a layer which another one
    contains, too."""
    found = set(record.lists)
    for paths in by_first(record.other_paths):
        if len(paths.intersection(called)) > 1:
            found |= paths
        above = {path.rpartition(".")[0] for path in paths}
        if len(above) > 1:
            found.update(path for holder in above for path in up(holder))
    return found


def _overwritten(graph: Graph) -> Iterator[tuple[int, int]]:
    """Yield, for each buffer that forward ops overwrite, the first and the last forward op that touches it."""
    touching: defaultdict[int, list[int]] = defaultdict(list)
    written: set[int] = set()
    for index, op in enumerate(graph.ops):
        if is_forward(op):
            results = {graph.base_of[tensor] for tensor in op.outputs}
            if op.kind != "view":
                written |= {base for base in results if graph.tensors[base].role == "parameter"}
            for base in results | {graph.base_of[tensor] for tensor in op.inputs}:
                touching[base].append(index)
    for base in written:
        yield touching[base][0], touching[base][-1]


def _is_called_again(graph: Graph, ops: Sequence[int], *, anywhere: bool) -> bool:
    """True if the op that begins a layer occurs in it again: a layer that is called twice would begin two stages.
    anywhere: count occurrences on any source line, for a layer that has several names."""
    signatures = [(op.module, op.target, "" if anywhere else op.source) for op in (graph.ops[index] for index in ops)]
    return signatures.count(signatures[0]) > 1 and (anywhere or bool(graph.ops[ops[0]].source))


def _best_cuts(forward: Sequence[int], placed: Placed, devices: Sequence[int], candidates: Sequence[int]) -> list[int]:
    """Choose the candidates at which the later stages begin, by dynamic programming over stages."""
    kept = [_kept(forward, placed, device) for device in devices]
    place_of = {index: place for place, index in enumerate(forward)}
    cuts = [place_of[index] for index in candidates]
    # Per candidate at which a stage ends: the most time that the stages up to it keep, and the ends of these.
    best: list[tuple[int, tuple[int, ...]] | None] = [(kept[0][cut], (number,)) for number, cut in enumerate(cuts)]
    for stage in range(1, len(devices) - 1):
        before: tuple[int, tuple[int, ...]] | None = None
        following: list[tuple[int, tuple[int, ...]] | None] = []
        for number, (cut, found) in enumerate(zip(cuts, best, strict=True)):
            following.append(None if before is None else (before[0] + kept[stage][cut], (*before[1], number)))
            if found is not None and (before is None or found[0] - kept[stage][cut] > before[0]):
                before = found[0] - kept[stage][cut], found[1]
        best = following
    totals = [(time_ns + kept[-1][-1] - kept[-1][cuts[ends[-1]]], ends) for time_ns, ends in filter(None, best)]
    _, chosen = max(totals, key=lambda total: total[0])
    return [candidates[number] for number in chosen]


def _kept(forward: Sequence[int], placed: Placed, device: int) -> list[int]:
    """Sum up, per place in the forward order, the time of the ops before it that are on a device."""
    times = (placed.get(index, (-1, 0)) for index in forward)
    return [0, *accumulate(time_ns if where == device else 0 for where, time_ns in times)]


def stage_of_ops(graph: Graph, split: Split) -> list[int]:
    """Find the stage that computes each op: forward ops by their place, the others with the forward ops of their
    module, or else in the stage that makes their first input."""
    stages: list[int] = []
    of_module: defaultdict[str, Counter[int]] = defaultdict(Counter)
    stage = 0
    for index, op in enumerate(graph.ops):
        if is_forward(op):
            while stage + 1 < len(split.begins) and index >= split.begins[stage + 1]:
                stage += 1
            stages.append(stage)
            of_module[op.module][stage] += 1
        elif op.module and op.module in of_module:
            stages.append(of_module[op.module].most_common(1)[0][0])
        else:
            makers = [graph.producer_of[tensor] for tensor in op.inputs]
            stages.append(next((stages[maker] for maker in makers if maker >= 0), 0))
    return stages


def inputs_in_later_stages(graph: Graph, split: Split) -> Iterator[tuple[str, int]]:
    """Yield the inputs of the network that a stage other than the first reads, with the last such stage."""
    stages = stage_of_ops(graph, split)
    for op in graph.ops:
        if op.kind == "input":
            readers = {stages[reader] for tensor in op.outputs for reader in graph.consumers_of[tensor]}
            if max(readers, default=0) > 0:
                yield graph.tensors[op.outputs[0]].name, max(readers)


def parameters_in_several_stages(graph: Graph, split: Split) -> Iterator[str]:
    """Yield the parameters and buffers that forward ops of several stages read."""
    stages = stage_of_ops(graph, split)
    for tensor, readers in zip(graph.tensors, graph.consumers_of, strict=True):
        reading = {stages[reader] for reader in readers if is_forward(graph.ops[reader])}
        if tensor.role == "parameter" and len(reading) > 1:
            yield tensor.name
