"""The bytes that forward leaves for backward: of one graph, and of graphs that run one after the other.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

from placewright.execution.pytorch.joint import JointGraph
from placewright.execution.pytorch.offloading import is_at_host
from placewright.execution.pytorch.open_sizes import Sizes, is_size
from placewright.graph import Graph
from placewright.plans.record import Plan
from placewright.rematerialization.between_passes import with_memory_between, without_memory_between
from placewright.support.errors import InputError


def saved(forward: fx.GraphModule, num_outputs: int) -> list[Any]:
    """The tensors that forward returns after its results, other than its arguments."""
    return [node.meta["val"] for node in _saved(forward, num_outputs) if node.op != "placeholder"]


def kept(forward: fx.GraphModule, num_outputs: int, static_inputs: Sequence[int]) -> list[Any]:
    """The tensors that each further run keeps until its backward: those it saves, including arguments that are not
    there anyway, such as results of the previous run. static_inputs: places of the arguments that are there."""
    there = {node for place, node in enumerate(forward.graph.find_nodes(op="placeholder")) if place in static_inputs}
    return [node.meta["val"] for node in _saved(forward, num_outputs) if node not in there]


def num_bytes(tensors: Iterable[Any], sizes: Sizes) -> int:
    """The bytes of tensors with such sizes."""
    return sum(map(sizes.num_bytes, tensors))


class Policies:
    """The policies of `create_selective_checkpoint_contexts` for the nodes of a joint graph, as it was traced.

    Attributes
    ----------
    kept
        Names of the nodes that the policy saves.
    """

    def __init__(self, joint: fx.GraphModule) -> None:
        said = {node.name: node.meta.get("recompute") for node in joint.graph.nodes}
        self.kept = tuple(name for name, policy in said.items() if policy == CheckpointPolicy.MUST_SAVE)
        self.is_fixed = CheckpointPolicy.MUST_RECOMPUTE in said.values()

    def check(self, limit: str) -> None:
        """Raises InputError where a plan might save what the policy computes again. limit: in words."""
        if self.is_fixed:
            raise InputError(
                f"what create_selective_checkpoint_contexts says to save and to compute again takes more than {limit}, "
                "and a plan may save what MUST_RECOMPUTE is for; return PREFER_RECOMPUTE, or leave the policy out"
            )

    @property
    def advice(self) -> str:
        """The end of a sentence about a limit that no plan keeps."""
        return "; MUST_SAVE of create_selective_checkpoint_contexts has results saved" if self.kept else ""


def _saved(forward: fx.GraphModule, num_outputs: int) -> list[fx.Node]:
    found = dict.fromkeys(forward.graph.output_node().args[0][num_outputs:])
    return [node for node in found if not (is_size(node) or is_at_host(node))]


@dataclass(frozen=True, kw_only=True)
class SavingGraph:
    """A graph to be planned for a limit on what its forward saves, in addition to that on its peak.

    peak_bytes: of the plan in which everything is saved. graph: of forward and backward, with such sizes.
    """

    joint: JointGraph
    graph: Graph
    peak_bytes: int
    num_outputs: int
    sizes: Sizes

    def saving_at_most(self, saved: int, peak_bytes: int) -> Graph:
        """The graph in which a plan within a peak saves at most so many bytes."""
        there = peak_bytes - self._held_between() - max(0, saved)
        return with_memory_between(self.graph, self.joint.is_forward, max(0, there))

    def parted(self, plan: Plan, static_inputs: Sequence[int]) -> tuple[fx.GraphModule, fx.GraphModule]:
        """The parts for a plan of such a graph, or of the graph without the limit."""
        found = without_memory_between(plan.reruns, plan.moves, self.graph, self.joint.is_forward)
        return self.joint.parted(found[0], static_inputs, moves=found[1])

    def _held_between(self) -> int:
        """Bytes held between the passes whatever is saved: arguments and results."""
        tensors = self.graph.tensors
        found = {self.graph.base_of[place] for place, op in enumerate(self.graph.producer_of) if op < 0}
        for place, tensor in enumerate(tensors):
            producer = self.graph.ops[self.graph.producer_of[place]] if self.graph.producer_of[place] >= 0 else None
            if producer is not None and tensor.is_output and self.joint.is_forward(producer.name):
                found.add(self.graph.base_of[place])
        return sum(tensors[place].held_bytes for place in found)
