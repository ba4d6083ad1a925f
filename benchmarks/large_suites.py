"""Makes suites of large graphs, which are too large to keep: `python benchmarks/large_suites.py out/large`.

`large-20k` and `large-100k`: a transformer's step and random layers (large_graphs.py) on eight A100. On the latter work
divided over the devices is nearly reached, so that the bound there is tight.

`synthetic-10x`: 60 graphs drawn as REGAL's synthetic ones, with ten times the nodes and no filter, on the paper's
machine: what a policy that learned from small graphs is worth on large ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from large_graphs import random_layers, transformer

from placewright.graph import Graph
from placewright.importers.graph_set import write_graph_set
from placewright.lab.datasets.synthetic import random_graph
from placewright.support.files import make_folder, write_atomically

SIZES = (20_000, 100_000)
SYNTHETIC_SCALE, SYNTHETIC_COUNT, SYNTHETIC_SEED = 10, 60, 2021
SUITE = """graphs = "{name}.graphs.gz"
devices = "{devices}"
objective = "step-time"
control = "{control}"
"""
POLICIES = 'policies = "runtime-synthetic, runtime-synthetic-sequence"\n'


def write_suite(out: Path, name: str, graphs: Sequence[Graph], devices: str, control: str, policies: str = "") -> None:
    size = write_graph_set(out / f"{name}.graphs.gz", graphs, {"set": name})
    suite = SUITE.format(name=name, devices=devices, control=control) + policies
    write_atomically(out / f"{name}.toml", suite.encode())
    print(f"{out / name}.toml: {size:,} bytes of graphs", flush=True)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="ops of the large graphs")
    options.add_argument("--synthetic", type=int, default=SYNTHETIC_COUNT, help="how many synthetic graphs")
    return options


def main() -> None:
    arguments = parser().parse_args()
    out = arguments.out
    make_folder(out)
    synthetic = [random_graph(SYNTHETIC_SEED, index, SYNTHETIC_SCALE) for index in range(arguments.synthetic)]
    write_suite(out, f"synthetic-{SYNTHETIC_SCALE}x", synthetic, "2xideal/free", "order", POLICIES)
    for num_ops in arguments.sizes:
        graphs = (transformer(num_ops), random_layers(num_ops))
        write_suite(out, f"large-{num_ops // 1000}k", graphs, "8xa100/nvlink", "signal")


if __name__ == "__main__":
    main()
