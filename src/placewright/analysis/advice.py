"""Advice in sentences for a plan that does not fit, shared by the command line and the report."""

from __future__ import annotations

from collections.abc import Sequence

from placewright.analysis.explain import PeakExplanation, explain_peak
from placewright.analysis.memory_events import alive_at_peak
from placewright.analysis.outcome import floor_words, proven_infeasible
from placewright.machines import list_presets
from placewright.machines.host import parted
from placewright.plans.record import Plan
from placewright.support.quantities import counted, format_bytes, limit_text

#: The number of items named in a list: of the largest buffers of a device, or of devices that would hold the plan.
_NUM_NAMED = 3
_PARTS = {
    "tensor": "tensors between ops",
    "copy": "copies from other devices",
    "resident": "parameters and constants",
    "workspace": "workspace",
}


def advice(plan: Plan) -> tuple[str, ...]:
    """Say how much memory would be enough, and whether less work at a time could help. Empty for a plan that fits."""
    missing = _missing(plan)
    if not any(missing):
        return ()
    if not any(missing[: parted(plan.machine)[0].num_devices]):
        needed = format_bytes(plan.metrics.peak_bytes[-1])
        return (f"This plan needs {needed} of the host's memory: allow it that much, or fewer moves.",)
    return (_enough(plan, missing), _smaller(plan, missing.index(max(missing))))


def peak_words(plan: Plan) -> tuple[str, ...]:
    """Describe the contents of the device that lacks most memory. Empty for a plan that fits."""
    missing = _missing(plan)
    if not any(missing):
        return ()
    peak = explain_peak(plan, missing.index(max(missing)))
    return (_contents(plan, peak), _largest(plan, peak.device))


def shortage_words(plan: Plan) -> str:
    """Say how much memory a plan that does not fit lacks and where, whether another plan could fit, and the least that
    any plan needs."""
    missing = _missing(plan)
    worst = max(range(len(missing)), key=lambda device: (missing[device], plan.machine.devices[device].name))
    more = sum(lack > 0 for lack in missing) - 1
    others = f" and {counted(more, 'other device')}" if more else ""
    what = "no plan can fit" if proven_infeasible(plan) else "no plan was found that fits"
    least = f"; {floor}" if (floor := floor_words(plan)) else ""
    return f"{what}: {format_bytes(missing[worst])} missing on {plan.machine.devices[worst].name}{others}{least}"


def _missing(plan: Plan) -> list[int]:
    """Bytes over the limit, per device."""
    return [
        0 if limit is None else max(0, peak - limit)
        for peak, limit in zip(plan.metrics.peak_bytes, plan.memory_limits_bytes, strict=True)
    ]


def _contents(plan: Plan, peak: PeakExplanation) -> str:
    sizes = {words: size for kind, words in _PARTS.items() if (size := peak.bytes_of(kind))}  # type: ignore[arg-type]
    parts = [f"{format_bytes(size)} of {words}" for words, size in sorted(sizes.items(), key=lambda part: -part[1])]
    name = plan.machine.devices[peak.device].name
    return f"At its peak {name} holds {_listed(parts)}."


def _largest(plan: Plan, device: int) -> str:
    """Name the largest buffers at the peak."""
    _, alive = alive_at_peak(plan, device)
    largest = sorted(alive, key=lambda buffer: (-buffer.size_bytes, buffer.name))[:_NUM_NAMED]
    return f"Largest there: {', '.join(f'{b.name} ({format_bytes(b.size_bytes)})' for b in largest)}."


def _enough(plan: Plan, missing: Sequence[int]) -> str:
    """Name the limit, or the devices, under which this very plan would fit."""
    short = [device for device, lack in enumerate(missing) if lack and not plan.machine.devices[device].is_host]
    needed = max(plan.metrics.peak_bytes[device] for device in short)
    capacities = [plan.machine.devices[device].memory_bytes for device in short]
    if all(
        capacity is None or capacity >= plan.metrics.peak_bytes[device]
        for device, capacity in zip(short, capacities, strict=True)
    ):
        return f"This plan would fit under a memory limit of {limit_text(needed)}, which the devices have."
    sizes: dict[int, str] = {}  # by whole GiB
    for preset in sorted(list_presets(), key=lambda preset: preset.device.memory_bytes or 0):
        memory = preset.device.memory_bytes
        if memory is not None and memory >= needed and preset.family != "cpu":
            sizes.setdefault(round(memory / 2**30), f"{preset.name} ({format_bytes(memory)})")
    if not sizes:
        return f"No preset holds the {format_bytes(needed)} of this plan on one device: it takes more devices."
    named = _listed(list(sizes.values())[:_NUM_NAMED], "or")
    return f"Devices of {format_bytes(needed)} or more would hold this plan, such as {named}."


def _smaller(plan: Plan, device: int) -> str:
    """Say whether less work at a time could help, or only more memory."""
    residents = {buffer.name: buffer.size_bytes for buffer in plan.buffers if buffer.kind == "resident"}
    limits = plan.memory_limits_bytes
    least, room = sum(residents.values()), sum(limit for limit in limits if limit is not None)
    if None not in limits and least > room:
        words = f"Parameters and constants alone take {format_bytes(least)}, all devices have {format_bytes(room)}"
        if len(set(limits)) > 1 or not limits[0]:
            return f"{words}: no batch size fits."
        return f"{words}: no batch size fits, and it takes {counted(-(-least // limits[0]), 'device')} at least."
    held = sum(b.size_bytes for b in plan.buffers if b.kind == "resident" and b.device == device)
    shrinking = format_bytes(plan.metrics.peak_bytes[device] - held)
    # Where ops could run again, that was tried: on one device, the plan then names the op that sets the least memory.
    several = parted(plan.machine)[0].num_devices > 1
    tried = "*" not in plan.configuration.get("keep", ["*"]) if several else bool(plan.memory_floor_op)
    trained = not tried and any(op.phase == "backward" for op in plan.ops)
    recompute = ", and recomputing activations (torch.utils.checkpoint) keeps fewer of them" if trained else ""
    return f"A smaller batch shrinks most of the {shrinking} beside parameters and constants{recompute}."


def _listed(parts: list[str], last: str = "and") -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {last} {parts[-1]}"
