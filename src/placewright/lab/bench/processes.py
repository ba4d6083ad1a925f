"""Workers that are processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from placewright.lab.bench.work import Job, Message, serve
from placewright.lab.bench.workers import WorkerDiedError
from placewright.support.errors import InputError

#: Read by OpenBLAS, which numpy's wheels come with.
_THREADS_FOR_PRODUCTS = "OPENBLAS_NUM_THREADS"


@dataclass(kw_only=True, eq=False)
class WorkerProcess:
    process: BaseProcess
    connection: Connection
    waits_for: str = ""

    def send(self, job: Job) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send(job)

    def receive(self) -> Message:
        try:
            message: Message = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            self.connection.close()
            code = self.process.exitcode or 0
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise WorkerDiedError(how) from None
        return message


class WorkerProcesses:
    """Each reads the suite for itself; devices and dims as `find_suite` takes them, plugins as `load_plugins` does."""

    def __init__(
        self,
        suite_path: Path,
        devices: str | None = None,
        plugins: Sequence[Path] = (),
        dims: Mapping[str, int] | None = None,
    ) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._suite_path = suite_path
        self._devices = devices
        self._dims = dict(dims or {})
        self._plugins = tuple(plugins)

    def start(self) -> WorkerProcess:
        """Raises InputError when the system allows no more processes."""
        try:
            # The first process would start it, and with it hear Ctrl-C again.
            resource_tracker.ensure_running()
            ours, theirs = self._context.Pipe()
            arguments = (self._suite_path, self._devices, self._dims, self._plugins, theirs)
            process = self._context.Process(target=serve, args=arguments, daemon=True)
            with theirs, _interrupts_blocked(), _one_thread_for_products():
                process.start()
        except OSError as error:
            raise InputError(f"cannot start another worker: {error.strerror}") from error
        return WorkerProcess(process=process, connection=ours)

    def ready(self, workers: Sequence[WorkerProcess]) -> Sequence[WorkerProcess]:
        answered = wait([worker.connection for worker in workers])
        return [worker for worker in workers if worker.connection in answered]

    def end(self, workers: Sequence[WorkerProcess]) -> None:
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.process.join()
            worker.connection.close()


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
