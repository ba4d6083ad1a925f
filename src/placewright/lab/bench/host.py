"""When and where rows are made, for the reader's information."""

from __future__ import annotations

import platform
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def processor() -> str:
    """The model of this machine's processor as Linux names it, elsewhere its architecture."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
