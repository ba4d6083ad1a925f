"""The networks of the EGRL paper as an inference compiler fuses them, in int8, with the paper's numbers of nodes."""

from __future__ import annotations

from saving import save_example

from placewright.lab.datasets.fused.networks import fused_network

NAMES = ("resnet50-int8", "resnet101-int8", "bert-base-384-int8")

if __name__ == "__main__":
    for name in NAMES:
        save_example(fused_network(name))
