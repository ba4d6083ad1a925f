"""Makes a set like instances/real-networks.graphs.gz, which the suites real-*.toml run over: real networks on one V100.

    python benchmarks/real_networks.py [--networks NAME ...] [--out FILE]

Needs the extra `zoo`; five minutes. The zoo's own sets are costed for a P100 and hold no shapes to cost them anew.
The families are those of FINDINGS: recurrent networks, searched and random cells, mixtures of experts, convolutions,
transformers; three networks are there for inference too. Equal runs write equal bytes. The committed file is older than
the zoo's libraries: its resnet50, densenet121, nasnet_a_large, nasnet_a_mobile and transformer_base were written out by
hand, and this script takes them from libraries.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Collection, Iterator
from importlib.metadata import version
from pathlib import Path

from placewright.graph import Graph
from placewright.importers.graph_set import write_graph_set
from placewright.lab.datasets.zoo.capture import OPTIMIZER, capture_network
from placewright.lab.datasets.zoo.catalogue import all_networks
from placewright.lab.datasets.zoo.libraries import OWN
from placewright.lab.datasets.zoo.network import Mode
from placewright.support.files import make_folder

DEVICE = "v100"
NETWORKS: dict[Mode, tuple[str, ...]] = {
    "inference": ("inception_v3", "nasnet_a_large", "randwire_ws", "gnmt8"),
    "training": (
        *("lstm1", "lstm3", "elmo", "gnmt4", "gnmt8"),
        *("nasnet_a_mobile", "amoebanet_d", "randwire_ws"),
        *("switch8", "gshard16"),
        *("resnet50", "densenet121", "inception_v3", "ddpm_cifar", "wavenet30"),
        *("transformer_base", "transformer_xl6", "bert_base", "gpt2_small"),
    ),
}


def captured(only: Collection[str] | None) -> Iterator[Graph]:
    by_name = {network.name: network for network in all_networks()}
    for mode, names in NETWORKS.items():
        for name in (name for name in names if name in (only or names)):
            graph = capture_network(by_name[name], mode, DEVICE, launches=False)
            print(f"{graph.name}: {len(graph.ops):,} ops", flush=True)
            yield graph
            # A traced module and its graph refer to each other.
            gc.collect()


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--networks", nargs="+", choices=sorted({name for own in NETWORKS.values() for name in own}))
    options.add_argument("--out", type=Path, default=Path("out") / "real-networks.graphs.gz")
    return options


def main() -> None:
    arguments = parser().parse_args()
    path = arguments.out
    metadata = {"set": "real-networks", "device": DEVICE, "optimizer": OPTIMIZER}
    chosen = arguments.networks or {name for names in NETWORKS.values() for name in names}
    libraries = {network.library for network in all_networks() if network.name in chosen} - {OWN}
    made_with = {name: version(name).partition("+")[0] for name in ("torch", *sorted(libraries))}
    make_folder(path.parent)
    size = write_graph_set(path, captured(arguments.networks), metadata | made_with)
    print(f"{size:,} bytes in {path}")


if __name__ == "__main__":
    main()
