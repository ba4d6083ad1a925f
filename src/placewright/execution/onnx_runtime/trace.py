"""What ONNX Runtime's own profile says: which nodes ran when, for how long, and how much memory was in use."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SUFFIX = "_kernel_time"
#: What the profiler writes is cut to whole microseconds.
_NS_PER_TICK = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRun:
    """A node that ran once.

    start_ns: on a clock that all sessions of the process share. provider: whose kernel it was. bytes_before,
    bytes_in_use: what the session had asked its allocator for before the node ran, and when it had run and nothing was
    released yet; None from a version that does not tell.
    """

    name: str
    start_ns: int
    duration_ns: int
    provider: str
    bytes_before: int | None
    bytes_in_use: int | None


def read_trace(path: Path, began_ns: int) -> list[list[NodeRun]]:
    """The nodes of each run of a session, in the order in which they started. began_ns: when profiling did."""
    events = json.loads(path.read_bytes())
    runs = sorted((event for event in events if event.get("name") == "model_run"), key=_start)
    nodes = sorted((event for event in events if event.get("cat") == "Node" and _is_kernel(event)), key=_start)
    if not runs:  # The profile ends after a million events.
        return []
    found: list[list[NodeRun]] = [[] for _ in runs]
    place = 0
    for event in nodes:
        while place + 1 < len(runs) and _start(event) >= _start(runs[place + 1]):
            place += 1
        found[place].append(_node_run(event, began_ns))
    return found


def _is_kernel(event: dict[str, Any]) -> bool:
    return str(event["name"]).endswith(_SUFFIX)


def _start(event: dict[str, Any]) -> int:
    return int(event["ts"])


def _node_run(event: dict[str, Any], began_ns: int) -> NodeRun:
    details = event["args"]
    in_use, change = (details.get(f"mem_{what}") for what in ("bytes_requested_in_use", "requested_in_use_delta"))
    return NodeRun(
        name=str(event["name"]).removesuffix(_SUFFIX),
        start_ns=began_ns + _start(event) * _NS_PER_TICK,
        # On average half a tick was cut off.
        duration_ns=int(event["dur"]) * _NS_PER_TICK + _NS_PER_TICK // 2,
        provider=str(details.get("provider", "")),
        bytes_before=None if in_use is None or change is None else int(in_use) - int(change),
        bytes_in_use=None if in_use is None else int(in_use),
    )
