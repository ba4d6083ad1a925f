"""Contiguous split: the captured order cut into one run of ops per device, by memory; pipeline placement without a
pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.problem import Problem
from placewright.search.constructive.baseline import Baseline, Candidate
from placewright.search.constructive.inputs_aside import scopes
from placewright.search.constructive.one_device import INPUT_ORDER

#: Shares of their limits to which accelerators are filled where CPUs hold the rest.
_FILLED = (1.2, 1.0, 0.8)


@dataclass(frozen=True, kw_only=True)
class ContiguousSplit(Baseline):
    """Cuts the captured order in several ways and keeps the best: "filled", one device after another up to its memory
    limit, as accelerate's infer_auto_device_map fills devices with layers; "balanced", with memory divided in
    proportion to the limits (evenly when a device has none). An op counts its outputs and the parameters that no
    earlier op reads. A training step is also cut by layers: its forward ops alone are cut, by memory or by time, and
    every later op is placed where most of its input is held. CPUs in a machine with accelerators mostly have the most
    memory and the least speed: there layers are also cut so that accelerators are filled, to several shares of their
    limits, and CPUs hold the rest."""

    name: str = "contiguous-split"

    def candidates(self, problem: Problem) -> Iterator[Candidate]:
        ops = INPUT_ORDER.order(problem)
        for scope in scopes(problem.core):
            captured = np.arange(scope.core.num_ops, dtype=np.int32)
            for name, cut in (("filled", _core.runs_filling_memory), ("balanced", _core.runs_balancing_memory)):
                device_of, order = scope.with_inputs(cut(scope.core), captured)
                yield Candidate(name=name + scope.suffix, device_of=device_of, order=order)
        is_forward = np.array([problem.graph.ops[i].phase == "forward" for i in problem.lowered.graph_op])
        if is_forward.any() and not is_forward.all():
            for name, weight in (("layers by memory", _held_bytes(problem)), ("layers by time", _time_ns(problem))):
                device_of = _cut_by_layers(problem, is_forward, weight, _by_limits(problem))
                yield Candidate(name=name, device_of=device_of, order=ops)
        of_layers = is_forward if is_forward.any() else np.ones_like(is_forward)
        held = _held_bytes(problem)
        for name, shares in _accelerators_first(problem, float(held[of_layers].sum())):
            yield Candidate(name=name, device_of=_cut_by_layers(problem, of_layers, held, shares), order=ops)


def _time_ns(problem: Problem) -> NDArray[np.float64]:
    """Return the mean time per op, with that of a group counted at its first op: a layer's backward ops mostly share
    its group."""
    return _at_first_of_group(problem, problem.time_ns[problem.lowered.graph_op].mean(axis=1))


def _held_bytes(problem: Problem) -> NDArray[np.float64]:
    """Sum up per op its outputs, and at a group's first op all residents of the group: parameters and optimizer
    states."""
    lowered = problem.lowered
    outputs = np.bincount(lowered.producer, lowered.allocated_bytes, minlength=len(lowered.graph_op)).astype(np.float64)
    first_reader = np.full(len(lowered.resident_bytes), len(lowered.graph_op))
    np.minimum.at(first_reader, lowered.residents, lowered.resident_reader)
    residents = np.bincount(first_reader, lowered.resident_bytes, minlength=len(lowered.graph_op) + 1).astype(
        np.float64
    )
    return outputs + _at_first_of_group(problem, residents[: len(lowered.graph_op)])


def _at_first_of_group(problem: Problem, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    group, _ = problem.groups
    return np.bincount(group, weight, minlength=len(group)).astype(np.float64)


#: The devices in the order of their layers, each with its share.
Shares = list[tuple[int, float]]


def _by_limits(problem: Problem) -> Shares:
    """Return shares in proportion to the memory limits."""
    limits = problem.memory_limits_bytes
    return list(enumerate(1.0 if None in limits or limit is None else float(limit) for limit in limits))


def _accelerators_first(problem: Problem, held: float) -> Iterator[tuple[str, Shares]]:
    """Yield shares with which accelerators are filled, and the machine's CPUs get the rest. held: the total memory of
    forward ops. It is not all held at once, but backward ops hold other tensors."""
    limits = problem.memory_limits_bytes
    cpus = [index for index, device in enumerate(problem.machine.devices) if device.is_cpu]
    others = [(index, limit) for index, limit in enumerate(limits) if index not in cpus and limit is not None]
    if not cpus or not others or len(cpus) + len(others) < len(limits):
        return
    for filled in _FILLED:
        shares = [(index, filled * limit) for index, limit in others]
        rest = max(0.0, held - sum(share for _, share in shares))
        if sum(limit for _, limit in others):
            yield f"accelerators to {filled:.0%}", [*shares, *((cpu, rest / len(cpus)) for cpu in cpus)]


def _cut_by_layers(
    problem: Problem, is_forward: NDArray[np.bool_], weight: NDArray[np.float64], of_devices: Shares
) -> NDArray[np.int32]:
    """Return a placement, int32 [num scheduled ops], of forward ops in runs whose weights are in proportion to the
    devices' shares."""
    devices, sizes = zip(*of_devices, strict=True)
    shares = np.cumsum(sizes)
    run = np.cumsum(np.where(is_forward, weight, 0.0))
    cut = np.searchsorted(shares[:-1] / shares[-1] * run[-1], run - 0.5 * weight, side="right")
    group, allowed = (array.tolist() for array in problem.groups)
    holdings = _Holdings(problem)
    device_of = [-1] * len(group)
    for op, first in enumerate(group):
        if first != op:
            device_of[op] = device_of[first]
            continue
        wanted = devices[cut[op]] if is_forward[op] else holdings.where_most_is(op, device_of)
        device_of[op] = wanted if allowed[op] >> wanted & 1 else (allowed[op] & -allowed[op]).bit_length() - 1
    return np.array(device_of, np.int32)


class _Holdings:
    """The inputs of ops as lists, since they are read one by one."""

    def __init__(self, problem: Problem) -> None:
        lowered = problem.lowered
        self.num_devices = problem.machine.num_devices
        self.begin: list[int] = lowered.input_begin.tolist()
        self.makers: list[int] = lowered.producer[lowered.inputs].tolist()
        self.sizes: list[int] = lowered.transfer_bytes[lowered.inputs].tolist()

    def where_most_is(self, op: int, device_of: list[int]) -> int:
        """Return the device that holds most bytes of an op's inputs; the first device when it has none."""
        held = [0] * self.num_devices
        for place in range(self.begin[op], self.begin[op + 1]):
            held[device_of[self.makers[place]]] += self.sizes[place]
        return held.index(max(held))
