"""Handing of tensors and signals from one place to another.

A copy runs on streams of its own, concurrently with the ops of both devices: it waits for the event that its source has
recorded behind the op that makes the tensor, and readers of the copy wait for the event behind it. The allocator is
informed of every stream that uses a tensor besides the one it was made on. Imported only where torch is known to be
present.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from placewright.execution.pytorch.layout import moved
from placewright.execution.pytorch.places import Driver, Place

#: A tensor at its destination, and the event behind its copy.
Sent = tuple[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Handing:
    """The functions that two devices call to hand something over; None where there is nothing to do.

    send, signal: called by the source's thread, with a tensor, and with nothing; they return what is handed over. take,
    heed: called by the destination's thread with that.
    """

    send: Callable[[Any], Any] | None = None
    take: Callable[[Any], Any] | None = None
    signal: Callable[[], Any] | None = None
    heed: Callable[[Any], None] | None = None


def handing(source: Place, destination: Place) -> Handing:
    """The handing from one place to another."""
    if source.driver is None:
        return Handing() if destination.driver is None else _up(destination)
    if destination.driver is None:
        return _down(source, source.driver)
    return _beside(source, source.driver, destination, destination.driver)


def _up(destination: Place) -> Handing:
    """The handing from the host: its thread launches the copy, and goes on."""
    driver = _driver(destination)
    arrivals = driver.new_stream()

    def send(tensor: Any) -> Sent:
        with driver.on(arrivals):
            return moved(tensor, driver.brought), driver.recorded(arrivals)

    # A host's op is done when its thread reaches the signal.
    return Handing(send=send, take=_taking(destination))


def _down(source: Place, driver: Driver) -> Handing:
    """The handing to the host, whose thread waits for the copy."""

    def send(tensor: Any) -> Sent:
        driver.wait(source.copies, driver.recorded(source.stream))
        with driver.on(source.copies):
            copy = moved(tensor, driver.sent_home)
        driver.keep(tensor, source.copies)
        return copy, driver.recorded(source.copies)

    def take(sent: Sent) -> Any:
        copy, done = sent
        source.finish(done)  # The host's thread may be the first to see that the source has failed.
        return copy

    return Handing(send=send, take=take, signal=lambda: driver.recorded(source.stream), heed=source.finish)


def _beside(source: Place, driver: Driver, destination: Place, other: Driver) -> Handing:
    """The handing from stream to stream. On one accelerator the tensor stays where it is."""
    arrivals = None if other is driver else other.new_stream()

    def send(tensor: Any) -> Sent:
        if arrivals is None:
            return tensor, driver.recorded(source.stream)
        driver.wait(source.copies, driver.recorded(source.stream))
        # PyTorch copies between two devices on the current streams of both, so that each waits for the other.
        with other.on(arrivals), driver.on(source.copies):
            copy = moved(tensor, other.brought)
        driver.keep(tensor, source.copies)
        return copy, other.recorded(arrivals)

    def signal() -> Any:
        return driver.recorded(source.stream)

    def heed(event: Any) -> None:
        other.wait(destination.stream, event)

    return Handing(send=send, take=_taking(destination), signal=signal, heed=heed)


def _taking(destination: Place) -> Callable[[Sent], Any]:
    driver = _driver(destination)

    def take(sent: Sent) -> Any:
        tensor, done = sent
        driver.wait(destination.stream, done)
        driver.keep(tensor, destination.stream)
        return tensor

    return take


def _driver(place: Place) -> Driver:
    assert place.driver is not None
    return place.driver
