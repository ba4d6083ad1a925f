"""Settings of `schedule-annealing` on training graphs: what each gains over the best of the baselines.

    python benchmarks/tune_schedule_annealing.py [--seconds 1] [--seeds 1] [--out FILE]

One line per setting: mean gain in percent on two P100 over PCI Express and on four over NVLink, and the mean of both,
which decides. The graphs are of the zoo's training set, none of them in benchmarks/instances/real-networks.graphs.gz,
which has the inference of NASNet-A large.
A setting takes a minute of two cores for a second and a seed.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import mean

from placewright.importers.graph_set import read_graph_set
from placewright.machines import load_machine
from placewright.problem import make_problem
from placewright.search.constructive.baselines import BASELINES
from placewright.search.metaheuristics.default_first import NUM_STARTS
from placewright.search.metaheuristics.schedule_annealing import ScheduleAnnealing
from placewright.search.run.budget import Budget
from placewright.search.run.result import Result
from placewright.search.run.search_run import SearchRun
from placewright.support.files import write_atomically

NETWORKS = (
    *("gru1-training", "elman2-training", "lstm2-training", "gnmt2-training", "tagger1-training"),
    *("input_feeding2-inference", "simple_recurrent4-inference", "switch32-training", "outrageous16-training"),
    *("hierarchical_mixture-training", "pnasnet5_mobile-inference", "darts_cifar-training"),
    *("nasnet_a_large-training", "randwire_er-training", "inception_resnet_v2-training", "hrnet_w18-inference"),
    *("res2net50-training", "dpn92-training", "googlenet-training", "transformer_xl12-training", "t5_base-inference"),
    *("bart_base-training", "evoformer3-inference", "clip6-training"),
)
MACHINES = ("2xp100/pcie3", "4xp100-sxm/nvlink")
DEFAULT = ScheduleAnnealing()
SETTINGS = {
    "as it is": DEFAULT,
    "no coarse problem": replace(DEFAULT, ops_per_cluster=(), fine_temperature=2.0),
    "one, of a quarter": replace(DEFAULT, ops_per_cluster=(4,), coarse_share=0.4),
    "one, of a half": replace(DEFAULT, ops_per_cluster=(2,), coarse_share=0.4),
    "three, from an eighth": replace(DEFAULT, ops_per_cluster=(8, 4, 2), coarse_share=0.13),
    "10% for each": replace(DEFAULT, coarse_share=0.1),
    "30% for each": replace(DEFAULT, coarse_share=0.3),
    "first temperature 1": replace(DEFAULT, first_temperature=1.0),
    "first temperature 4": replace(DEFAULT, first_temperature=4.0),
    "fine temperature 0.3": replace(DEFAULT, fine_temperature=0.3),
    "fine temperature 2": replace(DEFAULT, fine_temperature=2.0),
    "last temperature 0.005": replace(DEFAULT, last_temperature=0.005),
    "last temperature 0.1": replace(DEFAULT, last_temperature=0.1),
}


def gains(network: str, machine: str, seconds: float, seeds: int) -> dict[str, float]:
    """In percent, by setting, means over the seeds."""
    path = Path(__file__).parent / "instances" / "zoo-train.graphs.gz"
    graph = next(graph for graph in read_graph_set(path) if graph.name == network)
    problem = make_problem(graph, load_machine(machine))

    def fitness(result: Result) -> tuple[int, int, int]:
        return result.metrics.fitness("step-time")

    best = sorted((method.solve(problem, SearchRun()) for method in BASELINES), key=fitness)[:NUM_STARTS]
    starts = [result.solution for result in best]

    def gain(method: ScheduleAnnealing, seed: int) -> float:
        found = method.solve(
            problem, SearchRun(Budget(evaluations=2**60, seconds=seconds), seed=seed, initial_solutions=starts)
        )
        return 100 * (1 - found.metrics.step_time_ns / best[0].metrics.step_time_ns)

    return {name: mean(gain(method, seed) for seed in range(seeds)) for name, method in SETTINGS.items()}


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=1.0)
    options.add_argument("--seeds", type=int, default=1)
    options.add_argument("--networks", nargs="+", choices=NETWORKS, default=NETWORKS, metavar="NAME")
    options.add_argument("--out", type=Path)
    return options


def main() -> None:
    arguments = parser().parse_args()
    seconds, seeds, networks = arguments.seconds, arguments.seeds, arguments.networks
    runs = [(network, machine) for machine in MACHINES for network in networks]
    with ProcessPoolExecutor(2) as pool:
        found = dict(
            zip(runs, pool.map(gains, *zip(*((*run, seconds, seeds) for run in runs), strict=True)), strict=True)
        )
    lines = ["| setting | " + " | ".join(MACHINES) + " | mean |", "| --- " + "| ---: " * (len(MACHINES) + 1) + "|"]
    for name in SETTINGS:
        by_machine = [mean(found[network, machine][name] for network in networks) for machine in MACHINES]
        lines.append(f"| {name} | " + " | ".join(f"{value:.2f}" for value in [*by_machine, mean(by_machine)]) + " |")
    title = f"Mean gain in percent over the best baseline, {len(networks)} networks, {seconds:g} s; seeds: {seeds}."
    text = "\n".join(["# Settings of schedule-annealing", "", title, "", *lines, ""])
    print(text)
    if arguments.out:
        write_atomically(arguments.out, text.encode())


if __name__ == "__main__":
    main()
