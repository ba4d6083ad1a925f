"""Makes suites of large graphs (large_graphs.py) on eight A100, which are too large to keep.

    python benchmarks/large_suites.py out/large

A suite for each size, with a transformer's step and random layers. On the latter work divided over the devices is
nearly reached, so that the bound there is tight.
"""

from __future__ import annotations

import sys
from pathlib import Path

from large_graphs import random_layers, transformer

from placewright.datasets.graph_set import write_graph_set
from placewright.files import make_folder, write_atomically

SIZES = (20_000, 100_000)
SUITE = """graphs = "{name}.graphs.gz"
devices = "8xa100/nvlink"
objective = "step-time"
control = "signal"
"""


def main(out: Path) -> None:
    make_folder(out)
    for num_ops in SIZES:
        name = f"large-{num_ops // 1000}k"
        graphs = (transformer(num_ops), random_layers(num_ops))
        size = write_graph_set(out / f"{name}.graphs.gz", graphs, {"set": name})
        write_atomically(out / f"{name}.toml", SUITE.format(name=name).encode())
        print(f"{out / name}.toml: {size:,} bytes of graphs", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
