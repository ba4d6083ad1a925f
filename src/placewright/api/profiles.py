"""What was measured on this host: op times, shared by all models, and devices with their links.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch.optim import Optimizer

from placewright.api.functions import plan as make_plan
from placewright.costs.measured import write_measured
from placewright.execution.devices import cores_of, local_machine
from placewright.execution.op_library import read_library, write_library
from placewright.execution.profile_summary import Handover
from placewright.execution.pytorch.handover import link_of, measure_handovers
from placewright.execution.pytorch.profile import Library, Profiled, profile_program
from placewright.execution.pytorch.program import TorchProgram
from placewright.execution.pytorch.rates import with_measured_rates
from placewright.execution.pytorch.step import TorchStep
from placewright.execution.workers import Workers
from placewright.graph import Graph
from placewright.importers import save_graph
from placewright.machine import Machine
from placewright.machines import load_machine
from placewright.machines.machine_file import write_machine_file
from placewright.support.files import locked_folder

LIBRARY, DEVICES = "op-library.csv", "devices.toml"


@dataclass(frozen=True, kw_only=True)
class OpTimes:
    """Files of op times for one program.

    alone: of a device while all others are idle. shared: of each while all compute; the same file for one device.
    """

    alone: Path
    shared: Path


class Profile:
    """What was measured so far, in a folder or, without one, in memory."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._library: Library = {} if folder is None else read_library(folder / LIBRARY)

    def machine(self, devices: str | Sequence[str]) -> tuple[Machine, list[Handover]]:
        """Those devices of this host with measured links: as the folder has them, else measured now and kept there.

        Returns beside it the handovers that were measured now.
        """
        machine = local_machine(devices)
        path = None if self.folder is None else self.folder / DEVICES
        if path is not None and path.exists() and _alike(known := load_machine(path), machine):
            return known, []
        cores = cores_of(machine.num_devices)
        handovers = measure_handovers(cores[:2]) if machine.num_devices > 1 else []
        if handovers:
            machine = replace(machine, links=((link_of(handovers),) * machine.num_devices,) * machine.num_devices)
        if path is not None:
            rated = tuple(with_measured_rates(device, cores) for device in machine.devices[:1])
            machine = replace(machine, devices=tuple(replace(rated[0], name=device.name) for device in machine.devices))
            with locked_folder(path.parent, "another process profiles into"):
                write_machine_file(machine, path, "Measured by placewright profile.")
        return machine, handovers

    def measure(
        self,
        program: TorchProgram,
        machine: Machine,
        parameters: Sequence[Any],
        tensors: Sequence[Any],
        optimizer: Optimizer | None = None,
    ) -> Profiled:
        """Op times of a program on the machine's first device; what was new is kept."""
        cores = cores_of(machine.num_devices)
        workers = Workers(cores[:1])
        known = dict(self._library)
        try:
            alone = make_plan(program.graph, first_device(machine), solver="input-order")
            step = TorchStep(program, alone, workers)
            profiled = profile_program(step, cores, parameters, tensors, self._library, optimizer)
        finally:
            workers.close()
        if self.folder is not None and profiled.num_timed:
            with locked_folder(self.folder, "another process profiles into"):
                new = {sort: times for sort, times in self._library.items() if sort not in known}
                self._library = read_library(self.folder / LIBRARY) | new
                write_library(self.folder / LIBRARY, self._library)
        return profiled


def write_times(profiled: Profiled, machine: Machine, folder: Path, name: str) -> OpTimes:
    """Writes the files of op times of a program: "NAME.csv", and "NAME-alone.csv" where there are several devices."""
    kind = machine.devices[0].kind
    times = OpTimes(alone=folder / f"{name}-alone.csv", shared=folder / f"{name}.csv")
    write_measured(times.shared, profiled.shared, kind)
    if machine.num_devices == 1:
        return OpTimes(alone=times.shared, shared=times.shared)
    write_measured(times.alone, profiled.alone, kind)
    return times


def mode_name(graph: Graph) -> str:
    """What files of a program are called: "Net-training"."""
    return f"{graph.name}-{graph.metadata.get('mode', 'inference')}"


def write_graph(graph: Graph, folder: Path, name: str) -> Path:
    """Writes the graph, for `placewright plan`."""
    path = folder / f"{name}.json.gz"
    save_graph(graph, path)
    return path


def first_device(machine: Machine) -> Machine:
    """The machine without its other devices."""
    return replace(machine, devices=machine.devices[:1], links=(machine.links[0][:1],))


def _alike(known: Machine, wanted: Machine) -> bool:
    return [(device.name, device.kind) for device in known.devices] == [
        (device.name, device.kind) for device in wanted.devices
    ]
