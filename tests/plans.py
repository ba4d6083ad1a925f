"""Plans for tests of what reads plans: small ones by hand, large ones from a layered network placed greedily.

Times and memory follow docs/semantics.md in the overlapped model, in a few plain loops.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from placewright.machine import Device, Link, Machine
from placewright.plans.record import BaselineOutcome, Buffer, MemoryCurve, Plan, ScheduledOp, Transfer
from placewright.problem.objective import Metrics

MICROSECOND = 1_000
MIB = 2**20


@dataclass(frozen=True, kw_only=True)
class Node:
    """One op to be placed. device None: wherever it finishes first."""

    name: str
    kind: str = "matmul"
    module: str = ""
    phase: str = ""
    source: str = ""
    inputs: tuple[int, ...] = ()
    time_ns: int = 10 * MICROSECOND
    output_bytes: int = MIB
    workspace_bytes: int = 0
    parameter_bytes: int = 0
    device: int | None = None


@dataclass
class _Run:
    """The state while nodes are placed one after the other."""

    machine: Machine
    position: int = 0
    device_free: dict[int, tuple[int, int]] = field(default_factory=dict)
    link_free: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    arrival: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    ops: list[ScheduledOp] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)
    last_use: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)


def machine_of(num_devices: int, memory_bytes: int | None = None, model: str = "overlapped") -> Machine:
    """Equal devices gpu0, gpu1 ... with links of 12 GB/s and 2 us."""
    link = Link(bandwidth_bytes_per_s=12e9, latency_ns=2 * MICROSECOND)
    devices = tuple(Device(name=f"gpu{i}", kind="p100", memory_bytes=memory_bytes) for i in range(num_devices))
    links = ((link,) * num_devices,) * num_devices
    return Machine(name=f"{num_devices}xp100", devices=devices, links=links, transfer_model=model)  # type: ignore[arg-type]


def plan_of(nodes: Sequence[Node], machine: Machine, **changes: object) -> Plan:
    """A self-consistent plan that runs `nodes` in their order."""
    run = _Run(machine)
    for index, node in enumerate(nodes):
        _place(run, nodes, index, node)
    buffers, curves = _memory(run, nodes, machine.num_devices)
    limits = tuple(device.memory_bytes for device in machine.devices)
    metrics = _metrics(run, curves, limits)
    plan = Plan(
        graph_name="layered network",
        graph_fingerprint="0" * 64,
        num_graph_ops=len(nodes) + len(nodes) // 3,
        machine=machine,
        objective="step-time",
        control="signal",
        memory_limits_bytes=limits,
        ops=tuple(run.ops),
        transfers=tuple(run.transfers),
        buffers=buffers,
        memory_curves=curves,
        metrics=metrics,
        baselines=_baselines(metrics),
        lower_bound=sum(node.time_ns for node in nodes) // machine.num_devices,
        memory_floor_bytes=0,
        bound_reason="work divided over all devices",
        status="infeasible" if metrics.bytes_over_limit else "feasible",
        solver="auto",
        found_by="brkga",
        seed=0,
        evaluations=5000,
        seconds=0.84,
        stopped_because="evaluations",
        configuration={"population": 100, "elites": 20},
        version="0.1.0",
    )
    return replace(plan, **changes)  # type: ignore[arg-type]


def small_plan(**changes: object) -> Plan:
    """Four ops on two devices; every number can be worked out by hand.

    a (gpu0, 10 us) -> b (gpu0, 20 us) and c (gpu1, 30 us) -> d (gpu0, 10 us).
    a's MiB reaches gpu1 2 us + 1 MiB / 12 GB/s = 2,000 + 87,382 ns (rounded up) after 10,000, at 99,382; c runs to
    129,382 and its MiB is back at 218,764; d runs to 228,764.
    gpu0 holds a, b, c's copy and d: at most 4 MiB + 2 MiB of parameters, when d starts after a was freed: 3 + 2.
    """
    nodes = [
        Node(name="a", module="encoder.first", phase="forward", source="model.py:10", parameter_bytes=MIB, device=0),
        Node(name="b", module="encoder.second", inputs=(0,), time_ns=20_000, parameter_bytes=MIB, device=0),
        Node(name="c", module="decoder", inputs=(0,), kind="conv", time_ns=30_000, parameter_bytes=MIB, device=1),
        Node(name="d", module="head", inputs=(1, 2), kind="reduction", device=0),
    ]
    return plan_of(nodes, machine_of(2, 16 * MIB), **changes)


def layered_plan(num_ops: int, num_devices: int, *, seed: int = 0, memory_bytes: int | None = None) -> Plan:
    """A training step of parallel towers: forward, backward, optimizer; each op placed where it finishes first."""
    return plan_of(layered_nodes(num_ops, num_devices, seed), machine_of(num_devices, memory_bytes))


def layered_nodes(num_ops: int, num_towers: int, seed: int) -> list[Node]:
    """About 40% forward, 50% backward and 10% optimizer ops; each layer of a tower also reads its neighbour."""
    random_source = random.Random(seed)
    forward = [_forward_node(index, num_towers, random_source) for index in range(num_ops * 2 // 5)]
    backward_count = num_ops // 2
    nodes = list(forward)
    for step in range(backward_count):
        mirrored = len(forward) - 1 - step * len(forward) // backward_count
        inputs = (mirrored,) if step < num_towers else (mirrored, len(nodes) - num_towers)
        nodes.append(_backward_node(forward[mirrored], step, inputs, random_source))
    for step in range(num_ops - len(nodes)):
        gradient = len(forward) + step * backward_count // max(1, num_ops // 10)
        nodes.append(_optimizer_node(nodes[min(gradient, len(nodes) - 1)], step, min(gradient, len(nodes) - 1)))
    return nodes


_LAYER = (
    ("attention.query", "matmul"),
    ("attention", "attention"),
    ("attention.output", "matmul"),
    ("attention.dropout", "random"),
    ("norm1", "normalization"),
    ("mlp.up", "matmul"),
    ("mlp.act", "elementwise"),
    ("mlp.down", "matmul"),
    ("residual", "elementwise"),
    ("norm2", "normalization"),
)
_WITH_BACKWARD = {"attention", "normalization", "softmax", "conv", "embedding"}


def _forward_node(index: int, num_towers: int, source: random.Random) -> Node:
    tower, step = index % num_towers, index // num_towers
    part, kind = _LAYER[step % len(_LAYER)]
    inputs = tuple(i for i in (index - num_towers,) if i >= 0)
    if step % len(_LAYER) == 0 and index > num_towers:
        inputs += (index - num_towers - 1,)
    if step == 0:
        part, kind = "embedding", "embedding"
    heavy = kind in ("matmul", "attention")
    return Node(
        name=f"{part.replace('.', '_')}_{index}",
        kind=kind,
        module=f"tower{tower}.layer.{step // len(_LAYER)}.{part}",
        phase="forward",
        source=f"model/transformer.py:{40 + step % len(_LAYER) * 7}",
        inputs=inputs,
        time_ns=source.randint(80, 400) * MICROSECOND if heavy else source.randint(6, 40) * MICROSECOND,
        output_bytes=source.choice((1, 2, 4)) * MIB,
        workspace_bytes=MIB // 2 if kind == "attention" else 0,
        parameter_bytes=3 * MIB if kind == "matmul" else 4096 * (kind == "normalization"),
    )


def _backward_node(forward: Node, step: int, inputs: tuple[int, ...], source: random.Random) -> Node:
    return replace(
        forward,
        name=f"{forward.name}_backward_{step}",
        kind=forward.kind + "_backward" if forward.kind in _WITH_BACKWARD else forward.kind,
        phase="backward",
        inputs=inputs,
        time_ns=forward.time_ns * source.randint(9, 16) // 10,
        parameter_bytes=0,
    )


def _optimizer_node(gradient: Node, step: int, index: int) -> Node:
    return Node(
        name=f"adam_{step}",
        kind="optimizer",
        module=gradient.module,
        phase="optimizer",
        source="torch/optim/adam.py:512",
        inputs=(index,),
        time_ns=12 * MICROSECOND,
        output_bytes=0,
        workspace_bytes=MIB,
    )


def _place(run: _Run, nodes: Sequence[Node], index: int, node: Node) -> None:
    devices = range(run.machine.num_devices) if node.device is None else [node.device]
    device = min(devices, key=lambda d: (_ready(run, nodes, node, d)[0], d))
    for source in dict.fromkeys(node.inputs):
        if run.ops[source].device != device and (source, device) not in run.arrival:
            _send(run, nodes, source, device)
    start, waits_for = _ready(run, nodes, node, device)
    finish = start + node.time_ns
    for source in node.inputs:
        _use(run, source, device, finish, run.position)
    run.device_free[device] = (finish, run.position)
    run.ops.append(
        ScheduledOp(
            name=node.name,
            kind=node.kind,
            module=node.module,
            phase=node.phase,
            source=node.source,
            device=device,
            position=run.position,
            start_ns=start,
            finish_ns=finish,
            waits_for=waits_for,
            output_bytes=node.output_bytes,
        )
    )
    _use(run, index, device, finish, run.position)
    run.position += 1


def _ready(run: _Run, nodes: Sequence[Node], node: Node, device: int) -> tuple[int, int]:
    """The time at which `node` could start on `device`, and the position of the step it would wait for."""
    waits = [run.device_free.get(device, (0, -1))]
    for source in node.inputs:
        producer = run.ops[source]
        if producer.device == device:
            waits.append((producer.finish_ns, producer.position))
        elif (source, device) in run.arrival:
            waits.append(run.arrival[source, device])
        else:
            sent, _ = _send_time(run, source, device)
            link = run.machine.links[producer.device][device]
            waits.append((sent + link.transfer_time_ns(nodes[source].output_bytes), -1))
    latest = max(time for time, _ in waits)
    return latest, next(position for time, position in waits if time == latest)


def _send_time(run: _Run, source: int, device: int) -> tuple[int, int]:
    producer = run.ops[source]
    return max((producer.finish_ns, producer.position), run.link_free.get((producer.device, device), (0, -1)))


def _send(run: _Run, nodes: Sequence[Node], source: int, device: int) -> None:
    producer = run.ops[source]
    start, waits_for = _send_time(run, source, device)
    size = nodes[source].output_bytes
    finish = start + run.machine.links[producer.device][device].transfer_time_ns(size)
    run.link_free[producer.device, device] = run.arrival[source, device] = (finish, run.position)
    _use(run, source, producer.device, finish, run.position)
    run.transfers.append(
        Transfer(
            tensor=f"{producer.name}:0",
            producer=producer.name,
            source=producer.device,
            destination=device,
            size_bytes=size,
            position=run.position,
            start_ns=start,
            finish_ns=finish,
            waits_for=waits_for,
        )
    )
    run.position += 1


def _use(run: _Run, source: int, device: int, time: int, position: int) -> None:
    run.last_use[source, device] = max(run.last_use.get((source, device), (0, 0)), (time, 2 * position + 1))


def _memory(run: _Run, nodes: Sequence[Node], num_devices: int) -> tuple[tuple[Buffer, ...], tuple[MemoryCurve, ...]]:
    """Buffers sorted by (device, allocation), and one point per event, events ordered by (time, 2 * position + end)."""
    end = max(op.finish_ns for op in run.ops)
    index_of = {op.name: index for index, op in enumerate(run.ops)}
    held: list[tuple[Buffer, int, int]] = []  # buffer, rank of its start, rank of its end
    for index, (node, op) in enumerate(zip(nodes, run.ops, strict=True)):
        freed, rank = run.last_use[index, op.device]
        if node.parameter_bytes:
            weight = Buffer(
                name=f"{node.name}.weight",
                kind="resident",
                op="",
                device=op.device,
                size_bytes=node.parameter_bytes,
                allocated_ns=0,
                freed_ns=end,
            )
            held.append((weight, -1, 2**60))
        if node.output_bytes:
            held.append((_buffer(f"{op.name}:0", "tensor", op, node.output_bytes, freed), 2 * op.position, rank))
        if node.workspace_bytes:
            workspace = _buffer(op.name, "workspace", op, node.workspace_bytes, op.finish_ns)
            held.append((workspace, 2 * op.position, 2 * op.position + 1))
    for transfer in run.transfers:
        freed, rank = run.last_use[index_of[transfer.producer], transfer.destination]
        copy = Buffer(
            name=transfer.tensor,
            kind="copy",
            op=transfer.producer,
            device=transfer.destination,
            size_bytes=transfer.size_bytes,
            allocated_ns=transfer.start_ns,
            freed_ns=freed,
        )
        held.append((copy, 2 * transfer.position, rank))
    held.sort(key=lambda entry: (entry[0].device, entry[0].allocated_ns, entry[1]))
    curves = tuple(_curve([entry for entry in held if entry[0].device == device]) for device in range(num_devices))
    return tuple(buffer for buffer, _, _ in held), curves


def _buffer(name: str, kind: str, op: ScheduledOp, size: int, freed: int) -> Buffer:
    return Buffer(
        name=name,
        kind=kind,  # type: ignore[arg-type]
        op=op.name,
        device=op.device,
        size_bytes=size,
        allocated_ns=op.start_ns,
        freed_ns=freed,
    )


def _curve(held: Sequence[tuple[Buffer, int, int]]) -> MemoryCurve:
    residents = sum(buffer.size_bytes for buffer, start, _ in held if start < 0)
    change: dict[tuple[int, int], int] = {}
    for buffer, start, end in held:
        if start >= 0:
            change[buffer.allocated_ns, start] = change.get((buffer.allocated_ns, start), 0) + buffer.size_bytes
            change[buffer.freed_ns, end] = change.get((buffer.freed_ns, end), 0) - buffer.size_bytes
    times, in_use = [0], [residents]
    for (time, _), size in sorted(change.items()):
        times.append(time)
        in_use.append(in_use[-1] + size)
    return MemoryCurve(time_ns=tuple(times), bytes_in_use=tuple(in_use))


def _metrics(run: _Run, curves: Sequence[MemoryCurve], limits: Sequence[int | None]) -> Metrics:
    peaks = tuple(max(curve.bytes_in_use) for curve in curves)
    busy = [0] * len(curves)
    for op in run.ops:
        busy[op.device] += op.finish_ns - op.start_ns
    return Metrics(
        step_time_ns=max(op.finish_ns for op in run.ops),
        peak_memory_bytes=max(peaks),
        peak_bytes=peaks,
        busy_ns=tuple(busy),
        bytes_moved=sum(transfer.size_bytes for transfer in run.transfers),
        num_transfers=len(run.transfers),
        bytes_over_limit=sum(max(0, p - limit) for p, limit in zip(peaks, limits, strict=True) if limit is not None),
    )


def _baselines(metrics: Metrics) -> tuple[BaselineOutcome, ...]:
    """Outcomes around the plan's own: two better-looking ones that do not fit, one without an answer."""

    def outcome(name: str, percent: int, over: int = 0) -> BaselineOutcome:
        time, peak = metrics.step_time_ns * percent // 100, metrics.peak_memory_bytes * (200 - min(percent, 180)) // 100
        scaled = replace(metrics, step_time_ns=time, peak_memory_bytes=peak, bytes_over_limit=over)
        return BaselineOutcome(name=name, metrics=scaled, seconds=0.01)

    return (
        outcome("single-device", 212),
        outcome("input-order", 205),
        outcome("dfs", 219),
        outcome("bfs", 214),
        outcome("lpmf", 176),
        outcome("contiguous-split", 164),
        outcome("list", 113),
        outcome("etf", 109),
        outcome("segment-fill", 96, over=300 * MIB),
        outcome("reverse-greedy", 131, over=20 * MIB),
        BaselineOutcome(name="xla-list", metrics=None, seconds=0.002, note="needs one device"),
    )
