"""The least peak memory on one V100 of networks whose order matters: simple orders, `auto` after 10 s, the bound.

    python benchmarks/one_device.py [--networks NAME ...] [--seconds 10]

Needs the extra `zoo`; two minutes, most of them to capture the networks. Peaks are relative to the captured order's.
"""

from __future__ import annotations

import argparse

from placewright.lab.datasets.zoo.capture import capture_network
from placewright.lab.datasets.zoo.catalogue import all_networks
from placewright.lab.datasets.zoo.network import Mode
from placewright.machines import load_machine
from placewright.plans.assemble import assemble_plan
from placewright.problem import make_problem
from placewright.search.auto import Auto
from placewright.search.run.budget import UNLIMITED, Budget
from placewright.search.run.search_run import SearchRun

NETWORKS: tuple[tuple[str, Mode], ...] = (
    *((name, "inference") for name in ("randwire_er", "randwire_ws", "randwire_ba")),
    *((name, "inference") for name in ("nasnet_a_mobile", "nasnet_a_large", "amoebanet_d")),
    ("gnmt8", "training"),
    ("bert_base", "training"),
)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--networks", nargs="+", choices=[name for name, _ in NETWORKS])
    options.add_argument("--seconds", type=float, default=10.0)
    return options


def main() -> None:
    arguments = parser().parse_args()
    by_name = {network.name: network for network in all_networks()}
    print("| network | ops | LPMF | reverse greedy | auto | bound | bytes above it | seconds |")
    for name, mode in (own for own in NETWORKS if own[0] in (arguments.networks or own)):
        graph = capture_network(by_name[name], mode, "v100")
        problem = make_problem(graph, load_machine("1xv100-32g"), objective="peak-memory")
        result = Auto().solve(problem, SearchRun(Budget(evaluations=UNLIMITED, seconds=arguments.seconds)))
        plan = assemble_plan(problem, result, solver="auto", seconds=result.seconds)
        peaks = {of.method: of.metrics.peak_memory_bytes for of in result.baselines}
        peaks |= {"auto": result.metrics.peak_memory_bytes, "bound": plan.lower_bound}
        shown = " | ".join(
            f"{peaks[of] / peaks['input-order']:.3f}" for of in ("lpmf", "reverse-greedy", "auto", "bound")
        )
        ended = f"{peaks['auto'] - peaks['bound']:,} | {result.seconds:.2f}"
        print(f"| {graph.name} | {problem.core.num_ops:,} | {shown} | {ended} |", flush=True)


if __name__ == "__main__":
    main()
