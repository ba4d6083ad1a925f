"""Processes of one network each, and their file of rows; `library_steps.py` and `fit_inductor.py` import this."""

from __future__ import annotations

import json
import os
import resource
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

#: The most data memory of a process.
_MAX_BYTES = 6 * 2**30


def confine(seconds: int) -> None:
    """Limits this process to so many seconds of the processor, to _MAX_BYTES, and to one core, even if something asks
    for as many threads as there are cores."""
    warnings.filterwarnings("ignore")
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[os.getpid() % len(cores)]})
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (_MAX_BYTES, _MAX_BYTES))


def add_row(path: Path, row: Mapping[str, Any]) -> None:
    with path.open("ab+") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)  # Drops a line that a kill has cut.
        file.write(json.dumps(row).encode() + b"\n")


def read_rows(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]
