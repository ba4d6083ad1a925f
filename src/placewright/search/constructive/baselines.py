"""The baselines, in the order in which they are reported."""

from __future__ import annotations

from placewright.search.constructive.baseline import Baseline
from placewright.search.constructive.cluster_list import CLUSTER_LIST, CLUSTER_PARTITION
from placewright.search.constructive.contiguous_split import ContiguousSplit
from placewright.search.constructive.insertion import INSERTION, Cpop, Heft
from placewright.search.constructive.layers import LAYERS
from placewright.search.constructive.list_scheduling import EarliestTaskFirst, ListScheduling, SegmentFill
from placewright.search.constructive.one_device import (
    BFS,
    DFS,
    INPUT_ORDER,
    LPMF,
    REVERSE_GREEDY,
    XLA_LIST,
    SingleDevice,
)

BASELINES: tuple[Baseline, ...] = (
    INPUT_ORDER,
    SingleDevice(),
    DFS,
    BFS,
    LPMF,
    XLA_LIST,
    REVERSE_GREEDY,
    ContiguousSplit(),
    ListScheduling(),
    EarliestTaskFirst(),
    SegmentFill(),
    Heft(),
    Cpop(),
    INSERTION,
    CLUSTER_LIST,
    CLUSTER_PARTITION,
    LAYERS,
)
