"""Plans on a GPU of this host: what PyTorch computes, planned and measured step time, planned and measured memory.

    python benchmarks/run_gpu.py                                 all rows, some six minutes
    python benchmarks/run_gpu.py --quick                         one small network on two streams
    python benchmarks/run_gpu.py --quick --devices cpu:0,cpu:1   the same on CPU devices, to try it without a GPU
    python benchmarks/run_gpu.py --out benchmarks/results/gpu    the table of rows that are there, wherever
    python benchmarks/run_gpu.py --torch-compile inception_v3 switch8   what PyTorch's compiler makes of one sample

A network runs on one stream of a GPU and on two, launched op by op or recorded as a CUDA graph; or on a GPU with the
CPU, where the GPU has a share of the memory that the network takes there alone. Every row is a process of its own and a
line of the file of rows, which a later call takes up: rows that are there are not made again. Then the table is
printed. `estimated` is one device's step by the roofline of the machine's preset, without any measurement.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from run_networks import ms, off, read_rows
from zoo_modules import module_of

import placewright

STREAMS, FOUR_STREAMS = "cuda:0/0,cuda:0/1", "cuda:0/0,cuda:0/1,cuda:0/2,cuda:0/3"
OFFLOADED = "cuda:0,cpu:0"


@dataclass(frozen=True)
class Case:
    """A network, its number of samples, whether it is trained, and where. cuda_graph: whether a step is recorded.
    share: the memory of the first device, as a share of what a step takes there alone; None for all of its own."""

    network: str
    batch: int
    training: bool = False
    devices: str = STREAMS
    cuda_graph: bool = False
    share: float | None = None

    def __str__(self) -> str:
        limited = "" if self.share is None else f", {self.share:.0%} of the memory"
        return f"{self.network} {self.batch}{' training' if self.training else ''}{limited}"


CASES = [
    *(Case(name, 1, cuda_graph=True) for name in ("inception_v3", "switch8", "nasnet_a_mobile", "googlenet")),
    *(Case(name, 1, devices=FOUR_STREAMS, cuda_graph=True) for name in ("inception_v3", "nasnet_a_mobile")),
    *(Case(name, 8, cuda_graph=True) for name in ("inception_v3", "switch8", "gnmt2", "bert_base")),
    Case("inception_v3", 1),
    Case("bert_base", 4, devices=OFFLOADED, share=0.6),
]
QUICK = [Case("lenet5", 2)]


def row_of(case: Case, profile: Path, steps: int) -> dict[str, Any]:
    """Planned and measured times and memory of one case. profile: its own folder of op times."""
    import torch

    model, arguments = module_of(case.network, case.batch)
    on_gpu = case.share is None and case.devices.startswith("cuda")
    if on_gpu:
        model, arguments = model.cuda(), tuple(each.cuda() for each in arguments)
    plain = copy.deepcopy(model)
    options: dict[str, Any] = {"training": case.training, "cuda_graph": case.cuda_graph}
    if case.share is not None:
        first = case.devices.split(",")[0]
        with placewright.compile(model, arguments, devices=first, **options) as alone:
            options["memory_limit"] = {first: int(case.share * alone.plan.peak_bytes[0])}
    began = time.perf_counter()
    profiled: dict[str, Any] = {"training": case.training, "cuda_graph": case.cuda_graph}
    placewright.profile(model, arguments, devices=case.devices, folder=profile, **profiled)
    options["profile"] = profile
    with placewright.compile(model, arguments, devices=case.devices, **options) as compiled:
        prepared = time.perf_counter() - began
        facts = compiled.compare(*arguments, steps=steps).facts
        found = asdict(facts)
        del found["ops"], found["devices"]
        return {
            **asdict(case),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
            "torch": torch.__version__,
            "prepared_s": round(prepared, 1),
            "estimated_ns": estimated_ns(compiled.plan, profile, case),
            "ops_by_device": [device.num_ops for device in facts.devices],
            "difference": difference(compiled, plain, arguments, training=case.training),
            "planned_peaks": list(compiled.plan.peak_bytes),
            "limit": options.get("memory_limit", {}),
            "measured_gpu_peak": None if on_gpu else gpu_peak(compiled, arguments),
            **found,
        }


def estimated_ns(plan: placewright.Plan, profile: Path, case: Case) -> int:
    """Time of a step on the first device by the roofline of its preset."""
    from placewright.api.profiles import first_device
    from placewright.machines import load_machine

    name = f"{plan.graph_name}-{'training' if case.training else 'inference'}"
    graph = placewright.load_graph(profile / f"{name}.json.gz")
    devices = "devices-recorded.toml" if case.cuda_graph else "devices.toml"
    machine = first_device(load_machine(profile / devices))
    return placewright.plan(graph, machine, solver="input-order").step_time_ns


def difference(compiled: Any, plain: Any, arguments: Sequence[Any], *, training: bool) -> float:
    """The largest difference between results of a planned step and of the module, over the module's largest value."""
    import torch

    from placewright.importers.torch.results import default_loss

    plain.train(training)
    torch.manual_seed(3)
    with torch.set_grad_enabled(training):
        expected = plain(*arguments)
    torch.manual_seed(3)
    returned = compiled(*arguments)
    if training:
        expected = default_loss(expected).detach()
    pairs = list(zip(tensors_in(returned), tensors_in(expected), strict=True))
    largest = max(float(other.abs().max()) for _, other in pairs)
    return max(float((own.to(other.device) - other).abs().max()) for own, other in pairs) / largest


def tensors_in(value: Any) -> list[Any]:
    import torch
    from torch.utils import _pytree as pytree

    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]


def gpu_peak(compiled: Any, arguments: Sequence[Any]) -> int | None:
    """The most bytes in use on the GPU in a step of a module that the host holds, copies of parameters among them. What
    the process had there before does not count: cuBLAS keeps 32 MiB for every thread and stream that used it."""
    import torch

    if not torch.cuda.is_available():
        return None
    compiled.synchronize()
    gc.collect()
    torch.cuda.synchronize()
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    compiled(*arguments)
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated() - held)


def torch_compile_ms(network: str) -> tuple[float, float]:
    """Median step of one sample in ms, with ops fused and recorded on one stream, and seconds until it is compiled."""
    import torch

    on_gpu = torch.cuda.is_available()
    model, arguments = module_of(network, 1)
    if on_gpu:
        model, arguments = model.cuda(), tuple(each.cuda() for each in arguments)
    compiled = torch.compile(model.eval(), mode="reduce-overhead")
    taken = []
    began = time.perf_counter()
    with torch.no_grad():
        for step in range(45):
            before = time.perf_counter()
            compiled(*arguments)
            if on_gpu:
                torch.cuda.synchronize()
            if step == 4:  # The first steps compile, warm up and record.
                ready = time.perf_counter() - began
            if step > 4:
                taken.append(1e3 * (time.perf_counter() - before))
    return median(taken), ready


def make_rows(cases: Sequence[Case], arguments: argparse.Namespace, path: Path) -> None:
    """Makes each missing row in a process of its own, so that one that fails leaves the others as they are."""
    there = {identity(row) for row in read_rows(path)}
    for case in cases:
        if identity(asdict(case)) in there:
            continue
        began = time.monotonic()
        command = [sys.executable, __file__, "--row", json.dumps(asdict(case)), "--out", str(arguments.out)]
        outcome = subprocess.run(
            [*command, "--steps", str(arguments.steps)], capture_output=True, text=True, check=False
        )
        if outcome.returncode:
            print(f"{case}: failed: {outcome.stderr.strip()[-1500:]}", file=sys.stderr, flush=True)
            continue
        with path.open("a") as file:
            file.write(outcome.stdout.splitlines()[-1] + "\n")
        print(f"{case}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def identity(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("network", "batch", "training", "devices", "cuda_graph", "share"))


def mib(size: int) -> str:
    return f"{size / 2**20:.0f}"


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    print("Times in ms, `one` on the first device alone, `all` as planned; peaks in MiB.\n")
    print("| network, batch | devices | ops | one: estimated | planned | measured | all: planned | measured |"
          " one / all | PyTorch | peak of one: planned | measured | difference |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        case = Case(*identity(row))
        alone, together = row["one_device_measured_ns"], row["measured_ns"]
        cells = (
            " + ".join(map(str, row["ops_by_device"])),
            ms(row["estimated_ns"]),
            ms(row["one_device_planned_ns"]),
            f"{ms(alone)} ({off(row['one_device_planned_ns'], alone)})",
            ms(row["planned_ns"]),
            f"{ms(together)} ({off(row['planned_ns'], together)})",
            f"{alone / together:.2f}",
            ms(row["eager_ns"]),
            mib(row["one_device_planned_peak_bytes"]),
            mib(row["one_device_measured_peak_bytes"]),
            "-" if row["difference"] is None else f"{row['difference']:.1e}",
        )
        where = "four streams" if case.devices == FOUR_STREAMS else "two streams" if case.devices == STREAMS else None
        how = f"{where or case.devices}{', recorded' if case.cuda_graph else ', launched'}"
        print(f"| {case} | {how} | {' | '.join(cells)} |")


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--networks", nargs="+", metavar="NAME")
    options.add_argument("--quick", action="store_true", help="one small network alone")
    options.add_argument("--torch-compile", nargs="+", metavar="NAME", help="time torch.compile instead")
    options.add_argument("--devices", help="instead of two streams of a GPU")
    options.add_argument("--steps", type=int, default=20, help="of each sort")
    options.add_argument("--out", type=Path, default=Path("out") / "run-gpu")
    options.add_argument("--row", help=argparse.SUPPRESS)
    return options


def main() -> None:
    arguments = parser().parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for network in arguments.torch_compile or ():
        step_ms, ready_s = torch_compile_ms(network)
        print(f"{network}: {step_ms:.2f} ms, after {ready_s:.0f} s")
    if arguments.torch_compile:
        return
    if arguments.row:
        case = Case(**json.loads(arguments.row))
        how = "recorded" if case.cuda_graph else "launched"
        profile = arguments.out / re.sub(r"[^a-z0-9.]+", "-", f"{case}-{how}-on-{case.devices}")
        print(json.dumps(row_of(case, profile, arguments.steps)))
        return
    cases = QUICK if arguments.quick else CASES
    if arguments.devices:
        cases = [replace(case, devices=arguments.devices) for case in cases if case.share is None]
    if arguments.networks:
        cases = [case for case in cases if case.network in arguments.networks]
    path = arguments.out / "rows.jsonl"
    make_rows(cases, arguments, path)
    wanted = {identity(asdict(case)) for case in cases}
    rows = [row for row in read_rows(path) if identity(row) in wanted]
    if len(rows) < len(cases):
        print(f"{len(cases) - len(rows)} rows are missing", file=sys.stderr)
    if rows:
        print_table(rows)


if __name__ == "__main__":
    main()
