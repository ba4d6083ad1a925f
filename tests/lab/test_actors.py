"""Actors in other processes: answers in the order of the jobs, errors as themselves, deaths reported."""

from __future__ import annotations

import os
import signal
import time

import pytest

from placewright.lab.processes import ActorLostError, ProcessActor, ProcessActors, in_order
from placewright.support.errors import InputError


class TwoWordsError(Exception):
    """An error that no other process can rebuild from its message alone."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


class Doubler:
    def __init__(self, factor: int = 2) -> None:
        if factor < 0:
            raise InputError(f"a factor of {factor}")
        self.factor = factor

    def times(self, plus: int, number: int) -> int:
        time.sleep(0.05 if number == 0 else 0)  # the first answers last
        return self.factor * number + plus

    def fail(self) -> None:
        raise IndexError("no such job")

    def fail_in_two_words(self) -> None:
        raise TwoWordsError("no", "job")

    def fail_with_a_function(self) -> None:
        error = ValueError("no job")
        error.reason = lambda: "no job"  # type: ignore[attr-defined]
        raise error

    def function(self) -> object:
        return lambda: None

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def ask(actors: ProcessActors, actor: ProcessActor, question: str) -> None:
    actors.get(actor.ask(question))


def test_answers_come_in_the_order_of_the_jobs() -> None:
    with ProcessActors() as actors:
        workers = [actors.make(Doubler, 3) for _ in range(2)]
        assert list(in_order(actors, workers, "times", 1, range(5))) == [1, 4, 7, 10, 13]
        assert list(in_order(actors, workers, "times", 1, [])) == []


def test_what_goes_wrong_in_a_process_is_raised_as_itself_and_a_death_says_how() -> None:
    with ProcessActors() as actors:
        worker, wrong = actors.make(Doubler), actors.make(Doubler, -1)
        with pytest.raises(IndexError, match="no such job") as error:
            ask(actors, worker, "fail")
        assert "in fail" in error.value.__notes__[0]
        assert actors.get(worker.ask("times", 0, 4)) == 8  # it lives on
        with pytest.raises(InputError, match="a factor of -1"):
            ask(actors, wrong, "times")
        with pytest.raises(ActorLostError, match="was killed by signal 9"):
            ask(actors, worker, "die")
        with pytest.raises(ActorLostError, match="was killed by signal 9"):
            ask(actors, worker, "times")  # nobody is there to ask
        actors.end(worker)
        assert actors.first([wrong.ask("times", 0, 1)], 60) == 0


def test_what_cannot_be_sent_is_told_and_costs_no_process() -> None:
    with ProcessActors() as actors:
        worker = actors.make(Doubler)
        with pytest.raises(RuntimeError, match="TwoWordsError: no job") as error:
            ask(actors, worker, "fail_in_two_words")
        assert "in fail_in_two_words" in error.value.__notes__[0]
        with pytest.raises(RuntimeError, match="ValueError: no job"):
            ask(actors, worker, "fail_with_a_function")
        with pytest.raises(AttributeError, match="pickle"):
            ask(actors, worker, "function")
        assert actors.get(worker.ask("times", 0, 4)) == 8
