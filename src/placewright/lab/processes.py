"""Actors: objects in other processes of this machine that answer questions and end with this process."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from types import TracebackType
from typing import Any, Self

from placewright.support.errors import InputError

#: Read by OpenBLAS, which is part of numpy's wheels.
_THREADS_FOR_PRODUCTS = "OPENBLAS_NUM_THREADS"
#: Held while a process starts, as the environment belongs to the whole program.
_STARTING = threading.Lock()


class ActorLostError(Exception):
    """An actor has died; the message says how: "was killed by signal 9"."""


class ProcessActors:
    """Processes that are spawned, as PyTorch does not survive a fork among its threads, and that end with this one.
    Each has a pipe of its own, so that the death of one is noticed."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._made: list[ProcessActor] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for actor in self._made:
            actor.process.terminate()
        while self._made:
            self.end(self._made[-1])

    def make(self, kind: Callable[..., Any], *arguments: Any) -> ProcessActor:
        """Start an actor: kind(*arguments) in another process. Raises InputError where no more can be started."""
        try:
            # Otherwise the first process would start it, and thereby unblock Ctrl-C.
            start_resource_tracker()
            ours, theirs = self._context.Pipe()
            process = self._context.Process(target=_serve, args=(kind, arguments, theirs), daemon=True)
            with _STARTING, theirs, _interrupts_blocked(), _one_thread_for_products():
                process.start()
        except OSError as error:
            raise InputError(f"cannot start another worker: {error.strerror}") from error
        self._made.append(actor := ProcessActor(process, ours))
        return actor

    def get(self, pending: ProcessActor) -> Any:
        """Wait for the answer and return it. Re-raises an actor's exception; raises ActorLostError if the actor
        died."""
        return pending.answer()

    def first(self, pending: Sequence[ProcessActor], seconds: float | None = None) -> int | None:
        """Return the index of the first that has answered or died; None where none has within that time."""
        ready = wait([actor.connection for actor in pending], seconds)
        return next((place for place, actor in enumerate(pending) if actor.connection in ready), None)

    def end(self, actor: ProcessActor) -> None:
        """End the actor, even at work."""
        self._made.remove(actor)
        actor.process.terminate()
        actor.process.join()
        actor.connection.close()


class ProcessActor:
    """A process that is also the handle of its pending answer."""

    def __init__(self, process: BaseProcess, connection: Connection) -> None:
        self.process, self.connection = process, connection

    def ask(self, question: str, *arguments: Any) -> ProcessActor:
        """Call the actor's method of that name. Ask again only after it has answered."""
        with suppress(BrokenPipeError, ConnectionResetError):  # `answer` reports that it died
            self.connection.send((question, arguments))
        return self

    def answer(self) -> Any:
        try:
            answer, error = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            code = self.process.exitcode or 0
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise ActorLostError(how) from None
        if error is not None:
            raise error
        return answer


def in_order(
    actors: ProcessActors, workers: Sequence[ProcessActor], question: str, shared: Any, jobs: Sequence[Any]
) -> Iterator[Any]:
    """Yield the answers to question(shared, job), in the order of the jobs. Each worker has one job at a time."""
    idle, waiting = list(workers), deque(enumerate(jobs))
    asked: list[tuple[int, ProcessActor, ProcessActor]] = []
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


def _serve(kind: Callable[..., Any], arguments: tuple[Any, ...], connection: Connection) -> None:
    """Run as the main function of a process: answer questions until the parent ends it."""
    # The parent gets Ctrl-C too and ends its processes; until here they were started with it blocked.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    end_with_parent()
    content: Any = None
    try:
        while True:
            question, asked = connection.recv()
            try:
                content = kind(*arguments) if content is None else content
                answered = ForkingPickler.dumps((getattr(content, question)(*asked), None))
            except Exception as error:
                failure = _sendable(error)
                failure.add_note(traceback.format_exc())
                answered = ForkingPickler.dumps((None, failure))
            connection.send_bytes(answered)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the parent is gone


def _sendable(error: Exception) -> Exception:
    """Return the error; where another process could not unpickle it, a RuntimeError with the same text."""
    try:
        pickle.loads(ForkingPickler.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C: processes started in this context do not get it until they unblock it; this process gets it at the
    end."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _one_thread_for_products() -> Iterator[None]:
    """Limit matrix products of processes started in this context to one thread: more threads would count as processor
    time while they wait, and slow another worker that is measured."""
    before = os.environ.get(_THREADS_FOR_PRODUCTS)
    os.environ[_THREADS_FOR_PRODUCTS] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_THREADS_FOR_PRODUCTS]
        else:
            os.environ[_THREADS_FOR_PRODUCTS] = before


def end_with_parent() -> None:
    """End this process when its parent is gone, for whatever reason: nobody would receive the results of a run of
    hours."""
    if (parent := multiprocessing.parent_process()) is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def start_resource_tracker() -> None:
    """Start the process in which Python frees the semaphores of killed processes, without its warning about their
    number."""
    sys.warnoptions.append("ignore:resource_tracker:UserWarning")  # becomes an argument of that process
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.pop()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
