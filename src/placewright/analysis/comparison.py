"""Two plans for one graph: what differs between them."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from placewright.analysis.module_pattern import layer_of_ops
from placewright.plans.record import Plan, ScheduledOp
from placewright.rematerialization.reruns import names_of_move
from placewright.support.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedOps:
    """Ops of one module that are on another device in the second plan; repeated layers are taken together.

    Attributes
    ----------
    module
        Path of the module.
    source, destination
        Names of devices in the first and the second plan.
    num_ops
        Number of these ops.
    time_ns
        Their time in the first plan.
    """

    module: str
    source: str
    destination: str
    num_ops: int
    time_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferChange:
    """Transfers of one plan that the other lacks, by tensor and name of the destination.

    Attributes
    ----------
    num_transfers
        Number of these transfers.
    size_bytes
        The sum of their sizes.
    """

    num_transfers: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The changes that turn the first plan into the second.

    Attributes
    ----------
    num_ops
        Scheduled ops; reruns are not counted, and moved, order and transfers leave them out.
    renamed
        Pairs of a device of the second plan and the device of the first that it counts as. Where devices are equal,
        names that were only swapped move nothing; empty where every device counts as itself.
    num_moved
        Ops on another device.
    moved
        Groups of these ops, by time, longest first.
    order_distance
        Share of the pairs of ops whose order differs (Kendall 1938), from 0 (same order) to 1 (reversed).
    transfers_kept
        The transfers of both plans.
    transfers_removed, transfers_added
        The transfers of the first plan alone, and of the second plan alone.
    same_machine
        True if the two plans are for the same machine.
    """

    num_ops: int
    renamed: tuple[tuple[str, str], ...]
    num_moved: int
    moved: tuple[MovedOps, ...]
    order_distance: float
    transfers_kept: TransferChange
    transfers_removed: TransferChange
    transfers_added: TransferChange
    same_machine: bool


def compare(first: Plan, second: Plan) -> Comparison:
    """Compare two plans, with devices matched by name; on one machine, equal devices of the second plan are renamed so
    that as few ops as possible move. Raises InputError, which names a difference, when the plans are for different
    graphs."""
    ops, others = _first_runs(first), _first_runs(second)
    if not _are_of_one_graph(first, second):
        raise InputError(f"the plans are for different graphs: {_difference(first, second)}")
    names = [device.name for device in first.machine.devices]
    own_names = [device.name for device in second.machine.devices]
    counts_as = [names[device] for device in best_renaming(first, second)] or own_names
    place = {op.name: counts_as[op.device] for op in others}
    moved = [op for op in ops if names[op.device] != place.get(op.name)]
    before, after = _transfers(first, names), _transfers(second, counts_as)
    return Comparison(
        num_ops=len(ops),
        renamed=tuple((own, other) for own, other in zip(own_names, counts_as, strict=True) if own != other),
        num_moved=len(moved),
        moved=_by_module(first, moved, place),
        order_distance=_order_distance([op.name for op in ops], [op.name for op in others]),
        transfers_kept=_sum({key: size for key, size in before.items() if key in after}),
        transfers_removed=_sum({key: size for key, size in before.items() if key not in after}),
        transfers_added=_sum({key: size for key, size in after.items() if key not in before}),
        same_machine=first.machine == second.machine,
    )


def _first_runs(plan: Plan) -> list[ScheduledOp]:
    added = {rerun.name for rerun in plan.reruns}.union(*map(names_of_move, plan.moves))
    return [op for op in plan.ops if op.name not in added]


def _are_of_one_graph(first: Plan, second: Plan) -> bool:
    """Compare the fingerprints, which cover the graph with its reruns and moves; where reruns or moves differ, compare
    the names of the graphs and of their ops."""
    if (first.reruns, first.moves) == (second.reruns, second.moves):
        return first.graph_fingerprint == second.graph_fingerprint and len(first.ops) == len(second.ops)
    names = [{op.name for op in _first_runs(plan)} for plan in (first, second)]
    return first.graph_name == second.graph_name and names[0] == names[1]


def _difference(first: Plan, second: Plan) -> str:
    """Describe the first difference between the graphs of two plans."""
    if first.graph_name != second.graph_name:
        return f"'{first.graph_name}' and '{second.graph_name}'"
    names = [{op.name for op in _first_runs(plan)} for plan in (first, second)]
    for own, other, which in ((names[0], names[1], "first"), (names[1], names[0], "second")):
        if only := sorted(own - other):
            more = f" and {len(only) - 1:,} other ops" if len(only) > 1 else ""
            return f"both are named '{first.graph_name}', but only the {which} has op '{only[0]}'{more}"
    return f"both are named '{first.graph_name}' and have the same ops, but sizes, attributes or stated times differ"


def _by_module(plan: Plan, moved: Sequence[ScheduledOp], place: dict[str, str]) -> tuple[MovedOps, ...]:
    layer_of = layer_of_ops(plan.ops)
    count: Counter[tuple[str, str, str]] = Counter()
    time: Counter[tuple[str, str, str]] = Counter()
    for op in moved:
        key = (layer_of[op.name], plan.machine.devices[op.device].name, place[op.name])
        count[key] += 1
        time[key] += op.finish_ns - op.start_ns
    groups = [
        MovedOps(module=key[0], source=key[1], destination=key[2], num_ops=number, time_ns=time[key])
        for key, number in count.items()
    ]
    return tuple(sorted(groups, key=lambda group: (-group.time_ns, group.module, group.source)))


def _transfers(plan: Plan, names: Sequence[str]) -> dict[tuple[str, str], int]:
    """Map (tensor, name of the destination) to the size of the transfer."""
    return {(t.tensor, names[t.destination]): t.size_bytes for t in plan.transfers}


def _sum(transfers: dict[tuple[str, str], int]) -> TransferChange:
    return TransferChange(num_transfers=len(transfers), size_bytes=sum(transfers.values()))


def _order_distance(first: Sequence[str], second: Sequence[str]) -> float:
    """Return inversions divided by pairs. Inversions are counted by insertion into a sorted list, which is fast for the
    lengths that plans have."""
    rank = {name: position for position, name in enumerate(first)}
    seen: list[int] = []
    inversions = 0
    for name in second:
        inversions += len(seen) - bisect_right(seen, rank[name])
        insort(seen, rank[name])
    pairs = len(first) * (len(first) - 1) // 2
    return inversions / pairs if pairs else 0.0


#: The most partial renamings to try. Reached only where many devices are equal and the plans have little in common.
_MAX_TRIED = 20_000


def best_renaming(first: Plan, second: Plan) -> tuple[int, ...]:
    """Map each device of the second plan to the device of the first that it counts as; itself where nothing is gained.

    Only interchangeable devices are renamed: equal except for their names, with equal limits and links. With more
    devices than can be tried in full, the result is the best renaming found. Empty for plans of two machines.
    """
    if first.machine != second.machine:
        return ()
    return _Renaming(first, second).best


@dataclass
class _Renaming:
    """Branch and bound over the devices of the second plan, one after the other."""

    first: Plan
    second: Plan
    best: tuple[int, ...] = ()
    _most: int = 0
    _tried: int = 0
    _shared: Counter[tuple[int, int]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        place = self.first.device_of
        self._shared = Counter((op.device, place[op.name]) for op in self.second.ops if op.name in place)
        self._devices = range(self.first.machine.num_devices)
        self.best = tuple(self._devices)
        self._most = sum(self._shared[device, device] for device in self._devices)
        self._extend([], 0)

    def _extend(self, chosen: list[int], kept: int) -> None:
        """Extend a partial renaming by the next device. chosen: the devices that the first devices count as. kept: the
        ops that stay where they are under `chosen`."""
        self._tried += 1
        if len(chosen) == len(self._devices):
            if kept > self._most:
                self.best, self._most = tuple(chosen), kept
            return
        device = len(chosen)
        free = [other for other in self._devices if other not in chosen]
        rest = sum(max(self._shared[later, other] for other in free) for later in self._devices[device:])
        if kept + rest <= self._most:
            return
        for other in sorted(free, key=lambda other: -self._shared[device, other]):
            if self._tried < _MAX_TRIED and self._fits([*chosen, other]):
                self._extend([*chosen, other], kept + self._shared[device, other])

    def _fits(self, chosen: list[int]) -> bool:
        """True if the last device can count as the device chosen for it, given the choices for the devices before
        it."""
        machine, device, other = self.second.machine, len(chosen) - 1, chosen[-1]
        own, counted = machine.devices[device], machine.devices[other]
        if replace(own, name=counted.name) != counted:
            return False
        if self.second.memory_limits_bytes[device] != self.first.memory_limits_bytes[other]:
            return False
        links = machine.links
        return all(
            links[device][before] == links[other][as_before] and links[before][device] == links[as_before][other]
            for before, as_before in enumerate(chosen)
        )
