"""The placement that experts make by hand, as papers on learned placers measure it: whole layers on one device each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.graph import Op
from placewright.lab.learning.environments.first_come import FirstComeEnvironment
from placewright.lab.learning.placers.module_calls import module_calls
from placewright.problem import Problem
from placewright.search.constructive.baseline import Baseline, Candidate

#: A module of a list: the list's path, and its index there.
_LISTED = re.compile(r"^(.*?)\.(\d+)(?:\.|$)")


@dataclass(frozen=True, kw_only=True)
class LayerWise(Baseline):
    """A placement of whole layers. In recurrent networks each layer is on one device, embeddings with the layer that
    follows them; attention, softmax and everything else with the highest layer (Mirhoseini et al. 2017, section 4.2).
    In other networks each device gets a run of equally many layers. Backward ops are with their layer, parameters with
    the first op that reads them.

    A recurrent layer is a module of a list that is called more than once. If there are at least as many devices as such
    layers, those of encoder and decoder counted together, each layer has its own device; with fewer devices every list
    begins at the first device.
    """

    name: str = "layer-wise"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        solution = FirstComeEnvironment(problem).solution(layer_wise_placement(problem))
        yield Candidate(name=self.name, device_of=solution.device_of, order=solution.order)


def layer_wise_placement(problem: Problem) -> NDArray[np.int32]:
    """Return the device of each op, [num ops]."""
    ops = [problem.graph.ops[index] for index in problem.lowered.graph_op.tolist()]
    layers, num_devices = recurrent_layers(problem, ops), problem.machine.num_devices
    by_module = _by_recurrent_layer(ops, layers, num_devices) if layers else _by_runs_of_modules(ops, num_devices)
    device = np.array([by_module.get(op.module, -1) for op in ops])
    return _with_the_rest(problem, device)


def recurrent_layers(problem: Problem, ops: list[Op]) -> dict[str, tuple[str, int]]:
    """Return by module of an op the list and the number of the layer that it belongs to, in order of first calls."""
    times = Counter(call for call in set(module_calls(problem)) if call is not None)
    called = Counter(path for path, _ in times)
    repeated = {_listed(path) for path, number in called.items() if number > 1} - {None}
    found: dict[str, tuple[str, int]] = {}
    for op in ops:
        layer = _listed(op.module)
        if layer in repeated and layer is not None:
            found.setdefault(op.module, layer)
    return found


def _listed(path: str) -> tuple[str, int] | None:
    found = _LISTED.match(path)
    return None if found is None else (found[1], int(found[2]))


def _by_recurrent_layer(ops: list[Op], layers: Mapping[str, tuple[str, int]], num_devices: int) -> dict[str, int]:
    """Return the device by module."""
    in_order = list(dict.fromkeys(layers.values()))
    sizes = Counter(list_ for list_, _ in in_order)
    if len(in_order) <= num_devices:
        device_of = {layer: device for device, layer in enumerate(in_order)}
    else:
        device_of = {(list_, n): n * num_devices // max(num_devices, sizes[list_]) for list_, n in in_order}
    found = {module: device_of[layer] for module, layer in layers.items()}
    lookups, following = {op.module for op in ops if op.kind == "embedding"}, device_of[in_order[0]]
    for op in reversed(ops):
        if op.phase in ("", "forward") and op.module in layers:
            following = found[op.module]
        elif op.phase in ("", "forward") and op.module in lookups:
            found[op.module] = following
    for op in ops:
        if op.module:
            found.setdefault(op.module, device_of[in_order[-1]])
    return found


def _by_runs_of_modules(ops: list[Op], num_devices: int) -> dict[str, int]:
    """Return the device by module; modules with ops in the forward pass, in the order of their first op."""
    modules = list(dict.fromkeys(op.module for op in ops if op.module and op.phase in ("", "forward")))
    return {module: number * num_devices // len(modules) for number, module in enumerate(modules)}


def _with_the_rest(problem: Problem, device: NDArray[np.int64]) -> NDArray[np.int32]:
    """Place the other ops: one without a module with the first op that it reads from, a variable with the first op that
    reads it; a group where its first op would be, or on the first device that is allowed."""
    lowered = problem.lowered
    device = device.copy()
    producer, reader = lowered.producer[lowered.inputs].tolist(), lowered.reader.tolist()
    num_inputs = np.diff(lowered.input_begin)
    reads_nothing = (device < 0) & (num_inputs == 0)
    for place in range(len(reader) - 1, -1, -1):
        if reads_nothing[producer[place]] and device[reader[place]] >= 0:
            device[producer[place]] = device[reader[place]]
    for op in np.flatnonzero((device < 0) & (num_inputs > 0)).tolist():
        device[op] = device[producer[lowered.input_begin[op]]]
    first, masks = problem.groups
    device = np.maximum(device, 0)[first]
    allowed = (masks[:, None] >> np.arange(problem.machine.num_devices, dtype=np.uint64)) & np.uint64(1)
    return np.where(allowed[np.arange(len(device)), device] > 0, device, allowed.argmax(1)).astype(np.int32)
