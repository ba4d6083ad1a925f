"""Makes suites of the Standard Task Graphs of 50 tasks with their certified optima, one for each number of processors.

    python benchmarks/stg.py ../shared/data/stg50 out/stg

The folder holds the graphs, *.stg, and certified_makespans.csv: instance, procs, lower_bound, upper_bound, status. Only
rows marked OPTIMAL are taken. Equal processors without communication: control "signal" over free links. The graphs are
other people's, so the suites are made where they lie and are no part of the package.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path

from placewright.importers import load_graph
from placewright.importers.graph_set import write_graph_set
from placewright.support.files import make_folder, write_atomically

SUITE = """graphs = "{name}.graphs.gz"
optima = "{name}.csv"
devices = "{processors}xideal/free"
objective = "step-time"
control = "signal"
"""


def certified(folder: Path) -> dict[int, dict[str, int]]:
    """Certified optima by number of processors and by file."""
    optima: dict[int, dict[str, int]] = defaultdict(dict)
    with (folder / "certified_makespans.csv").open() as file:
        for line in csv.DictReader(file):
            if line["status"] == "OPTIMAL":
                optima[int(line["procs"])][line["instance"]] = int(line["upper_bound"])
    return optima


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("graphs", type=Path)
    options.add_argument("out", type=Path)
    return options


def main() -> None:
    arguments = parser().parse_args()
    make_folder(arguments.out)
    for processors, optima in certified(arguments.graphs).items():
        name = f"stg-{processors}"
        graphs = (load_graph(arguments.graphs / instance) for instance in optima)
        write_graph_set(arguments.out / f"{name}.graphs.gz", graphs, {"set": "stg50"})
        lines = "".join(f"{instance},{optimum}\n" for instance, optimum in optima.items())
        write_atomically(arguments.out / f"{name}.csv", f"graph,optimum\n{lines}".encode())
        write_atomically(arguments.out / f"{name}.toml", SUITE.format(name=name, processors=processors).encode())
        print(f"{arguments.out / name}.toml: {len(optima)} graphs")


if __name__ == "__main__":
    main()
