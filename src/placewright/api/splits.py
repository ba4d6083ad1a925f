"""Splits of a captured joint graph within a memory limit: which stretch runs in how many parts.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import TypeVar

from torch import fx

from placewright.graph import Graph
from placewright.importers.torch.marks import PART, SPLIT
from placewright.importers.torch.splitting.choices import Choice, choices, divided
from placewright.plans.record import Plan
from placewright.support.quantities import format_bytes, format_time_ns

SomePlan = TypeVar("SomePlan", bound=Plan)
_LOGGER = logging.getLogger(__name__)
#: The least share of step time that a split must save where the unsplit step keeps the limit as well.
_GAIN = 0.005


def split_within(
    joint: fx.GraphModule,
    inputs: Collection[str],
    limit: int,
    read: Callable[[fx.GraphModule], Graph],
    planned: Callable[[Graph], Plan],
) -> fx.GraphModule | None:
    """The joint graph with the split that gives the fastest step within the limit; None where none takes less time.

    inputs: names of placeholders for the arguments of the step. read: the graph that is planned. planned: a plan within
    the limit, or near it.
    """
    whole = planned(read(joint))
    best, fewest = None, _fitness(whole, limit)
    if fewest[0] == 0:
        fewest = (0, round(fewest[1] * (1 - _GAIN)))
    graph = fx.Graph()
    graph.output(graph.graph_copy(joint.graph, {})).meta = dict(joint.graph.output_node().meta)
    for choice in choices(graph, [node for node in graph.nodes if node.name in inputs]):
        for module, plan in _in_parts(joint, graph, choice, limit, read, planned):
            if _fitness(plan, limit) < fewest:
                best, fewest = module, _fitness(plan, limit)
    return best


def _in_parts(
    joint: fx.GraphModule,
    graph: fx.Graph,
    choice: Choice,
    limit: int,
    read: Callable[[fx.GraphModule], Graph],
    planned: Callable[[Graph], Plan],
) -> Iterator[tuple[fx.GraphModule, Plan]]:
    """Yield the step in more and more parts, until nothing has to run again."""
    for count in choice.counts:
        module = fx.GraphModule(joint, divided(graph, choice, count))
        module.meta[SPLIT] = {"stretch": choice.name, "parts": min(count, choice.stretch.extent)}
        plan = planned(read(module))
        peak, time = format_bytes(plan.peak_bytes[0]), format_time_ns(plan.step_time_ns)
        _LOGGER.info("'%s' in %d parts: %s, %s", choice.name, count, peak, time)
        yield module, plan
        if plan.peak_bytes[0] <= limit and not plan.reruns:
            return


def _fitness(plan: Plan, limit: int) -> tuple[int, int]:
    """Bytes over the limit, then the time."""
    return max(0, plan.peak_bytes[0] - limit), plan.step_time_ns


def with_split(plan: SomePlan, module: fx.GraphModule) -> SomePlan:
    """The plan of a step, with a record of what runs in parts."""
    if SPLIT not in module.meta:
        return plan
    return replace(plan, configuration={**plan.configuration, "split": module.meta[SPLIT]})


def is_split(graph: fx.Graph) -> bool:
    """True if a stretch of the graph runs in parts."""
    return any(PART in node.meta for node in graph.nodes)
