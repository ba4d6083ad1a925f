"""The basis of a plan's predicted times, in one line: shared by the command line and the report."""

from __future__ import annotations

from collections.abc import Mapping

from placewright.costs.estimate import TimeSources
from placewright.machine import Device, LaunchMode, Machine
from placewright.support.quantities import format_time_ns

#: The number of sorts of devices whose rates the line states, on a machine with many sorts.
_MAX_SORTS = 3


_LAUNCHED_BY: Mapping[LaunchMode, str] = {
    "host-thread": "by one host thread",
    "device-threads": "by a host thread per device",
    "graphs": "as recorded graphs",
}


def basis_words(sources: TimeSources | None, machine: Machine) -> str:
    """Say that times are predictions, and on what they rest: "predicted: roofline at 70% of peak FLOP/s and 80% of
    bandwidth, 5 us per launch; launched by one host thread". Where the graph states times, the line says that launches
    are added to them: times that already contain launches would count them twice. sources: None for a plan that does
    not say."""
    launches = launch_words(machine)
    if launches and sources is not None and sources.stated and machine.launch != "graphs":
        launches += ", added on top"
    if sources is None:
        return f"predicted; the plan does not say whether times were measured{launches and f'; {launches}'}"
    estimated = sources.roofline + sources.guessed
    total = sources.stated + sources.measured + estimated
    parts = []
    if sources.measured:
        parts.append(f"measured times for {_of(sources.measured, total)}")
    if sources.stated:
        parts.append("times stated in the graph" + ("" if sources.stated == total else f" for {sources.stated:,}"))
    if estimated:
        rest = " for the rest" if parts else ""
        parts.append(f"roofline{rest} at {_rates_words(machine)}{_guessed_words(sources)}")
    return f"predicted: {', '.join(parts)}{launches and f'; {launches}'}" if parts else "predicted: no op takes time"


def launch_words(machine: Machine) -> str:
    """Name the launcher of ops on devices that do not launch their own work. Empty where launches cost nothing."""
    asks = any(device.launch_overhead_ns and not device.launches_itself for device in machine.devices)
    return f"launched {_LAUNCHED_BY[machine.launch]}" if asks else ""


def _of(count: int, total: int) -> str:
    return f"{count:,} of {total:,} ops" if count < total else "all ops"


def _guessed_words(sources: TimeSources) -> str:
    if not sources.guessed:
        return ""
    if sources.guessed == sources.roofline + sources.guessed:
        return "; FLOPs unknown, so bytes alone count"
    return f"; FLOPs of {sources.guessed:,} unknown, where bytes alone count"


def _rates_words(machine: Machine) -> str:
    """State the rates of most accelerators in full, and differing rates in brief: "cpu: 50%, 60%, 8 us per launch"."""
    sorts: dict[tuple[float, float, str], list[Device]] = {}
    for device in machine.devices:
        if device.peak_flops_per_s:
            key = (device.compute_efficiency, device.bandwidth_efficiency, _per_op(device, machine))
            sorts.setdefault(key, []).append(device)
    if not sorts:
        return "no rates"
    # A CPU next to an accelerator is the exception even where there is one of each.
    (first, *others) = sorted(sorts, key=lambda key: (all(d.is_cpu for d in sorts[key]), -len(sorts[key])))
    compute, bandwidth, launch = first
    words = f"{compute:.0%} of peak FLOP/s and {bandwidth:.0%} of bandwidth, {launch}"
    told = [
        f"{', '.join(dict.fromkeys(device.kind for device in sorts[key]))}: {key[0]:.0%}, {key[1]:.0%}, {key[2]}"
        for key in others[: _MAX_SORTS - 1]
    ]
    if len(others) >= _MAX_SORTS:
        told.append("others differ")
    return f"{words} ({'; '.join(told)})" if told else words


def _per_op(device: Device, machine: Machine) -> str:
    """The overhead of an op besides its work."""
    if machine.launch == "graphs" and not device.launches_itself:
        return f"{_short_time(device.kernel_gap_ns)} between kernels"
    return f"{_short_time(device.launch_overhead_ns)} per launch"


def _short_time(time_ns: int) -> str:
    """Format a time briefly: "5 us", not "5.00 us", since configured times are round."""
    number, unit = format_time_ns(time_ns).split()
    return f"{float(number):g} {unit}" if "." in number else f"{number} {unit}"
