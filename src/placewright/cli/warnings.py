"""Warnings that the library logs, as lines on stderr."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from placewright.support.errors import printable

_MAX_SHOWN = 5


class _Handler(logging.Handler):
    """Shows the first warnings, each once, and counts the rest."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0
        self._seen: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() in self._seen:
            return
        self._seen.add(record.getMessage())
        self.count += 1
        if self.count <= _MAX_SHOWN:
            print(f"placewright: {record.levelname.lower()}: {printable(record.getMessage())}", file=sys.stderr)


@contextmanager
def shown_warnings() -> Iterator[None]:
    """Print the library's warnings on stderr within this context."""
    logger, handler = logging.getLogger("placewright"), _Handler()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        if handler.count > _MAX_SHOWN:
            print(f"placewright: warning: and {handler.count - _MAX_SHOWN:,} more", file=sys.stderr)
