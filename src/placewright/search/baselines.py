"""The baselines, in the order in which they are reported."""

from __future__ import annotations

from placewright.search.baseline import Baseline
from placewright.search.bfs import BFS
from placewright.search.cluster_list import CLUSTER_LIST
from placewright.search.cluster_partition import CLUSTER_PARTITION
from placewright.search.contiguous_split import ContiguousSplit
from placewright.search.cpop import Cpop
from placewright.search.dfs import DFS
from placewright.search.etf import EarliestTaskFirst
from placewright.search.heft import Heft
from placewright.search.input_order import INPUT_ORDER
from placewright.search.insertion import INSERTION
from placewright.search.list_scheduling import ListScheduling
from placewright.search.lpmf import LPMF
from placewright.search.reverse_greedy import REVERSE_GREEDY
from placewright.search.segment_fill import SegmentFill
from placewright.search.single_device import SingleDevice
from placewright.search.xla_list import XLA_LIST

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
)
