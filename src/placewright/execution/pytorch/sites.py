"""The objects that the code of a device uses: its place, handing of tensors, constants in its memory, and its calls.

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
        """The handing from one device to another; the same for both of them."""
        if (source, destination) not in self._handings:
            self._handings[source, destination] = handing(self.places[source], self.places[destination])
        return self._handings[source, destination]


class Site:
    """The site of one device."""

    def __init__(self, sites: Sites, device: int) -> None:
        self._sites = sites
        self._device = device
        self.place = sites.places[device]
        self.moves = moves(self.place)

    def handing_to(self, destination: int) -> Handing:
        """The functions by which this device hands something over."""
        return self._sites.handing(self._device, destination)

    def handing_from(self, source: int) -> Handing:
        """The functions by which this device takes something."""
        return self._sites.handing(source, self._device)

    def constant(self, tensor: int) -> Any:
        """A constant of the program, in the memory of this device."""
        return self._sites.residents.constant(tensor, self.place.driver)

    def function(self, op: int) -> Callable[..., Any]:
        """The function for an op's call on this device."""
        return self._sites.fallbacks.function(op, self.place)

    def device(self, named: torch.device) -> torch.device:
        """The device on which an op that names one makes its result: this one, whichever was traced."""
        return named if named.type == "meta" else self.place.device

    def brings(self) -> Callable[[Any], Any] | None:
        """A function that fetches an input of the program; None where inputs can be read as they are."""
        driver, stream = self.place.driver, self.place.stream
        if driver is None:
            return None

        def bring(tensor: Any) -> Any:
            if not driver.holds(tensor):
                return moved(tensor, driver.brought)
            driver.keep(tensor, stream)
            return tensor

        return bring
