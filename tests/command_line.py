"""Running the command line: in this process where text and code matter, as a process where signals and files do."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from waiting import PATIENCE_S

from placewright.graph import Graph, Op, Tensor

MIB = 2**20


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Placewright = Callable[..., Outcome]


def process(
    *arguments: str | Path, environment: Mapping[str, str] | None = None, **options: object
) -> subprocess.CompletedProcess[str]:
    """Runs one command as a process of its own, outside of any terminal. environment: variables added to ours."""
    own = {**os.environ, "COLUMNS": "", "NO_COLOR": "", **(environment or {})}
    command = [sys.executable, "-m", "placewright", *map(str, arguments)]
    return subprocess.run(command, env=own, capture_output=True, text=True, timeout=PATIENCE_S, **options)  # type: ignore[call-overload,no-any-return]


def limited(size: int) -> object:
    """A function that limits files of its process to `size` bytes: writing more fails as on a full disk."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def chain_graph(num_ops: int, towers: int = 2, name: str = "towers") -> Graph:
    """Towers of ops that take 200 us each and pass 1 MiB on; all begin at one input and none ends in another's."""
    ops = [Op(name="input", kind="input", outputs=(0,))]
    tensors = [Tensor(name="input:0", size_bytes=MIB)]
    for index in range(num_ops):
        before = max(0, index + 1 - towers)
        module = f"tower.{index % towers}"
        ops.append(
            Op(name=f"op{index}", kind="other", module=module, inputs=(before,), outputs=(index + 1,), time_ns=200_000)
        )
        tensors.append(Tensor(name=f"op{index}:0", size_bytes=MIB))
    return Graph(name=name, ops=tuple(ops), tensors=tuple(tensors))
