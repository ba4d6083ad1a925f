"""One thread per CPU device, pinned to its cores, that runs the jobs it is given."""

from __future__ import annotations

import _thread
import os
import threading
import weakref
from collections.abc import Callable, Sequence

from placewright.support.errors import InputError
from placewright.support.torch_threads import torch_threads

Job = Callable[[], None]
#: The longest time, in seconds, until Ctrl-C is noticed.
_LOOKS_UP_S = 0.5


class Workers:
    """A thread for each device, pinned to its cores, in which PyTorch computes each op with as many threads."""

    def __init__(self, cores: Sequence[frozenset[int]]) -> None:
        self._cores = cores
        self._turn = threading.Lock()
        self._start()

    def _start(self) -> None:
        started: list[_Worker] = []
        try:
            # Setting PyTorch's number of threads in one thread sets it for new ones; the caller's own must stay.
            with torch_threads():
                for own in self._cores:
                    started.append(_Worker(own))
                    started[-1].ready.acquire()
                    started[-1].check()
        except BaseException:
            _end(started, os.getpid())
            raise
        self._workers = started
        self._process = os.getpid()
        self._finalizer = weakref.finalize(self, _end, self._workers, self._process)

    def run(self, jobs: Sequence[Job], stop: Callable[[], None]) -> None:
        """Runs one job per device, all at once, and returns when all are done. Callers take turns.

        `stop` makes unfinished jobs end early. It is called when one of them raises, and on Ctrl-C. Raises what the
        first failing job raised.
        """
        errors: list[BaseException] = []

        def guarded(job: Job) -> Job:
            def run() -> None:
                try:
                    job()
                except BaseException as error:
                    errors.append(error)
                    stop()

            return run

        with self._turn:
            # Threads do not run after `close`, nor in a process forked from theirs.
            if not self._finalizer.alive or self._process != os.getpid():
                self._start()
            self._run([guarded(job) for job in jobs], stop)
        if errors:
            raise errors[0]

    def _run(self, jobs: Sequence[Job], stop: Callable[[], None]) -> None:
        try:
            for worker, job in zip(self._workers, jobs, strict=True):
                worker.start(job)
        except BaseException:
            # Interrupted, with some jobs started: it is unknown which.
            stop()
            self.close()
            raise
        interrupted: BaseException | None = None
        while True:
            try:
                for worker in self._workers:
                    worker.wait(again=interrupted is not None)
                break
            except KeyboardInterrupt as error:
                interrupted = error
                stop()
        if interrupted is not None:
            raise interrupted

    def close(self) -> None:
        """Ends the threads; `run` starts new ones."""
        self._finalizer()


class _Worker:
    """A thread that waits for a job, runs it, and waits again."""

    def __init__(self, cores: frozenset[int]) -> None:
        self._begin, self._done, self.ready = _taken(), _taken(), _taken()
        self._is_done = True
        self._job: Job | None = None
        self._ending = False
        self._cores = cores
        self._refused: OSError | None = None
        self._thread = threading.Thread(target=self._serve, name="placewright device", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            raise InputError(f"this process may not have a thread more, and each device needs one: {error}") from error

    def check(self) -> None:
        """Raises InputError when the thread is not on its cores."""
        if self._refused is not None:
            named = ", ".join(map(str, sorted(self._cores)))
            raise InputError(f"a device's cores ({named}) are not there for this process: {self._refused.strerror}")

    def start(self, job: Job) -> None:
        self._done, self._is_done = _taken(), False
        self._job = job
        self._begin.release()

    def wait(self, again: bool) -> None:
        """Returns when the job is done. again: after Ctrl-C, which may have come right after the lock was taken: if the
        job is done by then, nothing may be left to release the lock."""
        if not (again and self._is_done):
            # Ctrl-C right before the thread sleeps does not wake it, and its handler runs only when it is awake.
            while not self._done.acquire(timeout=_LOOKS_UP_S):
                pass

    def end(self) -> None:
        """Ends the thread, after its present job."""
        self._ending = True
        if self._begin.locked():
            self._begin.release()
        self._thread.join()

    def _serve(self) -> None:
        try:
            if hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(0, self._cores)
            _prepare_torch(max(1, len(self._cores)))
        except OSError as error:
            self._refused = error
            return
        finally:
            self.ready.release()
        while True:
            self._begin.acquire()
            job, self._job, done = self._job, None, self._done
            if job is not None:
                try:
                    job()
                finally:
                    del job
                    self._is_done = True
                    done.release()
            if self._ending:
                return


def _taken() -> _thread.LockType:
    lock = _thread.allocate_lock()
    lock.acquire()
    return lock


def _prepare_torch(num_threads: int) -> None:
    import torch

    # A thread's first query of the number sets it to that of the process, now or in the middle of an op.
    torch.get_num_threads()
    torch.set_num_threads(num_threads)
    torch.set_grad_enabled(False)


def _end(workers: Sequence[_Worker], process: int) -> None:
    if os.getpid() == process:
        for worker in workers:
            worker.end()
