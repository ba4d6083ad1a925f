"""Error of the roofline's op times on this CPU, by kind: measured over estimated.

    python benchmarks/roofline_error.py                   ten networks, inference and two training steps, five minutes
    python benchmarks/roofline_error.py --quick           the smallest network
    python benchmarks/roofline_error.py --efficiencies    also what efficiencies would put the medians at 1

Every op is timed at its place in a step, on one core with one thread, as processor time of that thread, so that
other processes matter little. Estimates are those of the CPU preset for a device of one core, which plans rest on where
nothing was measured.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from zoo_modules import module_of

import placewright
from placewright.costs import estimate_costs
from placewright.costs.estimate import compute_dtype, peak_flops_per_s
from placewright.execution.devices import available_cores, cores_of, local_machine
from placewright.machine import Device, Machine

NETWORKS = (
    *("inception_v3", "nasnet_a_mobile", "mobilenet_v2", "densenet121", "resnet18", "ghostnet"),
    *("bert_tiny", "mmoe", "lstm1", "convnext_tiny"),
)
TRAINED = ("mobilenet_v2", "bert_tiny")
QUICK = ("lenet5",)
BATCH, PASSES = 2, 5
#: The time of an op on fewer bytes tells nothing about rates, but the time per op.
_SMALL_BYTES = 4096


@dataclass(frozen=True)
class Timed:
    """One op: its kind, its measured and estimated time in ns, its work, and the device's peak for it."""

    kind: str
    measured_ns: float
    estimated_ns: float
    flops: int
    moved_bytes: int
    peak_flops_per_s: float


def one_core() -> Machine:
    """A machine of one core of this host."""
    machine = local_machine([f"cpu:{number}" for number in range(len(available_cores()))])
    return replace(machine, devices=machine.devices[:1], links=(machine.links[0][:1],))


def timed_ops(name: str, *, training: bool) -> Iterator[Timed]:
    """Every op of a network that takes time."""
    model, args = module_of(name, BATCH)
    with placewright.compile(model, args, devices="cpu:0", training=training, solver="input-order") as compiled:
        captured, values = compiled.captured("the error of the roofline", args, {})
    program, machine = captured.program, one_core()
    costs = estimate_costs(program.graph, machine)
    measured = measured_ns(program, machine, *program.split(values))
    tensors = program.graph.tensors
    for index, op in enumerate(program.graph.ops):
        if op.kind not in ("view", "input"):
            dtype = compute_dtype(op, [tensors[t] for t in op.inputs], [tensors[t] for t in op.outputs])
            peak = peak_flops_per_s(machine.devices[0], dtype) or 1.0
            work = int(costs.flops[index]), int(costs.bytes_moved[index])
            yield Timed(op.kind, measured[index], float(costs.time_ns[index, 0]), *work, peak)


def measured_ns(program: Any, machine: Machine, parameters: Sequence[Any], tensors: Sequence[Any]) -> list[float]:
    """Processor time of each op on one core, the median over passes."""
    import torch

    from placewright.execution.channels import Channels
    from placewright.execution.pytorch.code import device_code
    from placewright.execution.pytorch.profile import as_passes
    from placewright.execution.steps import steps_of
    from placewright.execution.workers import Workers

    times = [-1] * (2 * len(program.graph.ops))
    clock = time.thread_time_ns
    samples: list[list[int]] = []
    costs: list[int] = []

    def observe(place: int) -> None:
        times[place] = clock()

    plan = placewright.plan(program.graph, machine, solver="input-order")
    code = device_code(program, steps_of(plan, program.graph), 0, Channels(0), list(program.parameters), observe)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def run() -> None:
        for _ in range(PASSES + 1):
            code.function(parameters, list(tensors), {})
            samples.append(list(times))
        began = clock()
        for _ in range(1000):
            observe(0)
        costs.append((clock() - began) // 1000)

    workers = Workers(cores_of(len(available_cores()))[:1])
    workers.run([run], lambda: None)
    workers.close()
    passes = as_passes(samples[1:])
    taken = np.median(passes[:, :, 1] - passes[:, :, 0], axis=0) - costs[0]
    return [max(1.0, each) for each in taken.tolist()]


def print_errors(ops: Sequence[Timed]) -> None:
    print("| kind | ops | share of time | measured / roofline: median | middle eight tenths |")
    print("|---|---|---|---|---|")
    by_kind: dict[str, list[Timed]] = defaultdict(list)
    for op in ops:
        by_kind[op.kind].append(op)
    total = sum(op.measured_ns for op in ops)
    for kind, those in sorted(by_kind.items(), key=lambda item: -sum(op.measured_ns for op in item[1])):
        print(error_row(kind, those, total))
    print(error_row("all", ops, total))
    steps = total / sum(op.estimated_ns for op in ops)
    print(f"\nAll ops together took {steps:.2f} times what the roofline says.")


def error_row(kind: str, ops: Sequence[Timed], total: float) -> str:
    ratios = np.array([op.measured_ns / max(1.0, op.estimated_ns) for op in ops])
    low, middle, high = np.percentile(ratios, [10, 50, 90])
    share = sum(op.measured_ns for op in ops) / total
    return f"| {kind} | {len(ops):,} | {share:.1%} | {middle:.2f} | {low:.2f} - {high:.2f} |"


def print_efficiencies(ops: Sequence[Timed], device: Device) -> None:
    """Prints the time of the quickest tenth of the smallest ops, and the shares of the peak and of the bandwidth that
    compute-bound and bandwidth-bound ops reach: medians over ops, each weighted by its time."""
    per_op = np.percentile([op.measured_ns for op in ops if op.moved_bytes < _SMALL_BYTES and op.flops < 1e5], 10)
    assumed_us = device.launch_overhead_ns / 1e3
    print(f"\nThe quickest tenth of the smallest ops take {per_op / 1e3:.1f} us (assumed {assumed_us:.1f}).")
    bandwidth = device.memory_bandwidth_bytes_per_s or 1.0
    reached: dict[str, list[tuple[float, float]]] = {"compute": [], "bandwidth": []}
    for op in ops:
        busy = op.measured_ns - per_op
        if busy < 2 * per_op:
            continue
        compute, memory = op.flops / op.peak_flops_per_s * 1e9, op.moved_bytes / bandwidth * 1e9
        if op.kind in ("matmul", "conv", "conv_backward", "rnn", "rnn_backward", "attention"):
            reached["compute"].append((compute / busy, op.measured_ns))
        elif op.kind in ("elementwise", "copy", "reduction", "normalization"):
            reached["bandwidth"].append((memory / busy, op.measured_ns))
    for what, shares in reached.items():
        if shares:
            low, middle, high = weighted_quantiles(shares, (0.1, 0.5, 0.9))
            assumed = device.compute_efficiency if what == "compute" else device.bandwidth_efficiency
            print(
                f"{what} efficiency: {middle:.2f}, middle eight tenths {low:.2f} - {high:.2f} (assumed {assumed:.2f})"
            )
    print(f"bandwidth of a core: {bandwidth / 1e9:.1f} GB/s assumed")


def weighted_quantiles(shares: Sequence[tuple[float, float]], at: Sequence[float]) -> list[float]:
    ordered = sorted(shares)
    weights = np.cumsum([weight for _, weight in ordered])
    return [ordered[int(np.searchsorted(weights, place * weights[-1]))][0] for place in at]


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--networks", nargs="+", metavar="NAME", default=NETWORKS)
    options.add_argument("--quick", action="store_true", help="the smallest network alone")
    options.add_argument("--efficiencies", action="store_true", help="what efficiencies would put the medians at 1")
    return options


def main() -> None:
    arguments = parser().parse_args()
    inferred = QUICK if arguments.quick else tuple(arguments.networks)
    trained = QUICK if arguments.quick else tuple(name for name in TRAINED if name in inferred)
    ops: list[Timed] = []
    for training, names in ((False, inferred), (True, trained)):
        for found in map(partial(timed_ops, training=training), names):
            ops += found
    print_errors(ops)
    if arguments.efficiencies:
        print_efficiencies(ops, one_core().devices[0])


if __name__ == "__main__":
    main()
