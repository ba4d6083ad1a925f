"""The output of `inspect`."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from placewright.analysis.inspection import Inspection, MemoryFit
from placewright.support.quantities import counted, format_bytes, format_count, format_time_ns, share, shortened
from placewright.terminal.tables import heading, line, table

_MAX_KINDS = 12
_MAX_NAMED = 3
#: The most rows for known devices that do not suffice: those that nearly do are worth a row, much smaller ones are not.
_MAX_SMALL = 5


def inspect_tables(found: Inspection) -> Iterator[RenderableType]:
    yield heading(f"{found.name}: {found.num_ops:,} ops, {found.num_scheduled_ops:,} of them to schedule")
    yield line(found.basis, "dim")
    yield from _facts(found)
    yield ""
    yield table(["<kind", "ops", "FLOPs", "bytes", f"time on {found.device_kind}", "share"], _kind_rows(found))
    yield ""
    yield from _devices(found)
    yield from _fits(found)
    yield from _doubts(found)


def _facts(found: Inspection) -> Iterator[RenderableType]:
    bound = format_bytes(found.one_device_bound_bytes)
    rows = {
        **({"from": found.description} if found.description else {}),
        **({"inputs": _inputs(found)} if found.inputs else {}),
        "tensors": f"{found.num_tensors:,}, activations {format_bytes(found.activation_bytes)} in all, "
        f"outputs {format_bytes(found.output_bytes)}",
        "parameters": f"{format_count(found.num_parameters)}, {format_bytes(found.parameter_bytes)}{_beside(found)}",
        "work": f"{format_count(found.flops, 'FLOP')}, {format_bytes(found.bytes_moved)} read and written",
        "time": f"{format_time_ns(found.work_ns)} on one {found.device_kind}; critical path "
        f"{format_time_ns(found.critical_path_ns)}{_launching(found)}{_max_gained(found)}",
        "peak memory": f"{format_bytes(found.input_order_peak_bytes)} in the input order on one device, "
        f"at least {bound} in any",
        "on machine": f"{found.machine}: at least {format_bytes(found.machine_bound_bytes)} on its fullest device",
        "largest": ", ".join(f"{shortened(name, 22)} {format_bytes(size)}" for name, size in found.largest_tensors[:2]),
    }
    yield table(["<", "~"], list(rows.items()))


def _beside(found: Inspection) -> str:
    """List the sizes of gradients, optimizer states and constants; empty where there are none."""
    parts = {
        "gradients": found.gradient_bytes,
        "optimizer states": found.optimizer_bytes,
        "constants": found.constant_bytes,
    }
    return "".join(f"; {name} {format_bytes(size)}" for name, size in parts.items() if size)


def _devices(found: Inspection) -> Iterator[RenderableType]:
    """Compare the sorts of devices of a machine with unequal devices."""
    own = [fit for fit in found.fits if fit.in_machine]
    if len(own) > 1:
        rows = [[fit.name, _available(fit), format_time_ns(fit.work_ns or 0), _HOLDS[fit.verdict]] for fit in own]
        yield table(["<device", "memory", "time of all ops", "<the step"], rows)
        yield ""


def _inputs(found: Inspection) -> str:
    texts = [
        f"{shortened(entry.name, 24)} {entry.dtype or 'unknown'}{list(entry.shape) if entry.shape is not None else ''}"
        for entry in found.inputs[:_MAX_NAMED]
    ]
    more = len(found.inputs) - _MAX_NAMED
    return ", ".join(texts) + (f" and {more:,} more" if more > 0 else "")


def _max_gained(found: Inspection) -> str:
    """State the most that several devices of the kind could gain."""
    one, least = max(found.work_ns, found.launch_ns), max(found.critical_path_ns, found.launch_ns)
    if not least or one <= least:
        return ", so several gain nothing" if found.launch_ns > found.critical_path_ns else ""
    return f", so at most {one / least:.2f} times faster on several"


def _launching(found: Inspection) -> str:
    """State the host's launch time if it exceeds the critical path."""
    if found.launch_ns <= found.critical_path_ns:
        return ""
    return f"; launching {format_time_ns(found.launch_ns)}"


def _kind_rows(found: Inspection) -> Iterator[list[str]]:
    for kind in found.kinds[:_MAX_KINDS]:
        yield [
            kind.kind,
            f"{kind.num_ops:,}",
            format_count(kind.flops),
            format_bytes(kind.bytes_moved),
            format_time_ns(kind.time_ns),
            share(kind.time_ns, found.work_ns),
        ]
    rest = found.kinds[_MAX_KINDS:]
    if rest:
        time_ns = sum(kind.time_ns for kind in rest)
        yield [
            f"{len(rest)} other kinds",
            f"{sum(kind.num_ops for kind in rest):,}",
            format_count(sum(kind.flops for kind in rest)),
            format_bytes(sum(kind.bytes_moved for kind in rest)),
            format_time_ns(time_ns),
            share(time_ns, found.work_ns),
        ]


def _fits(found: Inspection) -> Iterator[RenderableType]:
    """Say on which devices the whole step fits, and how much memory the others lack."""
    roomy = [f"{fit.name} ({_available(fit)})" for fit in found.fits if fit.verdict == "fits"]
    if roomy:
        more = f" and {len(roomy) - _MAX_NAMED} more" if len(roomy) > _MAX_NAMED else ""
        yield line(f"one device is enough: {', '.join(roomy[:_MAX_NAMED])}{more}")
    small = [fit for fit in found.fits if fit.verdict != "fits"]
    others = [fit for fit in small if not fit.in_machine]
    shown = [fit for fit in small if fit.in_machine] + others[-_MAX_SMALL:]
    rows = [
        [
            fit.name,
            _available(fit),
            f"at least {format_bytes(fit.missing_bytes)} missing" if fit.missing_bytes else _PERHAPS,
        ]
        for fit in shown
    ]
    if rows:
        yield table(["<too small alone", "memory", "<"], rows)
    if left := len(small) - len(shown):
        yield line(f"and {counted(left, 'smaller device')}", "dim")


_HOLDS = {"fits": "fits", "maybe": "fits perhaps, in another order", "no": "does not fit"}
_PERHAPS = "not in the input order, perhaps in another"


def _available(fit: MemoryFit) -> str:
    return "no limit" if fit.available_bytes is None else format_bytes(fit.available_bytes)


def _doubts(found: Inspection) -> Iterator[RenderableType]:
    """Name the unknowns behind the figures above: ops without a formula."""
    if found.without_formula:
        named = ", ".join(shortened(name, 30) for name in found.without_formula[:_MAX_NAMED])
        left = len(found.without_formula) - _MAX_NAMED
        more = f" and {left:,} more" if left > 0 else ""
        yield line("")
        yield line(f"{counted(len(found.without_formula), 'op')} without formula: {named}{more}", "yellow")
