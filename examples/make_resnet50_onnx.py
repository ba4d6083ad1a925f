"""ResNet-50 as ONNX, inference with batch 1: one of the graphs without weights that the onnx package tests with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
from saving import save_example

from placewright.graph import Graph
from placewright.importers import load_graph

MODEL = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_resnet50.onnx"


def build() -> Graph:
    """The graph under the example's own name."""
    return replace(load_graph(MODEL), name="resnet50-onnx")


if __name__ == "__main__":
    save_example(build())
