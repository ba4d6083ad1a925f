"""Plans that differ only in the names of equal devices are the same plan: the renaming that keeps most ops in place."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from placewright.plans.record import Plan

#: Partial renamings looked at; without an end only where many devices are equal and the plans have little in common.
_MAX_TRIED = 20_000


def best_renaming(first: Plan, second: Plan) -> tuple[int, ...]:
    """For each device of the second plan the device of the first that it counts as; itself where nothing is gained.

    Only devices change places that no plan can tell apart: equal but for their names, with equal limits and links. Of
    more devices than can be tried in full it is the best one found. Empty for plans of two machines.
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
        """chosen: what the first devices count as. kept: ops that stay where they are with these."""
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
        """Whether the last of them can count as what was chosen for it, beside those before it."""
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
