"""The tables that the commands print for memory maps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType

from placewright.lab.memory_levels.explain import LevelUse, MapExplanation, TensorMove, explain_map
from placewright.lab.memory_levels.record import MemoryMap
from placewright.lab.memory_levels.words import format_ps, gap_words
from placewright.support.quantities import change, counted, format_bytes, share, shortened
from placewright.terminal.tables import heading, line, table

_MAX_MOVES = 6


def map_tables(found: MemoryMap, written: Mapping[str, str] | None = None) -> Iterator[RenderableType]:
    """Yield the tables of `map`, and of `show` for a map."""
    explained = explain_map(found)
    yield heading(f"{found.graph_name} on {found.chip.name}: {format_ps(found.latency_ps)}")
    rule = f"compiler {found.compiler}'s map ({format_ps(found.compiler_ps)}), the best rule"
    size = f"{counted(len(found.ops), 'op')}, {counted(len(found.tensors), 'tensor')}"
    yield line(f"{found.speedup:.4g}x as fast as {rule}; {size}")
    bound = f"no map is faster than {format_ps(found.bound_ps)}: {found.bound_reason}"
    yield line(f"{bound}; {gap_words(found.gap)}" if found.bound_ps else "nothing is proven about other maps")
    yield ""
    yield _level_table(explained.levels, found.compiler)
    yield ""
    yield from _move_tables(explained, found)
    if found.others:
        yield line("what else ran, latency above the map's", style="dim")
        pairs = (f"{name} {change(value, found.latency_ps)}" for name, value in found.others.items())
        yield line(", ".join(pairs))
    by = f", found by {found.found_by}" if found.found_by != found.solver else ""
    spent = f"{counted(found.evaluations, 'evaluation')}, seed {found.seed}"
    yield line(f"took {found.seconds:.2f} s: {found.solver}{by}, {spent}, stopped: {found.stopped_because}", "dim")
    if written:
        yield ", ".join(f"wrote {path} ({what})" for path, what in written.items())


def _level_table(levels: Sequence[LevelUse], compiler: str) -> RenderableType:
    columns = ["<level", "holds", "peak", "used", f"peak of {compiler}", "weights", "activations", "tensors"]
    rows = [
        [
            level.name,
            format_bytes(level.capacity_bytes),
            format_bytes(level.peak_bytes),
            share(level.peak_bytes, level.capacity_bytes),
            format_bytes(level.compiler_peak_bytes),
            format_bytes(level.weight_bytes),
            format_bytes(level.activation_bytes),
            f"{level.num_tensors:,}",
        ]
        for level in levels
    ]
    return table(columns, rows)


def _move_tables(explained: MapExplanation, found: MemoryMap) -> Iterator[RenderableType]:
    if not explained.moves:
        yield line(f"every tensor lies where compiler {found.compiler} has it")
        return
    yield line(
        f"{counted(explained.num_moves, 'tensor')} lie elsewhere than compiler {found.compiler} has them; "
        "saved: what undoing the move alone would cost",
        style="dim",
    )
    yield table(["<tensor", "<what", "size", "<from", "<to", "saved"], map(_move_row, explained.moves[:_MAX_MOVES]))


def _move_row(move: TensorMove) -> list[str]:
    kind = "weight" if move.is_weight else "activation"
    name = shortened(move.name, 36)
    return [name, kind, format_bytes(move.size_bytes), move.from_level, move.to_level, format_ps(move.saved_ps)]


def map_explanation_tables(found: MemoryMap, explained: MapExplanation) -> Iterator[RenderableType]:
    """Yield the tables of `explain` for a map."""
    yield heading(f"{found.graph_name} on {found.chip.name}: {format_ps(found.latency_ps)}")
    parts = {
        "computation": explained.compute_ps,
        "overhead of ops": explained.overhead_ps,
        "waiting for memory": explained.waiting_ps,
    }
    yield table(
        ["<of which", "time", "share"],
        [[name, format_ps(value), share(value, found.latency_ps)] for name, value in parts.items()],
    )
    yield line(f"{explained.bound_ops:,} of {counted(len(found.ops), 'op')} move bytes longer than they compute")
    yield ""
    yield _level_table(explained.levels, found.compiler)
    yield ""
    yield line(f"bytes by the level of compiler {found.compiler} (rows) and of this map (columns)", style="dim")
    yield _transition_table(found.chip.level_names, found.chip.level_names, explained.transitions)
    yield ""
    if explained.moves:
        yield table(["<moved", "<what", "size", "<from", "<to", "saved"], map(_move_row, explained.moves))


def _transition_table(rows: Sequence[str], columns: Sequence[str], matrix: Sequence[Sequence[int]]) -> RenderableType:
    lines = [[name, *map(format_bytes, values)] for name, values in zip(rows, matrix, strict=True)]
    return table(["<", *columns], lines)
