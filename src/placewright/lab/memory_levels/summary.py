"""The `--json` output for memory maps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from placewright.lab.memory_levels.explain import LevelUse, TensorMove, explain_map
from placewright.lab.memory_levels.record import MemoryMap
from placewright.support.records import same_named


@dataclass(frozen=True, slots=True, kw_only=True)
class MapSummary:
    """The output of `map --json`, and of `show --json` for a map.

    Attributes
    ----------
    schema_version
        1.
    graph, graph_fingerprint, num_ops, num_tensors, chip
        The graph and the chip of the map.
    status
        "optimal" or "feasible".
    latency_ps
        Latency of one run of the network.
    compiler, compiler_ps, speedup
        The compiler's rules, the latency of its map, and how many times faster this one is.
    bound_ps, bound_reason, gap
        A lower bound on every map's latency, its reason, and the gap, latency / bound - 1; null without a bound.
    levels
        The use of each level.
    transitions
        Bytes of tensors, by the compiler's level and the map's.
    moves, num_moves
        Tensors whose level differs from the compiler's, as in `explain`, and their number.
    others
        Latency in ps of other maps that were tried, by solver.
    solver, found_by, seed, evaluations, seconds, stopped_because, version
        As in the map.
    written
        Files that were written, by path.
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
