"""What `--json` prints of a memory map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from placewright.lab.memory_levels.explain import LevelUse, TensorMove, explain_map
from placewright.lab.memory_levels.record import MemoryMap
from placewright.support.records import same_named


@dataclass(frozen=True, slots=True, kw_only=True)
class MapSummary:
    """What `map --json` prints, and `show --json` of a map.

    Attributes
    ----------
    schema_version
        1.
    graph, graph_fingerprint, num_ops, num_tensors, chip
        What the map is for.
    status
        "optimal" or "feasible".
    latency_ps
        Of one run of the network.
    compiler, compiler_ps, speedup
        The compiler's rules, the latency of its map, and how many times faster this one is.
    bound_ps, bound_reason, gap
        No map is faster, why, and how far the latency is above it: latency / bound - 1; null without a bound.
    levels
        Their use.
    transitions
        By the compiler's level and the map's, bytes of tensors.
    moves, num_moves
        What lies elsewhere than the compiler has it, as in `explain`, and how many tensors that are.
    others
        Latency in ps of what else ran, by name.
    solver, found_by, seed, evaluations, seconds, stopped_because, version
        As in the map.
    written
        What was written, by path.
    """

    schema_version: int
    graph: str
    graph_fingerprint: str
    num_ops: int
    num_tensors: int
    chip: str
    status: str
    latency_ps: int
    compiler: str
    compiler_ps: int
    speedup: float
    bound_ps: int
    bound_reason: str
    gap: float | None
    levels: tuple[LevelUse, ...]
    transitions: tuple[tuple[int, ...], ...]
    moves: tuple[TensorMove, ...]
    num_moves: int
    others: dict[str, int]
    solver: str
    found_by: str
    seed: int
    evaluations: int
    seconds: float
    stopped_because: str
    written: dict[str, str]
    version: str


def map_summary(found: MemoryMap, written: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The fields of `MapSummary`. written: what was written, by path."""
    own = {
        "schema_version": 1,
        "graph": found.graph_name,
        "num_ops": len(found.ops),
        "num_tensors": len(found.tensors),
        "chip": found.chip.name,
        "gap": None if found.gap == float("inf") else found.gap,
        "others": dict(found.others),
        "written": dict(written or {}),
    }
    return asdict(MapSummary(**{**same_named(MapSummary, found, explain_map(found)), **own}))
