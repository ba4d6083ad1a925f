"""Plans against runs: networks of the zoo on one and on two CPU devices of this host, planned and measured step time.

    python benchmarks/run_networks.py                     all rows, some 20 minutes of a quiet machine
    python benchmarks/run_networks.py --quick             the smallest network, a few steps
    python benchmarks/run_networks.py --networks switch8  some of them

A device is a core with one intra-op thread. Every row is a process of its own and a line of the file of rows, which a
later call takes up: rows that are there are not made again. Then the tables are printed. `others` is what other
processes took of the cores meanwhile: above a few percent a row says little.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from zoo_modules import module_of

import placewright

TWO = "cpu:0,cpu:1"


@dataclass(frozen=True)
class Case:
    """A network, its number of samples, and whether it is trained."""

    network: str
    batch: int
    training: bool = False

    def __str__(self) -> str:
        return f"{self.network} {self.batch}{' training' if self.training else ''}"


#: Networks with branches, at batch 1 to 8, and ten more to compare step times with.
SPEED_UPS = [Case(name, batch) for name in ("inception_v3", "nasnet_a_mobile", "switch8") for batch in (1, 2, 4, 8)]
STEP_TIMES = [
    *(Case(name, 2) for name in ("googlenet", "densenet121", "mobilenet_v2", "shufflenet_v2", "squeezenet_1_1")),
    *(Case(name, 2) for name in ("ghostnet", "bert_tiny", "resnet18")),
    *(Case(name, 2, training=True) for name in ("googlenet", "bert_tiny", "mobilenet_v2")),
]
QUICK = [Case("lenet5", 2)]
_SECONDS_PER_WAY, _LEAST_STEPS, _MOST_STEPS = 1.5, 7, 50


def row_of(case: Case, profile: Path, steps: int | None, *, inductor: bool) -> dict[str, Any]:
    """Planned and measured times of one case. profile: the folder of op times that all cases share."""
    model, arguments = module_of(case.network, case.batch)
    with tempfile.TemporaryDirectory() as folder:
        repeated = Path(folder) / "repeated.csv"
        placewright.profile(model, arguments, devices=TWO, folder=profile, training=case.training)
        compiled = placewright.compile(
            model, arguments, devices=TWO, training=case.training, profile=profile, inductor=inductor
        )
        with compiled:
            if not case.training:
                write_repeated(compiled, arguments, repeated)
            wanted = steps or steps_for(compiled.plan)
            before = processor_time()
            compiled.calibrate(*arguments, steps=wanted)
            facts = compiled.compare(*arguments, steps=wanted).facts
            others = others_share(before, processor_time())
            predicted = dict(predictions(compiled.plan, profile, case, repeated if repeated.exists() else None))
    found = asdict(facts)
    del found["ops"], found["devices"]
    return {**asdict(case), "others": others, "predicted": predicted, **found}


def steps_for(plan: placewright.Plan) -> int:
    return max(_LEAST_STEPS, min(_MOST_STEPS, int(_SECONDS_PER_WAY * 1e9 / plan.step_time_ns)))


def predictions(
    plan: placewright.Plan, profile: Path, case: Case, repeated: Path | None
) -> Iterator[tuple[str, tuple[int, int]]]:
    """Predicted times of one device in captured order and of the plan, by way to time ops, without times of the run."""
    from placewright.api.profiles import first_device
    from placewright.machines import load_machine
    from placewright.plans.retimed import retimed
    from placewright.problem import make_problem

    machine = load_machine(profile / "devices.toml")
    name = f"{plan.graph_name}-{'training' if case.training else 'inference'}"
    graph = placewright.load_graph(profile / f"{name}.json.gz")
    ways = {"repeated": repeated, "in place": profile / f"{name}-alone.csv", "all busy": profile / f"{name}.csv"}
    for way, times in ways.items():
        if times is not None:
            alone = placewright.plan(graph, first_device(machine), measured=times, solver="input-order")
            together = retimed(plan, make_problem(graph, machine, measured=times))
            yield way, (alone.step_time_ns, together.step_time_ns)


def write_repeated(compiled: Any, arguments: Sequence[Any], path: Path) -> None:
    """Times each op of an inference by itself, over and over on the same tensors: a way that the package does not use,
    for comparison."""
    import torch

    from placewright.costs.measured import MeasuredOp, write_measured
    from placewright.execution.devices import cores_of
    from placewright.execution.pytorch.profile import with_views
    from placewright.execution.workers import Workers

    captured, given = compiled.captured("timing ops by themselves", arguments, {})
    program = captured.program
    parameters, tensors = program.split(given)
    values: dict[int, Any] = dict(zip(program.parameters, parameters, strict=True)) | dict(program.constants)
    values.update((tensor, tensors[place]) for tensor, place in program.inputs.items())
    times: list[MeasuredOp] = []

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def run() -> None:
        for op in range(len(program.graph.ops)):
            call = program.calls.get(op)
            if call is None:
                times.append(MeasuredOp(0, 0))
                continue
            args = torch.fx.node.map_aggregate(call.args, lambda leaf: values[leaf.tensor] if is_value(leaf) else leaf)
            keywords = {key: values[value.tensor] if is_value(value) else value for key, value in call.kwargs.items()}
            taken = []
            for _ in range(9):
                began = time.perf_counter_ns()
                result = call.function(*args, **keywords)
                taken.append(time.perf_counter_ns() - began)
            times.append(MeasuredOp(int(median(taken[2:])), 0))
            for tensor, value in zip(call.results, result if call.several else (result,), strict=True):
                if tensor is not None:
                    values[tensor] = value

    workers = Workers(cores_of(2)[:1])
    workers.run([run], lambda: None)
    workers.close()
    write_measured(path, with_views(program.graph, times, 0), "cpu-1-core")


def is_value(leaf: Any) -> bool:
    from placewright.execution.pytorch.calls import Value

    return isinstance(leaf, Value)


def processor_time() -> tuple[float, float, float]:
    """Seconds so far: busy ones of all cores, processor time of this process, and the clock."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    busy = sum(ticks[:3] + ticks[5:8]) / os.sysconf("SC_CLK_TCK")
    own = os.times()
    return busy, own.user + own.system, time.monotonic()


def others_share(before: tuple[float, float, float], after: tuple[float, float, float]) -> float:
    """The share of the cores' time that other processes took."""
    busy, own, passed = (late - early for early, late in zip(before, after, strict=True))
    return max(0.0, busy - own) / (passed * (os.cpu_count() or 1))


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def missing(cases: Sequence[Case], rows: Sequence[dict[str, Any]]) -> list[Case]:
    there = {(row["network"], row["batch"], row["training"]) for row in rows}
    return [case for case in cases if (case.network, case.batch, case.training) not in there]


def make_rows(cases: Sequence[Case], arguments: argparse.Namespace, path: Path) -> None:
    """Makes each missing row in a process of its own, so that one that fails leaves the others as they are."""
    for case in missing(cases, read_rows(path)):
        began = time.monotonic()
        command = [sys.executable, __file__, "--row", json.dumps(asdict(case)), "--out", str(arguments.out)]
        command += ["--steps", str(arguments.steps)] if arguments.steps else []
        command += ["--inductor"] if arguments.inductor else []
        outcome = subprocess.run(command, capture_output=True, text=True, check=False)
        if outcome.returncode:
            print(f"{case}: failed: {outcome.stderr.strip().splitlines()[-1:]}", file=sys.stderr, flush=True)
            continue
        with path.open("a") as file:
            file.write(outcome.stdout.splitlines()[-1] + "\n")
        print(f"{case}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def ms(time_ns: float) -> str:
    return f"{time_ns / 1e6:.1f}" if time_ns >= 1e7 else f"{time_ns / 1e6:.2f}"


def off(planned: float, measured: float) -> str:
    return f"{measured / planned - 1:+.1%}"


def print_step_times(rows: Sequence[dict[str, Any]]) -> None:
    print("\n## Step time, ms\n")
    print("| network, batch | devices | planned | measured (quickest - slowest) | off | starts correlate | others |")
    print("|---|---|---|---|---|---|---|")
    offs = []
    for row in rows:
        name = Case(row["network"], row["batch"], row["training"])
        for devices, key, range_key in ((1, "one_device_", "one_device_range_ns"), (2, "", "measured_range_ns")):
            planned, measured = row[f"{key}planned_ns"], row[f"{key}measured_ns"]
            low, high = row[range_key]
            starts = f"{row['start_correlation']:.4f}" if devices == 2 else ""
            cells = (ms(planned), f"{ms(measured)} ({ms(low)} - {ms(high)})", off(planned, measured), starts)
            print(f"| {name} | {devices} | {' | '.join(cells)} | {row['others']:.0%} |")
            offs.append(abs(measured / planned - 1))
    within = sum(each <= 0.1 for each in offs)
    print(f"\n{within} of {len(offs)} within 10%; half of them within {median(offs):.1%}")


def print_speed_ups(rows: Sequence[dict[str, Any]]) -> None:
    print("\n## Speed-up of two devices over one\n")
    print("| network, batch | planned | measured | reached | one device | two devices | PyTorch, both cores per op |"
          " torch.compile, both cores per op |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        planned, measured = row["planned_speedup"], row["measured_speedup"]
        compiled = row.get("torch_compile_ns")
        times = (row["one_device_measured_ns"], row["measured_ns"], row["eager_ns"])
        cells = [f"{planned:.2f}", f"{measured:.2f}", f"{measured / planned:.0%}", *map(ms, times)]
        print(f"| {Case(row['network'], row['batch'], row['training'])} | {' | '.join(cells)} |"
              f" {ms(compiled) if compiled else '-'} |")  # fmt: skip


def print_ways(rows: Sequence[dict[str, Any]]) -> None:
    print("\n## Which way to time ops predicts steps: measured over predicted, per network\n")
    ways = ["repeated", "in place", "all busy", "calibrated"]
    print(f"| network, batch | {' | '.join(f'1: {way}' for way in ways)} | {' | '.join(f'2: {way}' for way in ways)} |")
    print("|---|" + "---|" * 2 * len(ways))
    errors: dict[tuple[int, str], list[float]] = {}
    for row in rows:
        predicted = {**row["predicted"], "calibrated": (row["one_device_planned_ns"], row["planned_ns"])}
        cells = []
        for place, measured in enumerate((row["one_device_measured_ns"], row["measured_ns"])):
            for way in ways:
                if way in predicted:
                    errors.setdefault((place, way), []).append(abs(measured / predicted[way][place] - 1))
                cells.append(off(predicted[way][place], measured) if way in predicted else "-")
        print(f"| {Case(row['network'], row['batch'], row['training'])} | {' | '.join(cells)} |")
    medians = [
        f"{median(errors[place, way]):.1%}" if (place, way) in errors else "-" for place in (0, 1) for way in ways
    ]
    print(f"| median of the absolute errors | {' | '.join(medians)} |")


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--networks", nargs="+", metavar="NAME")
    options.add_argument("--quick", action="store_true", help="the smallest network alone")
    options.add_argument("--steps", type=int, help="of each sort; by default what fits some seconds")
    options.add_argument("--inductor", action="store_true", help="measure torch.compile too, and compile regions")
    options.add_argument("--out", type=Path, default=Path("out") / "run-networks")
    options.add_argument("--row", help=argparse.SUPPRESS)
    return options


def main() -> None:
    arguments = parser().parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.row:
        case = Case(**json.loads(arguments.row))
        row = row_of(case, arguments.out / "profile", arguments.steps, inductor=arguments.inductor)
        print(json.dumps(row))
        return
    cases = QUICK if arguments.quick else [*SPEED_UPS, *STEP_TIMES]
    if arguments.networks:
        cases = [case for case in cases if case.network in arguments.networks]
    path = arguments.out / "rows.jsonl"
    make_rows(cases, arguments, path)
    wanted = {(case.network, case.batch, case.training) for case in cases}
    rows = [row for row in read_rows(path) if (row["network"], row["batch"], row["training"]) in wanted]
    if len(rows) < len(cases):
        print(f"{len(cases) - len(rows)} rows are missing", file=sys.stderr)
    if rows:
        print_step_times(rows)
        print_speed_ups([row for row in rows if not row["training"]])
        print_ways(rows)


if __name__ == "__main__":
    main()
