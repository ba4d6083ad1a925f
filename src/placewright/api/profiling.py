"""`placewright.profile`: times of ops and links on this host, kept in a folder for plans of this and other models.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from placewright.api.compiled import Compiled
from placewright.api.local_devices import Devices
from placewright.api.module_capture import Call
from placewright.api.planned_graphs import Wishes
from placewright.api.profiles import LIBRARY, Profile, devices_name, mode_name, times_name, write_graph, write_times
from placewright.api.questions import Answer, answer
from placewright.execution.profile_summary import DeviceRates, Handover, KindTimes, ProfileSummary
from placewright.execution.pytorch.profile import Profiled
from placewright.execution.pytorch.program import TorchProgram
from placewright.graph import Graph
from placewright.machine import Device, Machine
from placewright.support.files import make_folder
from placewright.terminal.profile_table import profile_table


def profile_model(
    model: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    devices: str | Sequence[str],
    folder: Path,
    training: bool,
    loss: Any,
    cuda_graph: bool,
) -> Answer[ProfileSummary]:
    """Measure ops and links; return the answer of `placewright.profile`."""
    make_folder(folder)
    profile = Profile(folder)
    machine, handovers = profile.machine(devices, recorded=cuda_graph)
    call = Call(model=model, training=training, loss=loss)
    wishes = Wishes(options={"solver": "input-order"})
    with Compiled(call, Devices(machine, profile), wishes) as compiled:
        graph, _ = compiled.captured("profile", args, kwargs)
    profiled = graph.profiled
    found = _summary(
        graph.program, machine, profiled, handovers, _written(graph.program.graph, machine, profiled, folder)
    )
    return answer(found, profile_table(found))


def _written(graph: Graph, machine: Machine, profiled: Mapping[str, Profiled], folder: Path) -> dict[str, str]:
    times = write_times(profiled, machine, folder, times_name(graph, machine))
    files = {str(write_graph(graph, folder, mode_name(graph))): "graph", str(times.shared): "op times"}
    if times.alone != times.shared:
        files[str(times.alone)] = "op times of one device alone"
    return files | {str(folder / devices_name(machine)): "devices", str(folder / LIBRARY): "op times for other models"}


def _summary(
    program: TorchProgram,
    machine: Machine,
    profiled: Mapping[str, Profiled],
    handovers: Sequence[Handover],
    files: dict[str, str],
) -> ProfileSummary:
    link = machine.links[0][1] if machine.num_devices > 1 else None
    rate = None if link is None else link.bandwidth_bytes_per_s
    return ProfileSummary(
        schema_version=1,
        name=program.graph.name,
        num_timed=sum(each.num_timed for each in profiled.values()),
        num_known=sum(each.num_known for each in profiled.values()),
        kinds=tuple(
            row
            for device, each in profiled.items()
            for row in sorted(_kinds(program.graph, device, each), key=lambda kind: -kind.shared_ns)
        ),
        devices=tuple(_rates(device) for device in machine.devices),
        link_latency_ns=None if link is None else link.latency_ns,
        link_bandwidth_bytes_per_s=None if rate is None else round(rate),
        handovers=tuple(handovers),
        files=files,
    )


def _kinds(graph: Graph, device: str, profiled: Profiled) -> Iterator[KindTimes]:
    names: dict[str, list[str]] = {}
    for op in graph.ops:
        if op.kind not in ("view", "input"):
            names.setdefault(op.kind, []).append(op.name)
    for kind, ops in names.items():
        yield KindTimes(
            kind=kind,
            device=device,
            num_ops=len(ops),
            alone_ns=sum(profiled.alone[name].time_ns for name in ops),
            shared_ns=sum(profiled.shared[name].time_ns for name in ops),
        )


def _rates(device: Device) -> DeviceRates:
    return DeviceRates(
        name=device.name,
        kind=device.kind,
        flops_per_s=round(device.peak_flops_per_s["float32"] * device.compute_efficiency),
        bandwidth_bytes_per_s=round((device.memory_bandwidth_bytes_per_s or 0) * device.bandwidth_efficiency),
        least_op_ns=device.launch_overhead_ns,
    )
