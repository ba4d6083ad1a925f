"""Devices of this host with their threads, shared by the calls of compiled modules.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from placewright.api.profiles import Profile
from placewright.execution.pytorch.cuda import places_of
from placewright.execution.pytorch.machine import cores_by_device
from placewright.execution.pytorch.places import Place
from placewright.execution.workers import Workers
from placewright.machine import Machine


class Devices:
    """Devices of this host with their threads: all graphs for them take turns there."""

    def __init__(self, machine: Machine, profile: Profile) -> None:
        self.machine = machine
        self.profile = profile
        self._start()

    def _start(self) -> None:
        self.places: list[Place] = places_of([device.name for device in self.machine.devices])
        self.workers = Workers(cores_by_device(self.machine))
        self._flushes = _flushes_denormals()

    def compute_as_caller(self) -> None:
        """Closes the threads when the caller's setting for denormal numbers has changed; new threads inherit it."""
        if self._flushes != (flushes := _flushes_denormals()):
            self.workers.close()
            self._flushes = flushes

    def __getstate__(self) -> dict[str, Any]:
        """The state without places and threads, which each process has for itself."""
        return {"machine": self.machine, "profile": self.profile}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Finds the places of these devices in this process."""
        vars(self).update(state)
        self._start()

    @property
    def on_host(self) -> bool:
        """True if all of them are CPU devices."""
        return all(place.driver is None for place in self.places)

    def hold(self, value: Any) -> bool:
        """True if a tensor of a call lies on the only device, where its caller holds it; others are copied there."""
        driver = self.places[0].driver
        return len(self.places) == 1 and (driver is None or driver.holds(value))

    @property
    def is_recorded(self) -> bool:
        """True if steps are replays of a CUDA graph."""
        return self.machine.launch == "graphs"


def _flushes_denormals() -> bool:
    """True if this thread flushes denormal numbers to zero: torch.set_flush_denormal."""
    return sys.float_info.min / 2 == 0.0
