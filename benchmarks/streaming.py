"""Time of inferences whose weights do not fit the device, compared with accelerate at equal peak memory.

    python benchmarks/streaming.py                       all networks; rows that there are already are kept
    python benchmarks/streaming.py --networks gpt2_small these
    python benchmarks/streaming.py --table               the table of the rows that there are

Each network of the zoo is captured as an inference, with the zoo's batch, on fake tensors. Op times are the roofline's
of an A100; weights come over a link of 25 GB/s with a latency of 10 us. The limit leaves a share of the weights' bytes
in addition to all else that the captured order takes. The rivals are simulated under the same rules:

    hooks   all weights lie at the host; those that an op reads come when the op before it has ended, and go after it
            (accelerate's cpu_offload)
    filling weights of the first layers stay on the device as long as the limit allows, the others as with hooks
            (accelerate's device_map="auto")

Of each row: the time over the step without a limit. Rivals copy as fast as the plan does, from pinned memory.
"""

from __future__ import annotations

import argparse
import json
import statistics
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from captured_steps import captured_step

import placewright
from placewright.costs import estimate_costs
from placewright.graph import Graph
from placewright.lab.datasets.zoo.capture import built
from placewright.lab.datasets.zoo.catalogue import all_networks
from placewright.machines import load_machine
from placewright.machines.host import HostMemory, usual_host
from placewright.problem import Problem
from placewright.problem.objective import Metrics
from placewright.problem.streaming import streamable
from placewright.rematerialization.reruns import Move
from placewright.rematerialization.solve import in_order, with_reruns
from placewright.search.run.result import measure
from placewright.support.errors import InputError

OUT = Path(__file__).parent / "results" / "streaming"
SHARES = (0.75, 0.5, 0.25)
DEVICE = "a100"
NETWORKS = ("gpt2_small", "llama8", "bert_base", "t5_small", "vit_small12", "unet", "ddpm_cifar", "resnet50", "vgg16")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One network under one limit. planned, least, filling, hooks: time over the step without a limit, the plan's, the
    proven least and the rivals'; None for what does not fit. weights: of all bytes at the peak, the weights' share."""

    network: str
    share: float
    num_ops: int
    weights: float
    planned: float | None
    least: float | None
    filling: float | None
    hooks: float | None


def inference(name: str) -> Graph:
    """The captured inference. Raises InputError where PyTorch cannot trace it."""
    network = next(each for each in all_networks() if each.name == name)
    model, arguments = built(network)
    return captured_step(model, arguments, training=False)


def rows_of(name: str) -> Iterator[Row]:
    graph, machine = inference(name), load_machine(DEVICE)
    problem = Problem(graph=graph, machine=machine, time_ns=estimate_costs(graph, machine).time_ns)
    host = usual_host(machine)
    assert host is not None
    whole = placewright.plan(graph, DEVICE, solver="input-order")
    weights = sum(graph.tensors[weight].held_bytes for weight in streamable(graph))
    rivals = [offloaded(problem, host, kept) for kept in range(len(streamable(graph)) + 1)]
    for share in SHARES:
        limit = int(whole.peak_bytes[0] - (1 - share) * weights)
        plan = placewright.plan(graph, DEVICE, solver="input-order", memory_limit=limit)
        fitting = [rival.step_time_ns for rival in rivals if rival.peak_bytes[0] <= limit]
        fits = plan.status != "infeasible"

        def over(step_time_ns: int) -> float:
            return step_time_ns / whole.step_time_ns - 1

        yield Row(
            network=name,
            share=share,
            num_ops=len(whole.ops),
            weights=weights / whole.peak_bytes[0],
            planned=over(plan.step_time_ns) if fits else None,
            least=max(0.0, over(plan.lower_bound)) if fits else None,
            filling=over(min(fitting)) if fitting else None,
            hooks=over(rivals[0].step_time_ns) if rivals[0].peak_bytes[0] <= limit else None,
        )


def offloaded(problem: Problem, host: HostMemory, kept: int) -> Metrics:
    """Metrics of the captured order under accelerate's hooks, if the `kept` weights read first stay on the device."""
    graph = problem.graph
    ops = [graph.ops[op] for op in problem.lowered.graph_op.tolist()]
    readers: dict[int, list[int]] = {}
    weights = set(streamable(graph))
    for place, op in enumerate(ops):
        for weight in {graph.base_of[tensor] for tensor in op.inputs} & weights:
            readers.setdefault(weight, []).append(place)
    moves = []
    for weight in list(readers)[kept:]:
        # A weight that the next op reads as well stays for it.
        own = readers[weight]
        returns = [ops[place].name for number, place in enumerate(own) if number == 0 or own[number - 1] < place - 1]
        moves.append(Move(tensor=graph.tensors[weight].name, leaves_before=None, returns_before=tuple(returns)))
    offloading = with_reruns(problem, (), tuple(moves), host)
    return measure(offloading, in_order(offloading))


def read_rows(path: Path) -> list[Row]:
    return [Row(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Markdown: a line per network and share, then medians over the networks where all fit."""
    yield "| network | ops | weights | of them on the device | plan | at least | filling | hooks |"
    yield "|---" * 8 + "|"
    for row in rows:
        times = (_more(each) for each in (row.planned, row.least, row.filling, row.hooks))
        yield f"| {row.network} | {row.num_ops:,} | {row.weights:.0%} | {row.share:.0%} | {' | '.join(times)} |"
    for share in sorted({row.share for row in rows}, reverse=True):
        own = [(row.planned, row.least, row.filling, row.hooks) for row in rows if row.share == share]
        whole = [tuple(each for each in values if each is not None) for values in own]
        complete = [values for values in whole if len(values) == 4]
        if complete:
            medians = (_more(statistics.median(values)) for values in zip(*complete, strict=True))
            yield f"| median of {len(complete)} | | | {share:.0%} | {' | '.join(medians)} |"


def _more(share: float | None) -> str:
    return "does not fit" if share is None else f"+{share:.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=NETWORKS, metavar="NAME", help="of the zoo")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of rows.jsonl")
    parser.add_argument("--table", action="store_true", help="print the table of the rows, and make none")
    options = parser.parse_args()
    path = options.out / "rows.jsonl"
    done = {row.network for row in read_rows(path)}
    for name in () if options.table else [name for name in options.networks if name not in done]:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows = list(rows_of(name))
        except InputError as error:
            print(f"{name}: {error}", flush=True)
            continue
        with path.open("a") as file:
            file.writelines(json.dumps(asdict(row)) + "\n" for row in rows)
        print(*rows, sep="\n", flush=True)
    print("\n".join(table(read_rows(path))))


if __name__ == "__main__":
    main()
