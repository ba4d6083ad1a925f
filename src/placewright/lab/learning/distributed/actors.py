"""Actors: objects that are asked and answer, in this process or elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

#: What stands for an answer that may not be there yet; given as an argument, the actor gets the answer itself.
Pending: TypeAlias = Any


class ActorLostError(Exception):
    """An actor has died and is not replaced, or what it made is gone with it."""


class Actor(Protocol):
    def ask(self, question: str, *arguments: Any, answers: int = 1) -> Pending:
        """Calls its method of that name. answers: how many values come back, each pending for itself where there are
        several."""
        ...

    def collected(self, pending: Sequence[Pending]) -> list[Any]:
        """Answers of any actors of this kind, when all are there."""
        ...


class Actors(ABC):
    """Makes them and waits for them; at its end none is left. What goes wrong in an actor is raised here; a death is
    ActorLostError."""

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    @abstractmethod
    def shared(self, value: Any) -> Any:
        """As an argument for several of them, that is sent once."""

    @abstractmethod
    def make(self, kind: Callable[..., Any], *arguments: Any, replaced: bool = True) -> Actor:
        """An actor that is kind(*arguments). replaced: made anew where its process dies, and asked again."""

    @abstractmethod
    def wait_for_start(self) -> None:
        """Until all that were made can answer. Raises PlacewrightError when one does not start."""

    @abstractmethod
    def get(self, pending: Pending) -> Any:
        """The answer, when it is there."""

    @abstractmethod
    def first(self, pending: Sequence[Pending]) -> int:
        """Which of them is there first."""


class LocalActors(Actors):
    """Objects of this process; each answers before the next is asked."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def shared(self, value: Any) -> Any:
        return value

    def make(self, kind: Callable[..., Any], *arguments: Any, replaced: bool = True) -> Actor:
        return _LocalActor(kind(*arguments))

    def wait_for_start(self) -> None:
        pass

    def get(self, pending: Pending) -> Any:
        return pending

    def first(self, pending: Sequence[Pending]) -> int:
        return 0


class _LocalActor:
    def __init__(self, content: Any) -> None:
        self._content = content

    def ask(self, question: str, *arguments: Any, answers: int = 1) -> Pending:
        return getattr(self._content, question)(*arguments)

    def collected(self, pending: Sequence[Pending]) -> list[Any]:
        return list(pending)
