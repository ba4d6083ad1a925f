"""Captures in processes of their own, one of which dies."""

from __future__ import annotations

import multiprocessing
import os
import time
from typing import Any

import pytest

from placewright.lab.datasets.zoo.network import Network
from placewright.lab.datasets.zoo.pool import Task, capture_all


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


def test_a_process_that_dies_fails_one_network_and_the_rest_goes_on_in_order() -> None:
    tasks = [
        Task(networks=deadly, index=0, mode="training"),
        Task(networks=unbuildable, index=0, mode="inference"),
    ]
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
