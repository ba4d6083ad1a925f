"""Handling of Ctrl-C during work that can be cut short."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

_AGAIN_S = 0.01


class Interruption:
    """A context that records SIGINT once it has been asked about one; a call returns True if one came.

    Before the first call, no search is running that could keep its best result, so SIGINT raises KeyboardInterrupt. So
    does a second SIGINT.
    """

    def __init__(self) -> None:
        self._count = 0
        self._is_asked = False
        self._ends_at_once = False

    def __call__(self) -> bool:
        self._is_asked = True
        return self._count > 0

    def __enter__(self) -> Interruption:
        self._before = signal.signal(signal.SIGINT, self._note)
        self._hook_before, sys.unraisablehook = sys.unraisablehook, self._raise_again
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)
        sys.unraisablehook = self._hook_before

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        if self._ends_at_once or not self._is_asked or self._count > 1:
            raise KeyboardInterrupt

    def _raise_again(self, swallowed: sys.UnraisableHookArgs) -> None:
        """Raise an interrupt again that a destructor or a weak reference's callback swallowed, once that is over."""
        if swallowed.exc_type is KeyboardInterrupt:
            self._count -= 1
            threading.Timer(_AGAIN_S, _thread.interrupt_main).start()
        else:
            self._hook_before(swallowed)

    @contextmanager
    def ends_at_once(self) -> Iterator[None]:
        """Let the first SIGINT end the code inside, wherever it is, and nothing else."""
        before, self._ends_at_once = self._ends_at_once, True
        try:
            yield
        except KeyboardInterrupt:
            if self._count > 1:
                raise
        finally:
            self._ends_at_once = before


@contextmanager
def until_interrupted(interrupted: Callable[[], bool] | None) -> Iterator[None]:
    """Let the first SIGINT end the code inside, and nothing else, if `interrupted` is an `Interruption`."""
    if isinstance(interrupted, Interruption):
        with interrupted.ends_at_once():
            yield
    else:
        yield
