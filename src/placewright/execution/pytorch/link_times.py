"""Times to bring a tensor from one place to another, where one of them is a stream of an accelerator.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median

import torch

from placewright.execution.comparison import times_in_turn
from placewright.execution.pytorch.handing import handing
from placewright.execution.pytorch.layout import moved
from placewright.execution.pytorch.places import Driver, Place, finish_current
from placewright.execution.pytorch.recorded import the_driver
from placewright.machine import Link

_SMALL, _LARGE, _REPETITIONS = 2**10, 2**24, 9
#: Ops of a recorded chain.
_CHAIN = 200


def links_between(places: Sequence[Place], on_host: Link, *, recorded: bool = False) -> tuple[tuple[Link, ...], ...]:
    """The links of every pair of places. on_host: between two threads of the host. recorded: whether steps will be
    replays of a CUDA graph, on streams of one GPU."""
    if recorded:
        return _recorded_links(places)
    return tuple(
        tuple(
            on_host if source.driver is None and destination.driver is None else _link(source, destination)
            for destination in places
        )
        for source in places
    )


def _link(source: Place, destination: Place) -> Link:
    if source is destination:
        return Link()
    small, large = (_one_way_ns(source, destination, size) for size in (_SMALL, _LARGE))
    stays = source.driver is destination.driver
    return Link(
        latency_ns=int(small),
        bandwidth_bytes_per_s=None if stays else 1e9 * (_LARGE - _SMALL) / max(1.0, large - small),
    )


def _recorded_links(places: Sequence[Place]) -> tuple[tuple[Link, ...], ...]:
    """The links of recorded steps: tensors stay where they are, and waiting for another stream takes the same for any
    two."""
    if len(places) < 2:
        return tuple((Link(),) for _ in places)
    driver = the_driver(places)
    alone, in_turn = _chain_ns(driver, places[0], places[0]), _chain_ns(driver, places[0], places[1])
    link = Link(latency_ns=round(max(0.0, in_turn - alone) / _CHAIN))
    return tuple(tuple(Link() if one is other else link for other in places) for one in places)


def _chain_ns(driver: Driver, *places: Place) -> float:
    """The time of a recorded chain of small ops, alternating between two places; the median of some."""
    tensor = moved(torch.zeros(_SMALL), driver.brought)

    def launch() -> None:
        event = driver.recorded(driver.current_stream())
        for number in range(_CHAIN):
            place = places[number % 2]
            with driver.on(place.stream):
                driver.wait(place.stream, event)
                tensor.add_(1)
                event = driver.recorded(place.stream)
        driver.wait(driver.current_stream(), event)

    replay, _ = driver.recording(launch)

    def chain() -> None:
        replay()
        finish_current(places)

    return median(*times_in_turn([chain], _REPETITIONS))


def _one_way_ns(source: Place, destination: Place, size: int) -> float:
    """The time from a finished tensor to a readable one, with a thread that waits for both; the median of some."""
    what = handing(source, destination)
    send, take = what.send, what.take
    assert send is not None
    assert take is not None
    tensor = torch.zeros(size, dtype=torch.uint8)

    def hand_over() -> None:
        take(send(tensor))
        destination.finish()

    with ExitStack() as stack:
        for place in (destination, source):
            if place.driver is not None:
                stack.enter_context(place.driver.on(place.stream))
        if source.driver is not None:
            tensor = moved(tensor, source.driver.brought)
            source.finish()
        return median(*times_in_turn([hand_over], _REPETITIONS))
