"""Captures in processes of their own, one of which dies."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from placewright.lab.datasets.zoo import pool
from placewright.lab.datasets.zoo.network import Network
from placewright.lab.datasets.zoo.pool import Captured, CapturingProcess, Task, capture_all


def unbuildable() -> tuple[Network, ...]:
    def build() -> Any:
        raise RuntimeError("no such layer")

    return (Network(name="broken", family="test", library="placewright", build=build, modes=("inference",)),)


def slow() -> tuple[Network, ...]:
    def build() -> Any:
        time.sleep(3)
        raise RuntimeError("built for nothing")

    return (Network(name="slow", family="test", library="placewright", build=build, modes=("inference",)),)


def deadly() -> tuple[Network, ...]:
    """Ends any process that asks but the one the tests run in."""
    if multiprocessing.parent_process() is not None:
        os._exit(9)
    return (
        Network(name="deadly", family="test", library="placewright", build=lambda: (None, ()), modes=("training",)),
    )


class Crowded(CapturingProcess):
    """Stands for a process that dies in a training step while another captures an inference."""

    running: ClassVar[list[str]] = []
    begun, died, again = threading.Event(), threading.Event(), threading.Event()

    def call(self, function: Callable[..., Captured], *arguments: Any) -> Captured | None:
        mode = arguments[0].mode
        self.running.append(mode)
        try:
            if mode == "inference":
                self.begun.set()
                self.died.wait(30)
                self.again.wait(0.2)  # which nobody says before this ends
            elif not self.died.is_set():
                self.begun.wait(30)
                self.died.set()
                return None
            else:
                self.again.set()
                assert self.running == ["training"]
            return function(*arguments)
        finally:
            self.running.remove(mode)


def test_a_network_whose_process_died_is_tried_once_more_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "CapturingProcess", Crowded)
    tasks = [
        Task(networks=unbuildable, index=0, mode="training"),
        Task(networks=unbuildable, index=0, mode="inference"),
    ]
    tried_again, other = capture_all(tasks, 2)
    assert tried_again.failure == "network 'broken' cannot be captured for training: no such layer"
    assert other.failure == "network 'broken' cannot be captured for inference: no such layer"


def test_a_process_that_dies_fails_one_network_and_the_rest_goes_on_in_order() -> None:
    tasks = [Task(networks=deadly, index=0, mode="training"), Task(networks=unbuildable, index=0, mode="inference")]
    died, failed = capture_all(tasks, 2)
    assert died.failure == (
        "network 'deadly' cannot be captured for training: its process died, perhaps for want of memory"
    )
    assert failed.failure == "network 'broken' cannot be captured for inference: no such layer"


@pytest.mark.long  # Every process imports PyTorch and five libraries.
def test_who_was_only_waited_for_when_another_died_is_captured_alone() -> None:
    tasks = [Task(networks=slow, index=0, mode="inference"), Task(networks=deadly, index=0, mode="training")]
    waited_for, died = capture_all(tasks, 2)
    assert waited_for.failure == "network 'slow' cannot be captured for inference: built for nothing"
    assert "its process died" in died.failure
