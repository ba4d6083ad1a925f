"""The output of `diff`."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from placewright.analysis.basis import basis_words
from placewright.analysis.comparison import Comparison
from placewright.analysis.outcome import found_by_words
from placewright.plans.record import Plan
from placewright.problem.objective import format_objective
from placewright.support.quantities import change, counted, format_bytes, format_time_ns, share, shortened
from placewright.terminal.tables import heading, line, table

_MAX_MOVES = 10
_MAX_RENAMED = 4


def diff_tables(first: Plan, second: Plan, found: Comparison) -> Iterator[RenderableType]:
    yield heading(f"{first.graph_name}: {_machines(first, second)}")
    bases = [basis_words(plan.time_sources, plan.machine) for plan in (first, second)]
    yield from (line(basis, "dim") for basis in dict.fromkeys(bases))
    yield table(["<", "first", "second", "second vs first"], _metric_rows(first, second))
    yield ""
    if found.renamed:
        renamed = ", ".join(f"{own} counts as {other}" for own, other in found.renamed[:_MAX_RENAMED])
        more = f" and {len(found.renamed) - _MAX_RENAMED} more" if len(found.renamed) > _MAX_RENAMED else ""
        yield line(f"equal devices of the second plan are renamed: {renamed}{more}")
    moved = f"{found.num_moved:,} of {counted(found.num_ops, 'op')} on another device"
    yield line(f"{moved}; {found.order_distance:.1%} of all pairs of ops in the other order")
    changes = {"kept": found.transfers_kept, "removed": found.transfers_removed, "added": found.transfers_added}
    texts = [f"{row.num_transfers:,} {what} ({format_bytes(row.size_bytes)})" for what, row in changes.items()]
    yield line(f"transfers: {', '.join(texts)}")
    if found.moved:
        yield ""
        yield table(["<moved", "<from", "<to", "ops", "time", "of step"], _moved_rows(first, found))
    if len(found.moved) > _MAX_MOVES:
        yield line(f"and {len(found.moved) - _MAX_MOVES:,} more groups", "dim")


def _machines(first: Plan, second: Plan) -> str:
    if first.machine == second.machine:
        return first.machine.name
    return f"{first.machine.name} and {second.machine.name}"


def _metric_rows(first: Plan, second: Plan) -> Iterator[list[str]]:
    one, two = first.metrics, second.metrics
    pairs = [
        ("step time", format_time_ns, one.step_time_ns, two.step_time_ns),
        ("peak memory", format_bytes, one.peak_memory_bytes, two.peak_memory_bytes),
        ("moved between devices", format_bytes, one.bytes_moved, two.bytes_moved),
        ("over the memory limits", format_bytes, one.bytes_over_limit, two.bytes_over_limit),
    ]
    for label, written, left, right in pairs:
        yield [label, written(left), written(right), change(right, left)]
    yield [
        "transfers",
        f"{one.num_transfers:,}",
        f"{two.num_transfers:,}",
        change(two.num_transfers, one.num_transfers),
    ]
    if first.reruns or second.reruns:
        again, others = len(first.reruns), len(second.reruns)
        yield ["ops run again", f"{again:,}", f"{others:,}", change(others, again)]
    if first.moves or second.moves:
        moved, others = len(first.moves), len(second.moves)
        yield ["tensors moved to the host", f"{moved:,}", f"{others:,}", change(others, moved)]
    if first.objective == second.objective:
        bounds = [format_objective(plan.objective, plan.lower_bound) for plan in (first, second)]
        yield ["lower bound", *bounds, change(second.lower_bound, first.lower_bound)]
    yield ["found by", *(shortened(found_by_words(plan), 24) for plan in (first, second)), ""]


def _moved_rows(first: Plan, found: Comparison) -> Iterator[list[str]]:
    for group in found.moved[:_MAX_MOVES]:
        yield [
            shortened(group.module, 40),
            shortened(group.source, 12),
            shortened(group.destination, 12),
            f"{group.num_ops:,}",
            format_time_ns(group.time_ns),
            share(group.time_ns, first.metrics.step_time_ns),
        ]
