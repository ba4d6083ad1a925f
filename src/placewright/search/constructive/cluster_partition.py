"""Graph partitioning of clusters, then list scheduling of their ops on the devices found."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.search.constructive.cluster_list import ClusterList
from placewright.search.constructive.graph_partition import GP_DFS, MAX_PASSES


def _parts(small: _core.Problem, is_scarce: bool) -> Iterator[tuple[str, NDArray[np.int32]]]:
    """Few bytes between devices of balanced times, as in `gp-dfs`."""
    yield "parts", _core.partition(small, GP_DFS.imbalance, MAX_PASSES)


CLUSTER_PARTITION = ClusterList(name="cluster-partition", placements=_parts, sets_inputs_aside=False)
