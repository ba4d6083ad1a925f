"""Actors: objects that are asked and answer, in other processes of this machine or on a Ray cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

#: What stands for an answer that may not be there yet.
Pending: TypeAlias = Any


class ActorLostError(Exception):
    """An actor has died; the message says how: "was killed by signal 9"."""


class Actor(Protocol):
    def ask(self, question: str, *arguments: Any) -> Pending:
        """Calls its method of that name. It is asked again when it has answered."""
        ...


class Actors(ABC):
    """Makes them and waits for them; at its end none is left.

    seconds_to_start: how long a new one is waited for at most; None without end.
    """

    seconds_to_start: float | None = None

    @property
    def needed_to_start(self) -> str:
        """What a new one waits for, as a noun."""
        return ""

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    @abstractmethod
    def make(self, kind: Callable[..., Any], *arguments: Any) -> Actor:
        """An actor that is kind(*arguments). Raises InputError where there cannot be one more."""

    @abstractmethod
    def get(self, pending: Pending) -> Any:
        """The answer, when it is there. What goes wrong in an actor is raised here as itself, a death as
        ActorLostError."""

    @abstractmethod
    def first(self, pending: Sequence[Pending], seconds: float | None = None) -> int | None:
        """Which of them is there first, or will never be; None where none is in that time."""

    def shared(self, value: Any) -> Any:
        """As an argument for several of them, that is sent once to each machine."""
        return value

    def starting(self, actor: Actor) -> Pending | None:
        """There when the actor can answer; None where it need not be waited for."""
        return None

    def wait_for_start(self, actors: Sequence[Actor]) -> None:
        """Until they can answer. Raises PlacewrightError when one does not start."""
        return

    def end(self, actor: Actor) -> None:
        """Ends it, whatever it does."""
        return


def in_order(
    actors: Actors, workers: Sequence[Actor], question: str, shared: Any, jobs: Sequence[Any]
) -> Iterator[Any]:
    """Answers to question(shared, job), in the order of the jobs. Each of the workers has one at a time."""
    idle, waiting = list(workers), deque(enumerate(jobs))
    asked: list[tuple[int, Actor, Pending]] = []
    answers: dict[int, Any] = {}
    for number in range(len(jobs)):
        while number not in answers:
            while idle and waiting:
                which, job = waiting.popleft()
                asked.append((which, worker := idle.pop(), worker.ask(question, shared, job)))
            place = actors.first([pending for *_, pending in asked])
            assert place is not None
            which, worker, pending = asked.pop(place)
            answers[which] = actors.get(pending)
            idle.append(worker)
        yield answers.pop(number)
