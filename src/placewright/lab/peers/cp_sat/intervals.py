"""Step time on any machine, with an interval for every op on a device and for every transfer on the devices or link
that it occupies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations

from ortools.sat.python.cp_model import CpModel

from placewright.lab.peers.cp_sat.placement import Placement
from placewright.lab.peers.cp_sat.structure import (
    Expression,
    Formulation,
    Structure,
    Transfer,
    Value,
    positions_of,
    whole_order,
)
from placewright.search.run.result import Solution

#: Intervals and pairs of steps beyond which building a model takes longer than it is worth.
MAX_INTERVALS = 10_000
MAX_PAIRS = 20_000
#: Ops up to which this model is faster than segments where both fit: with free transfers, or not.
_MAX_PROVEN_FREE, _MAX_PROVEN = 15, 45


def proves(structure: Structure) -> bool:
    """True if the graph is so small that this model closes the gap in about a second, where that of segments leaves it
    open after ten."""
    tensors = range(structure.num_tensors)
    free = not any(
        structure.transfer_ns(t, s, d) for t in tensors for s, d in permutations(range(structure.num_devices), 2)
    )
    return structure.num_ops <= (_MAX_PROVEN_FREE if free else _MAX_PROVEN)


def fits(structure: Structure, warm: Solution | None) -> bool:
    num_devices, blocking = structure.num_devices, structure.problem.machine.transfer_model == "blocking"
    ways = num_devices * (num_devices - 1) * (2 if blocking else 1)
    return structure.num_ops * num_devices + structure.num_tensors * ways <= MAX_INTERVALS


@dataclass(frozen=True)
class _Step:
    start: Expression
    finish: Expression


@dataclass(frozen=True)
class _Resource:
    """A device or link, with the steps that may occupy it, one at a time."""

    steps: list[tuple[_Step, Expression]] = field(default_factory=list)
    intervals: list[Expression] = field(default_factory=list)


def formulate(structure: Structure, warm: Solution | None, at_least: int, at_most: int) -> Formulation:
    """Formulate the model. Steps on one device, or overlapped on one link, exclude each other; an instant may not lie
    inside an interval, so that a free transfer is a barrier.

    A control dependency in mode "order" does not restrict times: the steps that exclude each other get ranks as well,
    which follow their times and which the dependency orders. With more than MAX_PAIRS pairs of such steps it is left
    out, and the order made from a solution may take longer than the model's step time.
    """
    model = CpModel()
    placement = Placement(model, structure)
    building = _Building(model, structure, placement, at_most)
    building.add_ops()
    building.add_transfers()
    building.add_controls()
    for resource in building.resources.values():
        model.add_no_overlap(resource.intervals)
    step_time = model.new_int_var(at_least, at_most, "")
    for op in building.ops:
        model.add(op.finish <= step_time)
    model.minimize(step_time)
    if warm is not None:
        building.hint(warm, step_time)

    def decode(value: Value) -> Solution:
        op_key = [(value(op.start), value(op.finish)) for op in building.ops]
        keys = {at: (value(step.start), value(step.finish)) for at, step in building.transfers.items()}
        return whole_order(structure, placement.device_of(value), op_key, keys)

    return Formulation(name="intervals", model=model, decode=decode, bounds_all=True)


class _Building:
    """The model under construction: variables of ops, and of transfers by (tensor, destination)."""

    def __init__(self, model: CpModel, structure: Structure, placement: Placement, at_most: int) -> None:
        self.model, self.structure, self.placement, self.at_most = model, structure, placement, at_most
        self.blocking = structure.problem.machine.transfer_model == "blocking"
        self.ops = [self._new_step() for _ in range(structure.num_ops)]
        self.transfers: dict[Transfer, _Step] = {}
        self.resources: dict[object, _Resource] = {}

    def _new_step(self) -> _Step:
        return _Step(self.model.new_int_var(0, self.at_most, ""), self.model.new_int_var(0, self.at_most, ""))

    def _occupy(self, name: object, step: _Step, time_ns: int, present: Expression) -> None:
        resource = self.resources.setdefault(name, _Resource())
        interval = self.model.new_optional_interval_var(step.start, time_ns, step.finish, present, "")
        resource.intervals.append(interval)
        resource.steps.append((step, present))

    def add_ops(self) -> None:
        for op, step in enumerate(self.ops):
            for d, here in self.placement.on[op].items():
                self._occupy(d, step, self.structure.time_ns[op][d], here)
        for before, after in self.structure.data_edges:
            self.model.add(self.ops[before].finish <= self.ops[after].start)

    def add_transfers(self) -> None:
        for tensor, maker in enumerate(self.structure.producer):
            for d in self.structure.destinations(tensor):
                sources = [s for s in self.placement.on[maker] if s != d]
                readers = [r for r in self.structure.readers[tensor] if d in self.placement.on[r]]
                if sources and readers:
                    self._add_transfer(tensor, d, sources, readers)

    def _add_transfer(self, tensor: int, d: int, sources: Sequence[int], readers: Sequence[int]) -> None:
        model, on = self.model, self.placement.on
        maker = self.structure.producer[tensor]
        step = self.transfers[tensor, d] = self._new_step()
        model.add(self.ops[maker].finish <= step.start)
        for source in sources:
            moves = model.new_bool_var("")
            model.add_implication(moves, on[maker][source])
            for reader in readers:
                model.add_bool_or([~on[maker][source], ~on[reader][d], moves])
                model.add(step.finish <= self.ops[reader].start).only_enforce_if(moves, on[reader][d])
            time_ns = self.structure.transfer_ns(tensor, source, d)
            for occupied in (source, d) if self.blocking else ((source, d),):
                self._occupy(occupied, step, time_ns, moves)

    def add_controls(self) -> None:
        """Order the ops of control dependencies by time in mode "signal", else by rank."""
        if self.structure.problem.control == "signal":
            for before, after in self.structure.controls:
                self._add_signal(before, after)
        elif self.structure.controls:
            pairs = sum(len(r.steps) * (len(r.steps) - 1) // 2 for r in self.resources.values())
            if pairs <= MAX_PAIRS:
                self._add_ranks()

    def _add_signal(self, before: int, after: int) -> None:
        first, second, links = self.ops[before], self.ops[after], self.structure.problem.machine.links
        self.model.add(first.finish <= second.start)
        for source, there in self.placement.on[before].items():
            for d, here in self.placement.on[after].items():
                latency_ns = 0 if source == d else links[source][d].latency_ns
                if latency_ns:
                    self.model.add(first.finish + latency_ns <= second.start).only_enforce_if(there, here)

    def _add_ranks(self) -> None:
        model, last = self.model, len(self.ops) + len(self.transfers)
        rank = {id(step): model.new_int_var(0, last, "") for step in [*self.ops, *self.transfers.values()]}
        for before, after in [*self.structure.controls, *self.structure.data_edges]:
            model.add(rank[id(self.ops[before])] < rank[id(self.ops[after])])
        for (tensor, d), step in self.transfers.items():
            model.add(rank[id(self.ops[self.structure.producer[tensor]])] < rank[id(step)])
            for reader in self.structure.readers[tensor]:
                if d in self.placement.on[reader]:
                    model.add(rank[id(step)] < rank[id(self.ops[reader])])
        earlier: dict[tuple[int, int], Expression] = {}
        for resource in self.resources.values():
            for (one, one_here), (other, other_here) in combinations(resource.steps, 2):
                if one is other:
                    continue
                pair = id(one), id(other)
                if pair not in earlier:
                    earlier[pair] = model.new_bool_var("")
                    earlier[pair[::-1]] = ~earlier[pair]
                for first, second, literal in ((one, other, earlier[pair]), (other, one, ~earlier[pair])):
                    both = (literal, one_here, other_here)
                    model.add(first.finish <= second.start).only_enforce_if(both)
                    model.add(rank[id(first)] < rank[id(second)]).only_enforce_if(both)

    def hint(self, warm: Solution, step_time: Expression) -> None:
        """Hint the devices and times of the warm start."""
        device_of = self.placement.hint(self.model, warm.device_of.tolist())
        simulated = self.structure.problem.core.simulate(warm.device_of, warm.order)
        new_name = dict(zip(warm.device_of.tolist(), device_of, strict=True))
        for (index, destination), place in positions_of(warm).items():
            step = self.ops[index] if destination < 0 else self.transfers[index, new_name[destination]]
            self.model.add_hint(step.start, int(simulated.start_ns[place]))
            self.model.add_hint(step.finish, int(simulated.finish_ns[place]))
        self.model.add_hint(step_time, simulated.step_time_ns)
