"""What `layers` adds to `auto` on large recurrent networks and mixtures of experts, at equal seconds:

    python benchmarks/large_recurrent.py [NETWORK ...] [--devices 4xv100-32g/nvlink] [--seconds 0.1 1 10] [--seeds 3]

A row for each network and limit: step times in percent of one device, of `etf`, of `auto` without `layers` and with it,
medians of the seeds, the median of the ratios of the last two, and the bound. Both run in turn in one thread. A network
is a workload of learned placers, which has a variable for every parameter, example:NAME, or the mixture gshard16x24.
Needs the extra `zoo` for all but examples; capturing takes up to a minute each.
"""

from __future__ import annotations

import argparse
import statistics

import numpy as np
from some_baselines import step_time_ns

from placewright.bounds import lower_bound
from placewright.graph import Graph
from placewright.importers import load_graph
from placewright.importers.torch.module import captured_graph
from placewright.lab.datasets.zoo.capture import OPTIMIZER
from placewright.lab.datasets.zoo.mixture_of_experts import sparse
from placewright.lab.datasets.zoo.workloads import capture_workload
from placewright.machines import load_machine
from placewright.problem import make_problem
from placewright.search.constructive.baselines import BASELINES
from placewright.search.constructive.layers import LAYERS
from placewright.search.constructive.list_scheduling import EarliestTaskFirst
from placewright.search.run.search_run import SearchRun

NETWORKS = ("example:gnmt-train", "gnmt2", "gnmt4", "nmt2", "gshard16x24")
MIXTURE = "gshard16x24"


def graph_of(network: str) -> Graph:
    if network.startswith("example:"):
        return load_graph(network)
    return mixture() if network == MIXTURE else capture_workload(network)


def mixture() -> Graph:
    """24 layers of GShard, every other one with 16 experts."""
    import torch
    from torch import nn
    from torch._subclasses.fake_tensor import FakeTensorMode

    class WithLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = sparse(width=512, layers=24, experts=16, chosen=2, capacity=320, every=2)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            loss: torch.Tensor = self.model(tokens).float().logsumexp(-1).mean()
            return loss

    with FakeTensorMode(allow_non_fake_inputs=True):
        model, tokens = WithLoss(), torch.zeros(8, 256, dtype=torch.int64)
    return captured_graph(model, (tokens,), {}, training=True, optimizer=OPTIMIZER, name=MIXTURE, random_in_order=False)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("networks", nargs="*", default=NETWORKS, metavar="NETWORK")
    options.add_argument("--devices", default="4xv100-32g/nvlink")
    options.add_argument("--seconds", type=float, nargs="+", default=(0.1, 1.0, 10.0))
    options.add_argument("--seeds", type=int, default=3)
    return options


def main() -> None:
    others = tuple(method for method in BASELINES if method is not LAYERS)
    arguments = parser().parse_args()
    print("| network, ops to schedule | seconds | bound | `etf` | without `layers` | with it | ratio |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for network in arguments.networks:
        problem = make_problem(graph_of(network), load_machine(arguments.devices))
        percent = 100 / int(problem.time_ns[problem.lowered.graph_op].sum(axis=0).min())
        bound = percent * lower_bound(problem).value
        etf = percent * EarliestTaskFirst().solve(problem, SearchRun()).metrics.step_time_ns
        for seconds in arguments.seconds:
            both = np.array(
                [
                    [step_time_ns(problem, chosen, seconds, seed) for chosen in (others, BASELINES)]
                    for seed in range(arguments.seeds)
                ]
            )
            without, with_ = percent * np.median(both, axis=0)
            ratio = statistics.median((both[:, 1] / both[:, 0]).tolist())
            name = f"{network.removeprefix('example:')}, {problem.core.num_ops:,}"
            print(
                f"| {name} | {seconds:g} | {bound:.1f} | {etf:.1f} | {without:.1f} | {with_:.1f} | {ratio:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
