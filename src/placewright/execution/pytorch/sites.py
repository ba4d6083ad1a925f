"""What the code of a device is bound to: its place, how tensors come and go, constants in its memory, and its calls.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from placewright.execution.pytorch.fallback import Fallbacks
from placewright.execution.pytorch.handing import Handing, handing
from placewright.execution.pytorch.layout import moved
from placewright.execution.pytorch.moves import moves
from placewright.execution.pytorch.places import Place
from placewright.execution.pytorch.program import TorchProgram
from placewright.execution.pytorch.residents import Residents


class Sites:
    """The sites of all devices of a plan."""

    def __init__(
        self, program: TorchProgram, places: Sequence[Place], residents: Residents, fallbacks: Fallbacks
    ) -> None:
        self.program = program
        self.places = places
        self.residents = residents
        self.fallbacks = fallbacks
        self._handings: dict[tuple[int, int], Handing] = {}

    def handing(self, source: int, destination: int) -> Handing:
        """From one device to another; the same for both of them."""
        if (source, destination) not in self._handings:
            self._handings[source, destination] = handing(self.places[source], self.places[destination])
        return self._handings[source, destination]


class Site:
    """That of one device."""

    def __init__(self, sites: Sites, device: int) -> None:
        self._sites = sites
        self._device = device
        self.place = sites.places[device]
        self.moves = moves(self.place)

    def handing_to(self, destination: int) -> Handing:
        """What this device does to hand something over."""
        return self._sites.handing(self._device, destination)

    def handing_from(self, source: int) -> Handing:
        """What it does to take something."""
        return self._sites.handing(source, self._device)

    def constant(self, tensor: int) -> Any:
        """A constant of the program, in the memory of this device."""
        return self._sites.residents.constant(tensor, self.place.driver)

    def function(self, op: int) -> Callable[..., Any]:
        """What an op's call runs here."""
        return self._sites.fallbacks.function(op, self.place)

    def device(self, named: torch.device) -> torch.device:
        """Where an op that names a device makes its result: here, wherever that was when it was traced."""
        return named if named.type == "meta" else self.place.device

    def brings(self) -> Callable[[Any], Any] | None:
        """What fetches an input of the program; None where it may be read as it is."""
        driver, stream = self.place.driver, self.place.stream
        if driver is None:
            return None

        def bring(tensor: Any) -> Any:
            if not driver.holds(tensor):
                return moved(tensor, driver.brought)
            driver.keep(tensor, stream)
            return tensor

        return bring
