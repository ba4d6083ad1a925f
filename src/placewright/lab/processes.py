"""Actors: objects that are asked and answer, in other processes of this machine, which end with it."""

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

#: Read by OpenBLAS, which numpy's wheels come with.
_THREADS_FOR_PRODUCTS = "OPENBLAS_NUM_THREADS"
#: Held while a process starts, as the environment is the whole program's.
_STARTING = threading.Lock()


class ActorLostError(Exception):
    """An actor has died; the message says how: "was killed by signal 9"."""


class ProcessActors:
    """Processes that start afresh, as PyTorch does not survive a fork amid its threads, and end with this one. Each
    stands behind a pipe of its own, so that one that dies is known."""

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
        """An actor that is kind(*arguments). Raises InputError where there cannot be one more."""
        try:
            # The first process would start it, and with it hear Ctrl-C again.
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
        """The answer, when it is there. What goes wrong in an actor is raised here as itself, a death as
        ActorLostError."""
        return pending.answer()

    def first(self, pending: Sequence[ProcessActor], seconds: float | None = None) -> int | None:
        """Which of them is there first, or will never be; None where none is in that time."""
        ready = wait([actor.connection for actor in pending], seconds)
        return next((place for place, actor in enumerate(pending) if actor.connection in ready), None)

    def end(self, actor: ProcessActor) -> None:
        """Ends it, whatever it does."""
        self._made.remove(actor)
        actor.process.terminate()
        actor.process.join()
        actor.connection.close()


class ProcessActor:
    """A process, and what stands for its answer."""

    def __init__(self, process: BaseProcess, connection: Connection) -> None:
        self.process, self.connection = process, connection

    def ask(self, question: str, *arguments: Any) -> ProcessActor:
        """Calls its method of that name. It is asked again when it has answered."""
        with suppress(BrokenPipeError, ConnectionResetError):  # that it died is told by `answer`
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
    """Answers to question(shared, job), in the order of the jobs. Each of the workers has one at a time."""
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
    """The main function of a process: answers what it is asked until its parent ends it."""
    # The parent hears Ctrl-C too and ends its processes; until here they were started with it blocked.
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
    """The error; where another process could not make it anew, another one with its words."""
    try:
        pickle.loads(ForkingPickler.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Processes started here do not hear Ctrl-C until they say so; ours is heard at the end."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _one_thread_for_products() -> Iterator[None]:
    """Processes started here multiply matrices in one thread: more of them would count as processor time while they
    wait, and work where another worker is measured."""
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
    """From now on this process ends when its parent is gone, however that went: nobody would take what a run of hours
    finds."""
    if (parent := multiprocessing.parent_process()) is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def start_resource_tracker() -> None:
    """Starts the process in which Python frees the semaphores of processes that were killed. It does so without a
    warning of how many there were, which is no news to who killed them."""
    sys.warnoptions.append("ignore:resource_tracker:UserWarning")  # is among the arguments of that process
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.pop()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
