"""The part that all models share: the device of each op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from placewright.lab.peers.cp_sat.structure import Expression, Structure, Value

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel


class Placement:
    """Literals on[op][device], one per allowed device, shared by the ops of a group; exactly one of them is true."""

    def __init__(self, model: CpModel, structure: Structure) -> None:
        self._structure = structure
        self.on: list[dict[int, Expression]] = []
        of_group: dict[int, dict[int, Expression]] = {}
        for op, first in enumerate(structure.group):
            if first not in of_group:
                of_group[first] = device_literals(model, self._devices(op, len(of_group)))
            self.on.append(of_group[first])
        self._of_group = of_group

    def _devices(self, op: int, num_before: int) -> list[int]:
        """Return the devices of a group. If devices are alike, the first group gets the first, the second one of the
        first two, and so on."""
        allowed = self._structure.allowed[op]
        return allowed[: num_before + 1] if self._structure.devices_are_alike else allowed

    def hint(self, model: CpModel, device_of: Sequence[int]) -> list[int]:
        """Hint a placement and return it; devices that are alike are renamed as the model requires."""
        new_name = list(range(self._structure.num_devices))
        if self._structure.devices_are_alike:
            seen = dict.fromkeys(device_of[first] for first in self._of_group)
            rest = [d for d in new_name if d not in seen]
            new_name = [0] * len(new_name)
            for number, device in enumerate([*seen, *rest]):
                new_name[device] = number
        renamed = [new_name[device] for device in device_of]
        for first, literals in self._of_group.items():
            device = renamed[first]
            if len(literals) == 2:
                model.add_hint(literals[max(literals)], device == max(literals))
            elif len(literals) > 2:
                for d, literal in literals.items():
                    model.add_hint(literal, d == device)
        return renamed

    def device_of(self, value: Value) -> list[int]:
        return [next(d for d, literal in own.items() if value(literal)) for own in self.on]


def device_literals(model: CpModel, devices: Sequence[int]) -> dict[int, Expression]:
    """Return a literal per device; exactly one of them is true."""
    if len(devices) == 1:
        return {devices[0]: model.new_constant(1)}
    if len(devices) == 2:
        second = model.new_bool_var("")
        return {devices[0]: ~second, devices[1]: second}
    literals = {device: model.new_bool_var("") for device in devices}
    model.add_exactly_one(literals.values())
    return literals
