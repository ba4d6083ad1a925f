"""Measurements on this host: op times, shared by all models, and devices with their links.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from placewright.analysis.advice import shortage_words
from placewright.api.beside_one_device import OpTimes
from placewright.api.functions import plan as make_plan
from placewright.costs.measured import write_measured_by_device
from placewright.execution.devices import cores_of
from placewright.execution.op_library import read_library, write_library
from placewright.execution.profile_summary import Handover
from placewright.execution.pytorch.cuda import places_of
from placewright.execution.pytorch.handover import link_of, measure_handovers
from placewright.execution.pytorch.link_times import links_between
from placewright.execution.pytorch.machine import cores_by_device, torch_machine
from placewright.execution.pytorch.places import Place, drivers_of, out_of_memory
from placewright.execution.pytorch.profile import Library, Profiled, profile_program
from placewright.execution.pytorch.program import TorchProgram
from placewright.execution.pytorch.rates import with_measured_rates
from placewright.execution.pytorch.residents import on_host, what_stays
from placewright.execution.pytorch.step import TorchStep
from placewright.execution.workers import Workers
from placewright.graph import Graph
from placewright.importers import save_graph
from placewright.machine import Link, Machine
from placewright.machines import load_machine
from placewright.machines.devices_file import write_machine_file
from placewright.machines.topology import only
from placewright.plans.record import Plan
from placewright.support.errors import InputError
from placewright.support.files import locked_folder, read_text, write_atomically

LIBRARY = "op-library.csv"


class Profile:
    """The measurements so far, in a folder or, without one, in memory."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._library: Library = {} if folder is None else read_library(folder / LIBRARY)

    def machine(self, devices: str | Sequence[str], *, recorded: bool = False) -> tuple[Machine, list[Handover]]:
        """The named devices of this host with measured links, read from the folder, or else measured and kept there.

        recorded: whether steps will be replays of a CUDA graph. Also returns the handovers that were measured now.
        """
        machine = torch_machine(devices, recorded=recorded)
        path = None if self.folder is None else self.folder / devices_name(machine)
        if path is not None and path.exists() and _alike(known := load_machine(path), machine):
            return known, []
        names = [device.name for device in machine.devices]
        places = places_of(names)
        on_host = [number for number, place in enumerate(places) if place.driver is None]
        cores = cores_of(len(on_host)) if on_host else []
        handovers = measure_handovers(cores[:2]) if len(cores) > 1 else []
        if handovers or len(cores) < len(places):
            between = link_of(handovers) if handovers else Link()
            machine = replace(machine, links=links_between(places, between, recorded=recorded))
        if path is not None:
            machine = _with_rates(machine, on_host, cores)
            with locked_folder(path.parent, "another process profiles into"):
                write_machine_file(machine, path, "Measured by placewright profile.")
        return machine, handovers

    def measure(
        self,
        program: TorchProgram,
        machine: Machine,
        parameters: Sequence[Any],
        tensors: Sequence[Any],
        places: Sequence[Place] = (),
        *,
        memory_limit: int | None = None,
    ) -> dict[str, Profiled]:
        """Op times of a program by kind of device, each on the first device of its kind; new times are kept.

        places: of the machine's devices, where they are not all on the host. memory_limit: in bytes, of the step that
        is timed where the whole one does not fit one device.
        """
        known = dict(self._library)
        cores = cores_by_device(machine)
        kinds = [device.kind for device in machine.devices]
        drivers = drivers_of(places)
        found = {}
        for kind in dict.fromkeys(kinds):
            members = [number for number, each in enumerate(kinds) if each == kind]
            theirs = [places[number] for number in members] if places else []
            timed: tuple[TorchProgram, Sequence[Any], Sequence[Any]] = program, parameters, tensors
            if drivers and theirs[0].driver is None:
                # The host computes with copies of what the module has on an accelerator.
                constants = zip(program.constants, on_host([*program.constants.values()], drivers), strict=True)
                timed = (
                    replace(program, constants=dict(constants)),
                    on_host(parameters, drivers),
                    on_host(tensors, drivers),
                )
            found[kind] = self._of_kind(
                only(machine, members[0]),
                [cores[number] for number in members],
                theirs,
                *timed,
                memory_limit,
            )
        if self.folder is not None and any(profiled.num_timed for profiled in found.values()):
            with locked_folder(self.folder, "another process profiles into"):
                new = {sort: times for sort, times in self._library.items() if sort not in known}
                self._library = read_library(self.folder / LIBRARY) | new
                write_library(self.folder / LIBRARY, self._library)
        return found

    def _of_kind(
        self,
        first: Machine,
        cores: Sequence[frozenset[int]],
        places: Sequence[Place],
        program: TorchProgram,
        parameters: Sequence[Any],
        tensors: Sequence[Any],
        memory_limit: int | None,
    ) -> Profiled:
        """Op times for one kind of device.

        first: the machine of the first device of the kind. cores, places: of all of that kind.
        """
        workers = Workers(cores[:1])

        def profiled(plan: Plan) -> Profiled:
            step = TorchStep(program, plan, workers, places[:1])
            recorded = first.launch == "graphs"
            return profile_program(step, cores, parameters, tensors, self._library, places, recorded=recorded)

        try:
            alone = make_plan(program.graph, first, solver="input-order")
            try:
                return profiled(alone)
            except (RuntimeError, MemoryError) as error:
                if memory_limit is None or not (out_of_memory(error) or out_of_memory(error.__cause__)):
                    raise
            # A step that does not fit is timed as it would fit by the cost model; this covers all sorts of ops.
            keep = what_stays(parameters, places, recorded=first.launch == "graphs")
            within = make_plan(program.graph, first, solver="input-order", memory_limit=memory_limit, keep=keep)
            if within.status == "infeasible":
                raise InputError(shortage_words(within))
            profiled(within)
            return profiled(alone)
        finally:
            workers.close()


def write_times(profiled: Mapping[str, Profiled], machine: Machine, folder: Path, name: str) -> OpTimes:
    """Writes the files of op times of a program: "NAME.csv", and "NAME-alone.csv" where there are several devices."""
    times = OpTimes(alone=folder / f"{name}-alone.csv", shared=folder / f"{name}.csv")
    write_measured_by_device(times.shared, {kind: each.shared for kind, each in profiled.items()})
    if machine.num_devices == 1:
        return OpTimes(alone=times.shared, shared=times.shared)
    write_measured_by_device(times.alone, {kind: each.alone for kind, each in profiled.items()})
    return times


def of_first_device(times: Path, machine: Machine, folder: Path) -> Path:
    """A file of op times without the rows that are for other devices than the machine's first."""
    first = machine.devices[0]
    if all(device.kind == first.kind for device in machine.devices):
        return times
    lines = list(csv.reader(read_text(times).splitlines()))
    header = [cell.strip() for cell in lines[0]] if lines else []
    if "device" not in header:
        return times  # Its reader reports the error.
    column = header.index("device")
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        cells
        for number, cells in enumerate(lines)
        if not number or len(cells) <= column or cells[column].strip() in ("*", first.name, first.kind)
    )
    path = folder / f"first-device-{times.name}"
    write_atomically(path, text.getvalue().encode())
    return path


def mode_name(graph: Graph) -> str:
    """The name that files of a program begin with: "Net-training"."""
    return f"{graph.name}-{graph.metadata.get('mode', 'inference')}"


def times_name(graph: Graph, machine: Machine) -> str:
    """The name of files of op times; those of recorded steps have their own: "Net-training-recorded"."""
    return f"{mode_name(graph)}{'-recorded' if machine.launch == 'graphs' else ''}"


def devices_name(machine: Machine) -> str:
    """The name of the file of measured devices."""
    return "devices-recorded.toml" if machine.launch == "graphs" else "devices.toml"


def write_graph(graph: Graph, folder: Path, name: str) -> Path:
    """Writes the graph, for `placewright plan`."""
    path = folder / f"{name}.json.gz"
    save_graph(graph, path)
    return path


def first_device(machine: Machine) -> Machine:
    """The machine with its first device alone."""
    return only(machine, 0)


def _with_rates(machine: Machine, on_host: Sequence[int], cores: Sequence[frozenset[int]]) -> Machine:
    """The machine with the measured rates of its CPU devices; GPUs keep those of their presets."""
    if not on_host:
        return machine
    rated = with_measured_rates(machine.devices[on_host[0]], cores)
    devices = (
        replace(rated, name=device.name) if number in on_host else device
        for number, device in enumerate(machine.devices)
    )
    return replace(machine, devices=tuple(devices))


def _alike(known: Machine, wanted: Machine) -> bool:
    named = [[(device.name, device.kind) for device in machine.devices] for machine in (known, wanted)]
    return named[0] == named[1] and known.launch == wanted.launch
