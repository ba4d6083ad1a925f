"""Threads of devices: pinned, as wide as their cores, and gone when they should be."""

import os
import threading
from collections.abc import Callable

import pytest
import torch

from placewright.execution.devices import available_cores, cores_of
from placewright.execution.workers import Workers


def nothing() -> None:
    """Nobody has to be stopped."""


def asked(workers: Workers, count: int, question: Callable[[], object]) -> list[object]:
    """What each device answers."""
    answers: list[object] = [None] * count

    def job(number: int) -> Callable[[], None]:
        def ask() -> None:
            answers[number] = question()

        return ask

    workers.run([job(number) for number in range(count)], nothing)
    return answers


def test_each_device_has_its_share_of_the_cores() -> None:
    cores = available_cores()
    for count in range(1, len(cores) + 1):
        shares = cores_of(count)
        assert len({len(share) for share in shares}) == 1
        assert len(frozenset[int]().union(*shares)) == sum(len(share) for share in shares)
    workers = Workers(cores_of(len(cores)))
    assert asked(workers, len(cores), lambda: os.sched_getaffinity(0)) == [{core} for core in cores]
    workers.close()


def test_a_device_of_one_core_computes_with_one_thread_whatever_the_process_has() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    workers = Workers([frozenset(available_cores()[:1])])
    image, kernel = torch.ones(2, 16, 32, 32), torch.ones(16, 16, 3, 3)

    def threads_after_a_convolution() -> int:
        with torch.no_grad():
            torch.conv2d(image, kernel)
        return int(torch.get_num_threads())

    asked(workers, 1, threads_after_a_convolution)
    running = len(os.listdir("/proc/self/task"))
    assert asked(workers, 1, threads_after_a_convolution) == [1]
    assert len(os.listdir("/proc/self/task")) == running
    assert torch.get_num_threads() == 2
    workers.close()
    torch.set_num_threads(before)


def test_the_first_error_is_raised_and_the_others_are_stopped() -> None:
    workers = Workers([frozenset(available_cores()[:1])] * 3)
    stopped = threading.Event()

    def fails() -> None:
        raise ValueError("the second device")

    def waits() -> None:
        assert stopped.wait(60)

    with pytest.raises(ValueError, match="the second device"):
        workers.run([waits, fails, waits], stopped.set)
    assert asked(workers, 3, lambda: 1) == [1, 1, 1]
    workers.close()


def test_workers_run_in_a_forked_process_and_after_their_end() -> None:
    workers = Workers([frozenset(available_cores()[:1])] * 2)
    assert asked(workers, 2, os.getpid) == [os.getpid()] * 2
    child = os.fork()
    if child == 0:
        os._exit(0 if asked(workers, 2, os.getpid) == [os.getpid()] * 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    workers.close()
    assert asked(workers, 2, os.getpid) == [os.getpid()] * 2
    workers.close()
