"""Reruns that PyTorch's partitioner chooses for less memory: `activation_memory_budget` of torch.compile.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import fx
from torch._functorch import config
from torch._functorch._aot_autograd import descriptors
from torch._functorch.partitioners import min_cut_rematerialization_partition

from placewright.graph import Graph
from placewright.importers.torch.front import trace_joint
from placewright.importers.torch.module import positional
from placewright.problem import Problem
from placewright.problem.running_again import again_before
from placewright.rematerialization.reruns import Rerun


def budget_reruns(
    model: Any, args: Any, kwargs: Mapping[str, Any], problem: Problem, budgets: Sequence[float]
) -> Iterator[tuple[float, tuple[Rerun, ...]]]:
    """Yield, per budget, the reruns of a captured step that match the partitioner's choice. Nothing is computed.

    problem: of the module's step. Ends where the partitioner refuses the step. Ops that must not run again do not.
    """
    graph = problem.graph
    scheduled = [graph.ops[op].name for op in problem.lowered.graph_op]
    place = {name: index for index, name in enumerate(scheduled)}
    until = dict(zip(scheduled, again_before(problem).tolist(), strict=True))
    traced = trace_joint(model, positional(args), kwargs, training=True, loss=None)
    ends = traced.graph.output_node().meta["desc"]
    num_forward = next(place for place, each in enumerate(ends) if isinstance(each, descriptors.GradAOTOutput))
    for budget in budgets:
        try:
            parts = _parted(traced.graph, num_forward, budget)
        except Exception:
            # PyTorch's partitioner refuses graphs with many kinds of errors; a refusal gives no point of the frontier.
            return
        first, second = ({node.name for node in part.graph.nodes if node.op == "call_function"} for part in parts)
        again = run_again(graph, first & second & until.keys())
        yield budget, tuple(rerun for rerun in again if until[rerun.op] > place[rerun.before])


def _parted(graph: fx.Graph, num_forward: int, budget: float) -> tuple[fx.GraphModule, fx.GraphModule]:
    copy = fx.Graph()
    copy.output(copy.graph_copy(graph, {}))
    copy.output_node().meta = dict(graph.output_node().meta)
    module = fx.GraphModule(graph.owning_module, copy)
    with config.patch(activation_memory_budget=budget):
        parts: tuple[fx.GraphModule, fx.GraphModule] = min_cut_rematerialization_partition(
            module, [], num_fwd_outputs=num_forward
        )
    return parts


def run_again(graph: Graph, names: set[str]) -> Iterator[Rerun]:
    """Reruns of the ops of these names, each before the first op of backward that needs what it makes."""
    done: set[int] = set()
    base_of, producer_of = graph.base_of, graph.producer_of

    def needed(op: int) -> Iterator[int]:
        for tensor in graph.ops[op].inputs:
            maker = producer_of[base_of[tensor]]
            if maker >= 0 and maker not in done and graph.ops[maker].name in names:
                done.add(maker)
                yield from needed(maker)
                yield maker

    for index, op in enumerate(graph.ops):
        if op.kind != "view" and op.phase != "forward" and op.name not in names:
            for maker in needed(index):
                own = graph.ops[maker]
                kept = tuple(graph.tensors[tensor].name for tensor in own.outputs)
                yield Rerun(name=f"{own.name}@2", op=own.name, before=op.name, tensors=kept)
