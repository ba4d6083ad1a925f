"""The output of `profile`: the devices, their links, and the times of the ops."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from placewright.execution.profile_summary import ProfileSummary
from placewright.support.errors import printable
from placewright.support.quantities import counted, format_bytes, format_count, format_time_ns, signed_percent
from placewright.terminal.tables import heading, line, table


def profile_table(found: ProfileSummary) -> Iterator[RenderableType]:
    several = len(found.devices) > 1
    timed = counted(found.num_timed, "sort of op", "sorts of ops")
    yield heading(f"{found.name} on {', '.join(device.name for device in found.devices)}")
    yield line(f"{timed} timed now, {found.num_known:,} known before", "dim")
    yield ""
    yield table(["<device", "<kind", "matrix product", "memory", "smallest op"], _device_rows(found))
    if several:
        yield ""
        rate = found.link_bandwidth_bytes_per_s
        by_size = f", {format_count(rate, 'B/s')}" if rate is not None else ", whatever the size"
        yield line(f"from one device to another: {format_time_ns(found.link_latency_ns or 0)}{by_size}")
    if found.handovers:
        yield table(["handed over", "latency", "first read", "read of one's own"], _handover_rows(found))
    yield ""
    both = ["all ops, one device", "all devices busy", "difference"] if several else ["all ops"]
    yield table(["<kind", "ops", *both], _kind_rows(found, several=several))
    yield ""
    for path, what in found.files.items():
        yield printable(f"wrote {what} {path}")


def _device_rows(found: ProfileSummary) -> Iterator[list[str]]:
    for device in found.devices:
        rates = format_count(device.flops_per_s, "FLOP/s"), format_count(device.bandwidth_bytes_per_s, "B/s")
        yield [device.name, device.kind, *rates, format_time_ns(device.least_op_ns)]


def _handover_rows(found: ProfileSummary) -> Iterator[list[str]]:
    for each in found.handovers:
        times = (each.latency_ns, each.read_ns, each.own_read_ns)
        yield [format_bytes(each.size_bytes), *(format_time_ns(time) for time in times)]


def _kind_rows(found: ProfileSummary, *, several: bool) -> Iterator[list[str]]:
    mixed = len({kind.device for kind in found.kinds}) > 1
    for kind in found.kinds:
        row = [
            f"{kind.kind} on {kind.device}" if mixed else kind.kind,
            f"{kind.num_ops:,}",
            format_time_ns(kind.alone_ns),
        ]
        if several:
            more = signed_percent(kind.shared_ns / kind.alone_ns - 1, 0) if kind.alone_ns else ""
            row += [format_time_ns(kind.shared_ns), more]
        yield row
