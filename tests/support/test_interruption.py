"""Ctrl-C during work that can be cut short."""

import os
import signal
import sys
from collections.abc import Callable, Iterator

import pytest

from placewright.support.interruption import Interruption, until_interrupted


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def interrupted() -> Iterator[Interruption]:
    before = signal.getsignal(signal.SIGINT), sys.unraisablehook
    with Interruption() as noted:
        yield noted
    assert (signal.getsignal(signal.SIGINT), sys.unraisablehook) == before


def test_the_first_is_noted_once_a_search_asks_and_the_second_aborts(interrupted: Interruption) -> None:
    assert not interrupted()
    ctrl_c()
    assert interrupted()
    with pytest.raises(KeyboardInterrupt):
        ctrl_c()


def test_before_anybody_asks_there_is_nothing_to_keep(interrupted: Interruption) -> None:
    with pytest.raises(KeyboardInterrupt):
        ctrl_c()


def test_what_runs_until_then_ends_where_it_is_and_no_more(interrupted: Interruption) -> None:
    done = []
    with until_interrupted(interrupted):
        for number in range(3):
            with until_interrupted(interrupted):
                ctrl_c()
                done.append(-1)
            done.append(number)
            if interrupted():
                break
    assert done == [0]
    with pytest.raises(KeyboardInterrupt), until_interrupted(interrupted):
        ctrl_c()


class Swallowing:
    """An object that calls a function when it is collected, where Python only prints exceptions."""

    def __init__(self, at_the_end: Callable[[], None]) -> None:
        self.at_the_end = at_the_end

    def __del__(self) -> None:
        self.at_the_end()


def test_one_that_a_destructor_swallows_comes_again(
    interrupted: Interruption, capsys: pytest.CaptureFixture[str]
) -> None:
    reached = False
    with until_interrupted(interrupted):
        Swallowing(ctrl_c)
        while True:
            reached = True
    assert reached
    assert capsys.readouterr().err == ""
