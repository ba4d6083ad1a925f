"""Helpers of the scripts in this folder: a context where models cost no memory, and the file that holds an example."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from torch._subclasses.fake_tensor import FakeTensorMode

from placewright.graph import Graph
from placewright.importers.json_graph import save_graph
from placewright.lab.datasets.zoo.libraries import import_torchvision

# Before a script takes a model from transformers, which imports torchvision where there is one.
import_torchvision()

FOLDER = Path(__file__).parent.parent / "src" / "placewright" / "examples" / "graphs"


def without_memory() -> Any:
    """A context in which modules and tensors have shapes and dtypes but no content."""
    return FakeTensorMode(allow_non_fake_inputs=True)


def save_example(graph: Graph) -> None:
    """Writes the graph where `example:NAME` finds it and says how large it is."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{graph.name}.json.gz"
    save_graph(graph, path)
    kinds = Counter(op.kind for op in graph.ops)
    print(f"{path.name}: {len(graph.ops)} ops, {kinds['view']} of them views, {path.stat().st_size / 1e3:.0f} kB")
    for warning in graph.metadata.get("warnings", ()):
        print(f"  {warning}")
