"""What would help a plan that does not fit, in sentences: shared by the command line and the report."""

from __future__ import annotations

from collections.abc import Iterator

from placewright.explain import PeakExplanation, explain_peak
from placewright.machines import list_presets
from placewright.memory_events import alive_at_peak
from placewright.plan import Plan
from placewright.quantities import counted, format_bytes

_MIB = 2**20
#: Of what fills a device, and of devices that would do, as many are named.
_NUM_NAMED = 3
_PARTS = {
    "tensor": "tensors between ops",
    "copy": "copies from other devices",
    "resident": "parameters and constants",
    "workspace": "workspace",
}


def advice(plan: Plan) -> tuple[str, ...]:
    """What fills the device that lacks most, and what would be enough; nothing for a plan that fits."""
    missing = [
        0 if limit is None else max(0, peak - limit)
        for peak, limit in zip(plan.metrics.peak_bytes, plan.memory_limits_bytes, strict=True)
    ]
    if not any(missing):
        return ()
    peak = explain_peak(plan, missing.index(max(missing)))
    return (_contents(plan, peak), _largest(plan, peak.device), *_enough(plan, missing), _smaller(plan, peak))


def _contents(plan: Plan, peak: PeakExplanation) -> str:
    sizes = {words: size for kind, words in _PARTS.items() if (size := peak.bytes_of(kind))}  # type: ignore[arg-type]
    parts = [f"{format_bytes(size)} of {words}" for words, size in sorted(sizes.items(), key=lambda part: -part[1])]
    name = plan.machine.devices[peak.device].name
    return f"At its peak {name} holds {_listed(parts)}."


def _largest(plan: Plan, device: int) -> str:
    """The largest buffers at the peak by name."""
    _, alive = alive_at_peak(plan, device)
    largest = sorted(alive, key=lambda buffer: (-buffer.size_bytes, buffer.name))[:_NUM_NAMED]
    return f"Largest there: {', '.join(f'{b.name} ({format_bytes(b.size_bytes)})' for b in largest)}."


def _enough(plan: Plan, missing: list[int]) -> Iterator[str]:
    """The limit, or the devices, that this very plan would fit."""
    devices = plan.machine.devices
    short = [device for device, lack in enumerate(missing) if lack]
    needed = max(plan.metrics.peak_bytes[device] for device in short)
    capacities = [devices[device].memory_bytes for device in short]
    if all(
        capacity is None or capacity >= plan.metrics.peak_bytes[device]
        for device, capacity in zip(short, capacities, strict=True)
    ):
        yield f"This plan would fit under a memory limit of {-(-needed // _MIB)}MiB, which the devices have."
        return
    sizes: dict[int, str] = {}
    for preset in sorted(list_presets(), key=lambda preset: preset.device.memory_bytes or 0):
        memory = preset.device.memory_bytes
        if memory is not None and memory >= needed and preset.family != "cpu":
            sizes.setdefault(memory, preset.name)
    if sizes:
        named = [f"{name} ({format_bytes(memory)})" for memory, name in list(sizes.items())[:_NUM_NAMED]]
        yield f"Devices of {format_bytes(needed)} or more would hold this plan, such as {_listed(named, 'or')}."
    else:
        yield f"No preset holds the {format_bytes(needed)} of this plan on one device: it takes more devices."


def _smaller(plan: Plan, peak: PeakExplanation) -> str:
    """Whether less work at a time could help, or only more memory."""
    residents = {buffer.name: buffer.size_bytes for buffer in plan.buffers if buffer.kind == "resident"}
    limits = plan.memory_limits_bytes
    least, room = sum(residents.values()), sum(limit for limit in limits if limit is not None)
    if None not in limits and least > room:
        words = f"Parameters and constants alone take {format_bytes(least)}, all devices have {format_bytes(room)}"
        if len(set(limits)) > 1 or not limits[0]:
            return f"{words}: no batch size fits."
        return f"{words}: no batch size fits, and it takes {counted(-(-least // limits[0]), 'device')} at least."
    shrinking = peak.peak_bytes - peak.bytes_of("resident")
    trained = any(op.phase == "backward" for op in plan.ops)
    recompute = ", and recomputing activations (torch.utils.checkpoint) keeps fewer of them" if trained else ""
    return f"A smaller batch shrinks most of the {format_bytes(shrinking)} beside parameters and constants{recompute}."


def _listed(parts: list[str], last: str = "and") -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {last} {parts[-1]}"
