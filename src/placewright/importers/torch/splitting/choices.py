"""Splits of a captured step that may be worth trying: the loss, the largest tensor, all samples.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import torch
from torch import fx
from torch._functorch._aot_autograd import descriptors

from placewright.importers.torch.splitting.preparation import divide_dropouts, prepare
from placewright.importers.torch.splitting.rewrite import in_parts
from placewright.importers.torch.splitting.stretch import Borders, Stretch, stretch_from

#: The least size, as a share of the largest tensor's bytes, of other tensors along which its stretch grows.
_LARGE = 0.5
#: Numbers of parts, and the most ops that all parts of a stretch may have.
_COUNTS, _MOST_OPS = (2, 4, 8, 16), 8000


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A stretch that can run in parts.

    name: "loss" for the ops around the largest tensor and the loss, "batch" for all samples.
    """

    name: str
    stretch: Stretch

    @property
    def counts(self) -> list[int]:
        """Numbers of parts worth trying; more would make more ops than can be planned in seconds."""
        most = min(self.stretch.extent, _MOST_OPS // len(self.stretch.ops))
        return [count for count in _COUNTS if count <= most]


def choices(graph: fx.Graph, inputs: Collection[fx.Node]) -> Iterator[Choice]:
    """Stretches of a step. The graph is changed to an equivalent one in which they can be found.

    inputs: placeholders of the step's arguments, other than parameters. A yielded choice is valid until the next.
    """
    prepare(graph)
    known: list[Stretch] = []
    for seed, axis in _largest(graph):
        if all(each.shares.get(seed) != axis for each in known):
            stretch = stretch_from(seed, axis, int(_LARGE * _num_bytes(seed)), borders_of(graph))
            if stretch is not None and _lowers(stretch):
                known.append(stretch)
                yield Choice(name="loss", stretch=stretch)
    given = [node for node in inputs if node.meta["val"].dim() and node.meta["val"].shape[0] > 1]
    if given:
        # A dropout stays one op where it can: more ops take more time.
        divide_dropouts(graph)
        stretch = stretch_from(max(given, key=_num_bytes), 0, 0, borders_of(graph))
        if stretch is not None and _lowers(stretch):
            yield Choice(name="batch", stretch=stretch)


def _lowers(stretch: Stretch) -> bool:
    """True if a tensor of the largest size is no longer whole: it is made and read in parts alone, in both passes."""
    if not stretch.scaled:
        return False
    most = max(_num_bytes(node) for node in stretch.shares)
    return any(_num_bytes(node) == most and not stretch.is_read_outside(node) for node in stretch.shares)


def _num_bytes(node: fx.Node) -> int:
    value = node.meta["val"]
    return int(value.nbytes) if isinstance(value, torch.Tensor) else 0


def borders_of(graph: fx.Graph) -> Borders:
    """The results of forward, and the gradients that backward receives, by the descriptors of AOTAutograd."""
    end = graph.output_node()
    meanings = end.meta["desc"]
    return Borders(
        results=[
            node
            for node, meaning in zip(end.args[0], meanings, strict=True)
            if isinstance(node, fx.Node) and not isinstance(meaning, descriptors.GradAOTOutput)
        ],
        tangents=[
            node
            for node in graph.find_nodes(op="placeholder")
            if isinstance(node.meta.get("desc"), descriptors.TangentAOTInput)
        ],
    )


def _largest(graph: fx.Graph) -> Iterator[tuple[fx.Node, int]]:
    """The largest tensors, with each of their axes."""
    made = [node for node in graph.nodes if node.op == "call_function" and _num_bytes(node)]
    most = max(map(_num_bytes, made), default=0)
    for node in made:
        if _num_bytes(node) == most:
            for axis in range(node.meta["val"].dim()):
                yield node, axis


def divided(graph: fx.Graph, choice: Choice, num_parts: int) -> fx.Graph:
    """The step with a stretch in so many parts."""
    return in_parts(graph, choice.stretch, min(num_parts, choice.stretch.extent))
