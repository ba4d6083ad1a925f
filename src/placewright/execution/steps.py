"""The steps of each device for a plan, in order: ops, tensors handed to other devices, waiting, memory released.

A view is computed on every device where something reads it, just before its first reader: it costs next to nothing, and
the tensor it views is there already, moved by the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from placewright.graph import HOST_TARGET, LEAVE_TARGET, Graph
from placewright.plans.record import Plan, ScheduledOp, Transfer
from placewright.problem.lowering import lower
from placewright.support.errors import InputError, shown


@dataclass(frozen=True, slots=True)
class Run:
    """Run an op, views included: its inputs are here."""

    op: int


@dataclass(frozen=True, slots=True)
class Send:
    """Hand a tensor to another device, over a channel of its own."""

    tensor: int
    destination: int
    channel: int


@dataclass(frozen=True, slots=True)
class Receive:
    """Wait for a tensor that another device sends."""

    tensor: int
    source: int
    channel: int


@dataclass(frozen=True, slots=True)
class Signal:
    """Tell another device that all steps up to here are done."""

    destination: int
    channel: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for another device's signal."""

    source: int
    channel: int


@dataclass(frozen=True, slots=True)
class Release:
    """Release these tensors: nothing on this device reads them any more."""

    tensors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """Run several ops by one call. inputs: tensors it reads that others made; outputs: those that others read."""

    ops: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Leave:
    """Begin to copy a tensor to the host's memory."""

    tensor: int


@dataclass(frozen=True, slots=True)
class Left:
    """Wait until the copy to the host is made; the tensor may be released then."""

    tensor: int


@dataclass(frozen=True, slots=True)
class Fetch:
    """Begin to bring a tensor back from the host. tensor: its new name here; copy: the one that left."""

    tensor: int
    copy: int


@dataclass(frozen=True, slots=True)
class Arrive:
    """Wait until the tensor has arrived from the host."""

    tensor: int


Step: TypeAlias = Run | Leave | Left | Fetch | Arrive | Send | Receive | Signal | Wait | Release | Region


@dataclass(frozen=True, kw_only=True)
class Steps:
    """The steps of all devices.

    of_device: the steps of each device that computes, in its order. num_channels: of sends and signals together; each
    is used once. output_device: for each output of the graph, by index of the tensor, the device that holds it at the
    end.
    """

    of_device: tuple[tuple[Step, ...], ...]
    num_channels: int
    output_device: dict[int, int]


def steps_of(plan: Plan, graph: Graph) -> Steps:
    """The steps of a plan for `graph`. Raises InputError when the plan puts an op where an input never arrives."""
    devices = [_Device(graph, index) for index, device in enumerate(plan.machine.devices) if not device.is_host]
    builder = _Builder(graph, devices)
    for step in in_turn(plan):
        if isinstance(step, ScheduledOp):
            builder.run(step)
        elif step.destination == len(devices):
            builder.leave(step)
        elif step.source == len(devices):
            builder.fetch(step)
        else:
            builder.move(step)
    output_device = builder.keep_outputs()
    builder.receive_the_rest()
    return Steps(
        of_device=tuple(
            tuple(_with_releases(list(chain.from_iterable(device.groups)), graph, output_device, device.index))
            for device in devices
        ),
        num_channels=builder.num_channels,
        output_device=output_device,
    )


def in_turn(plan: Plan) -> list[ScheduledOp | Transfer]:
    """Ops and transfers in one order that is that of each device."""
    # Positions number one order of all devices; the times say when a device's turn comes. Where control dependencies
    # are kept by the order alone, a successor may start first, so there the order alone counts.
    turn = (lambda step: step.position) if plan.control == "order" else (lambda step: (step.start_ns, step.position))
    scheduled: list[ScheduledOp | Transfer] = [*plan.ops, *plan.transfers]
    return sorted(scheduled, key=turn)


class _Device:
    """The steps of one device so far, and the tensors that it has.

    groups: an op with what it waits for and the signals after it, or a tensor that is sent. arrives: channel and source
    of the tensors that are sent to it and not yet received. fetched: those that come back from the host's memory. seen:
    for each other device, how many groups are known to be done. before_latest: how many groups precede its latest op,
    which is planned to finish at latest_finish_ns.
    """

    def __init__(self, graph: Graph, index: int) -> None:
        self.index = index
        self.groups: list[list[Step]] = []
        self.waits: list[Step] = []
        self.present = {tensor for tensor, op in enumerate(graph.producer_of) if op < 0}
        self.arrives: dict[int, tuple[int, int]] = {}
        self.fetched: set[int] = set()
        self.seen: dict[int, int] = {}
        self.before_latest = 0
        self.latest_finish_ns = 0

    def add(self, step: Step) -> int:
        """Adds a step behind its waits; returns the number of groups including it."""
        self.groups.append([*self.waits, step])
        self.waits = []
        return len(self.groups)


class _Builder:
    """All devices' steps under construction, in the order of the plan."""

    def __init__(self, graph: Graph, devices: Sequence[_Device]) -> None:
        self.graph = graph
        self.devices = devices
        self.num_channels = 0
        self.op_of = {op.name: index for index, op in enumerate(graph.ops)}
        self.tensor_of = {tensor.name: index for index, tensor in enumerate(graph.tensors)}
        self.predecessors = _control_predecessors(graph)
        #: For each op that ran: its device, and how many groups that device has done, including it.
        self.done: dict[int, tuple[int, int]] = {}
        #: For each channel: how many groups its source has done when it is used.
        self.sent_at: list[int] = []

    def run(self, scheduled: ScheduledOp) -> None:
        op = self.op_of[scheduled.name]
        if self.graph.ops[op].target == HOST_TARGET:
            return  # The moves themselves add the waits on the device.
        device = self.devices[scheduled.device]
        for tensor in needs_of(op, self.graph):
            self.bring(tensor, device)
        for before in self.predecessors.get(op, ()):
            self.wait_for(before, device)
        if self.graph.ops[op].target == LEAVE_TARGET:
            device.add(Left(self.graph.ops[op].inputs[0]))
            return
        device.before_latest, device.latest_finish_ns = len(device.groups), scheduled.finish_ns
        self.add_run(op, device)

    def move(self, transfer: Transfer) -> None:
        tensor = self.tensor_of.get(transfer.tensor)
        if tensor is None:
            return  # A control tensor: the signals of control dependencies replace it.
        source, destination = self.devices[transfer.source], self.devices[transfer.destination]
        self.bring(tensor, source)
        channel = self.new_channel()
        self.sent_at.append(self.send(Send(tensor, destination.index, channel), source, transfer.start_ns))
        destination.arrives[tensor] = (channel, source.index)

    def leave(self, transfer: Transfer) -> None:
        """Starts the copy right behind the op that makes the tensor: it waits by itself."""
        tensor, source = self.tensor_of[transfer.tensor], self.devices[transfer.source]
        source.groups[self.done[self.graph.producer_of[tensor]][1] - 1].append(Leave(tensor))

    def fetch(self, transfer: Transfer) -> None:
        tensor, destination = self.tensor_of[transfer.tensor], self.devices[transfer.destination]
        step = Fetch(tensor, self.graph.ops[self.graph.producer_of[tensor]].inputs[0])
        self.insert(step, destination, transfer.start_ns)
        destination.fetched.add(tensor)

    def insert(self, step: Fetch, device: _Device, start_ns: int) -> None:
        """Adds the step before the op that runs at that time, if one does."""
        if start_ns < device.latest_finish_ns and device.before_latest > 0:
            device.groups[device.before_latest - 1].append(step)
        else:
            device.add(step)

    def send(self, step: Send, source: _Device, start_ns: int) -> int:
        """Adds a step to the source; returns how many of its groups are done by then. A device cannot send during an
        op, so the step goes before the op that runs at that time: behind it, the receiver would wait for all of the op.
        """
        made_by = self.done.get(self.graph.producer_of[step.tensor])
        groups = source.before_latest
        if start_ns < source.latest_finish_ns and made_by and made_by[0] == source.index and made_by[1] <= groups:
            source.groups[groups - 1].append(step)
            return groups
        return source.add(step)

    def bring(self, tensor: int, device: _Device) -> None:
        """Makes a tensor available on the device: receives it, or makes it as a view of one that is there."""
        if tensor in device.present:
            return
        if tensor in device.fetched:
            device.waits.append(Arrive(tensor))
            device.present.add(tensor)
            return
        if tensor in device.arrives:
            channel, source = device.arrives.pop(tensor)
            device.waits.append(Receive(tensor, source, channel))
            device.present.add(tensor)
            device.seen[source] = max(device.seen.get(source, 0), self.sent_at[channel])
            return
        op = self.graph.producer_of[tensor]
        if op < 0 or self.graph.ops[op].kind != "view":
            name, where = self.graph.tensors[tensor].name, device.index
            raise InputError(f"the plan reads the tensor '{shown(name)}' on device {where}, where it never arrives")
        for needed in needs_of(op, self.graph):
            self.bring(needed, device)
        self.add_run(op, device)

    def add_run(self, op: int, device: _Device) -> None:
        if self.graph.ops[op].kind == "view":
            for maker in self._makers_of_arguments(op):
                self.wait_for(maker, device)
        self.done[op] = (device.index, device.add(Run(op)))
        device.present.update(self.graph.ops[op].outputs)

    def _makers_of_arguments(self, view: int) -> Iterator[int]:
        """The ops that compute a view's arguments other than the tensor it views, through other views; in the plan its
        readers wait for them."""
        shows = needs_of(view, self.graph)
        pending, seen = [tensor for tensor in self.graph.ops[view].inputs if tensor not in shows], set[int]()
        while pending:
            op = self.graph.producer_of[pending.pop()]
            if op < 0 or op in seen:
                continue
            seen.add(op)
            if self.graph.ops[op].kind == "view":
                pending.extend(self.graph.ops[op].inputs)
            elif op in self.done:
                yield op

    def wait_for(self, op: int, device: _Device) -> None:
        """Orders the device's next step after an op, if nothing has done so yet."""
        if self.graph.ops[op].target in (HOST_TARGET, LEAVE_TARGET):
            return  # These wait at their own place.
        source, groups = self.done[op]
        if source == device.index or device.seen.get(source, 0) >= groups:
            return
        channel = self.new_channel()
        self.sent_at.append(groups)
        self.devices[source].groups[groups - 1].append(Signal(device.index, channel))
        device.waits.append(Wait(source, channel))
        device.seen[source] = groups

    def new_channel(self) -> int:
        self.num_channels += 1
        return self.num_channels - 1

    def keep_outputs(self) -> dict[int, int]:
        """Makes every output available on the device of the op that made its memory, and returns these devices."""
        device_of = {}
        for tensor, record in enumerate(self.graph.tensors):
            if not record.is_output:
                continue
            base = self.graph.base_of[tensor]
            maker = self.graph.producer_of[tensor]
            if maker >= 0 and self.graph.ops[maker].kind == "view":
                maker = self.graph.producer_of[base]
            device_of[tensor] = self.done[maker][0] if maker >= 0 else 0
            self.bring(tensor, self.devices[device_of[tensor]])
        return device_of

    def receive_the_rest(self) -> None:
        """Receives tensors that are sent and never read: a channel must be used once in every step."""
        for device in self.devices:
            for tensor in list(device.arrives):
                self.bring(tensor, device)
            if device.waits:
                device.groups.append(device.waits)


def _control_predecessors(graph: Graph) -> dict[int, list[int]]:
    """Ops that each op must follow without reading their results; views are passed through."""
    lowered = lower(graph, "signal")
    ops = lowered.graph_op.tolist()
    predecessors: dict[int, list[int]] = {}
    begin, successors = lowered.control_begin.tolist(), lowered.controls.tolist()
    for index, op in enumerate(ops):
        for successor in successors[begin[index] : begin[index + 1]]:
            predecessors.setdefault(ops[successor], []).append(op)
    return predecessors


def _with_releases(steps: Sequence[Step], graph: Graph, output_device: dict[int, int], device: int) -> Iterator[Step]:
    """The steps, each followed by the release of tensors that no later step touches."""
    kept = {tensor for tensor, holder in output_device.items() if holder == device}
    kept.update(tensor for tensor, op in enumerate(graph.producer_of) if op < 0)
    last: dict[int, int] = {}
    for index, step in enumerate(steps):
        last.update(dict.fromkeys(_touched(step, graph), index))
    released: dict[int, list[int]] = {}
    for tensor, index in last.items():
        if tensor not in kept:
            released.setdefault(index, []).append(tensor)
    for index, step in enumerate(steps):
        yield step
        if index in released:
            yield Release(tuple(sorted(released[index])))


def _touched(step: Step, graph: Graph) -> tuple[int, ...]:
    if isinstance(step, Run):
        return (*needs_of(step.op, graph), *graph.ops[step.op].outputs)
    return (step.tensor,) if isinstance(step, Send | Receive | Leave | Left | Fetch | Arrive) else ()


def needs_of(op: int, graph: Graph) -> tuple[int, ...]:
    """The tensors that must be there when an op runs: those it reads, and those it overwrites without reading. For a
    view only the tensor it views: its other arguments are never moved, and its readers wait for them
    (docs/semantics.md, Views)."""
    outputs = graph.ops[op].outputs
    aliases = [graph.tensors[tensor].alias_of for tensor in outputs]
    others = tuple(alias for alias in aliases if alias is not None and alias not in outputs)
    return others if graph.ops[op].kind == "view" else (*graph.ops[op].inputs, *others)
