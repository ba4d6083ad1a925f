"""Graph partitioning of clusters, then list scheduling of their ops on the devices found."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.search.constructive.cluster_list import ClusterList

#: Share of the time by which a side of a split may miss its own, in [0, 1); the longest op in any case.
IMBALANCE = 0.05
#: Passes over all ops after which a split is left as it is; mostly three or four are enough.
MAX_PASSES = 20


def _parts(small: _core.Problem, is_scarce: bool) -> Iterator[tuple[str, NDArray[np.int32]]]:
    """Few bytes between devices of balanced times, as in `gp-dfs`."""
    yield "parts", _core.partition(small, IMBALANCE, MAX_PASSES)


CLUSTER_PARTITION = ClusterList(name="cluster-partition", placements=_parts, sets_inputs_aside=False)
