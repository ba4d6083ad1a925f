"""Moves of tensors between a device and the host's memory, concurrent with the device's ops.

Memory on the device is freed when its stream has waited for the copy, and allocated anew on that stream: so the
allocator never has to ask whether another stream is done, and what is in use follows the plan. Imported only where
torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from placewright.execution.pytorch.layout import moved
from placewright.execution.pytorch.places import Place, too_little_memory

#: A tensor in the host's memory, or on its way back, and the event behind the copy; None where it was there before.
Copied = tuple[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Moves:
    """The functions that the thread of a device calls.

    leave: begins to copy a tensor to the host's memory. left: what is launched from now on runs when that is done.
    fetch: begins to bring a copy back. arrived: the tensor; what is launched from now on runs when it is there.
    """

    leave: Callable[[Any], Copied]
    left: Callable[[Copied], None]
    fetch: Callable[[Copied], Copied]
    arrived: Callable[[Copied], Any]


def moves(place: Place) -> Moves:
    """The functions for a place; on cores of the host a move is a copy."""
    driver = place.driver
    if driver is None:
        return Moves(
            leave=lambda tensor: (moved(tensor, torch.clone), None),
            left=lambda _: None,
            fetch=lambda copied: (moved(copied[0], torch.clone), None),
            arrived=lambda copied: copied[0],
        )

    def leave(tensor: Any) -> Copied:
        driver.wait(place.copies, driver.recorded(place.stream))
        with driver.on(place.copies), too_little_memory(f"the host has too little memory for what {place.name} moves"):
            copy = moved(tensor, driver.sent_home)
        return copy, driver.recorded(place.copies)

    def left(copied: Copied) -> None:
        driver.wait(place.stream, copied[1])

    def fetch(copied: Copied) -> Copied:
        copy, done = copied

        def bring(row: Any) -> Any:
            room = driver.room_for(row)
            driver.wait(place.arrivals, driver.recorded(place.stream))
            if done is not None:
                driver.wait(place.arrivals, done)
            with driver.on(place.arrivals):
                driver.fill(room, row)
            return room

        return moved(copy, bring), driver.recorded(place.arrivals)

    def arrived(copied: Copied) -> Any:
        tensor, done = copied
        driver.wait(place.stream, done)
        return tensor

    return Moves(leave=leave, left=left, fetch=fetch, arrived=arrived)
