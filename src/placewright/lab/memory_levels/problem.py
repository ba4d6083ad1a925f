"""The assignment of one device's tensors to memory levels as arrays: the input of solvers and learners."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.graph import Graph
from placewright.lab.memory_levels.chip import Chip
from placewright.support.errors import InputError, shown
from placewright.support.quantities import QUANTITY_LIMIT

Levels = NDArray[np.uint8]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluations:
    """The costs of maps: int64 [maps] latency in ps, int64 [maps] bytes that the rectifier moved (0 where the map
    fits), and the rectified maps, uint8 [maps, tensors]."""

    latency_ps: Int64
    moved_bytes: Int64
    maps: Levels


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MemoryProblem:
    """Ops in their order, the tensors they use, and the chip.

    Tensors are sorted by op, its weights before its results; those of no bytes are left out. A map is uint8 [tensors],
    the index of each one's level in `chip.levels`.

    graph_op: index in the graph of each op. tensor_names: several parameters that the same ops read are one tensor,
    named after the largest. node: the op each tensor belongs to: the first reader of a weight, the producer of an
    activation. size_bytes, first, last, is_weight: [tensors]; held from op `first` to op `last`. is_table: weights of
    which lookups read some rows only. overhead_ps, compute_ps: [ops]. fixed_bytes: [ops] traffic with the slowest level
    that no map changes: the network's inputs. use_begin, use_tensor, use_bytes: per op the tensors it reads or writes,
    and how many bytes. use_is_early: 1 for weights that can be fetched while the previous op runs, as neither op
    overwrites them.
    """

    graph: Graph
    chip: Chip
    graph_op: Int32
    tensor_names: tuple[str, ...]
    node: Int32
    size_bytes: Int64
    first: Int32
    last: Int32
    is_weight: NDArray[np.uint8]
    is_table: NDArray[np.uint8]
    overhead_ps: Int64
    compute_ps: Int64
    fixed_bytes: Int64
    use_begin: Int32
    use_tensor: Int32
    use_bytes: Int64
    use_is_early: NDArray[np.uint8]
    _evaluators: dict[int, Any] = field(default_factory=dict)

    @property
    def num_ops(self) -> int:
        return len(self.graph_op)

    @property
    def num_tensors(self) -> int:
        return len(self.node)

    @property
    def num_levels(self) -> int:
        return len(self.chip.levels)

    @cached_property
    def core(self) -> _core.LevelProblem:
        """The problem in the core's form. Raises InputError where times or sizes add up to more than it can hold."""
        levels = self.chip.levels
        fixed = np.zeros((self.num_ops, self.num_levels), np.int64)
        fixed[:, -1] = [min(QUANTITY_LIMIT, levels[-1].transfer_ps(int(size))) for size in self.fixed_bytes]
        try:
            return self._core_of(fixed)
        except ValueError as error:
            raise InputError(f"'{shown(self.graph.name)}' on chip '{shown(self.chip.name)}': {error}") from None

    def _core_of(self, fixed_ps: Int64) -> _core.LevelProblem:
        levels = self.chip.levels
        return _core.LevelProblem(
            size=self.size_bytes,
            first=self.first,
            last=self.last,
            is_weight=self.is_weight,
            capacity=np.array([level.capacity_bytes for level in levels], np.int64),
            latency_ps=np.array([level.latency_ns * 1000 for level in levels], np.int64),
            inverse_rate=np.array([level.inverse_rate for level in levels], np.int64),
            is_prefetched=np.array([level.is_prefetched for level in levels], np.uint8),
            overhead_ps=self.overhead_ps,
            compute_ps=self.compute_ps,
            fixed_ps=fixed_ps,
            use_begin=self.use_begin,
            use_tensor=self.use_tensor,
            use_bytes=self.use_bytes,
            use_is_early=self.use_is_early,
        )

    def evaluate(self, maps: Levels, *, threads: int = 1) -> Evaluations:
        """Rectify and time maps, uint8 [maps, tensors]; each counts as one evaluation in budgets.

        Raises InputError for any other array.
        """
        levels = self._checked(maps)
        if threads not in self._evaluators:
            self._evaluators[threads] = _core.LevelEvaluator(self.core, threads)
        latency, moved, rectified = self._evaluators[threads].evaluate(levels)
        return Evaluations(latency_ps=latency, moved_bytes=moved, maps=rectified.reshape(levels.shape))

    def time_as_they_are(self, maps: Levels) -> Int64:
        """Time maps that need not fit, in ps: nothing is rectified. Not counted as evaluations, as no chip could run
        them."""
        return self.core.time_as_they_are(self._checked(maps))

    def evaluate_one(self, levels: Levels) -> tuple[int, int, Levels]:
        """Return latency, moved bytes and the rectified map of one map."""
        found = self.evaluate(np.asarray(levels)[None])
        return int(found.latency_ps[0]), int(found.moved_bytes[0]), found.maps[0]

    def from_nodes(self, node_levels: Levels) -> Levels:
        """Return maps for the paper's actions: uint8 [..., ops, 2], the level of each op's weights and of its
        results."""
        role = np.where(self.is_weight, 0, 1)
        return np.ascontiguousarray(np.asarray(node_levels, np.uint8)[..., self.node, role])

    def all_slowest(self) -> Levels:
        """Return the map with every tensor in the slowest level, which always fits."""
        return np.full(self.num_tensors, self.num_levels - 1, np.uint8)

    def op_times(self, levels: Levels) -> Int64:
        """Return the time of each op in ps for a map that fits."""
        return self.core.details(self._checked(np.asarray(levels)[None])[0])[0]

    def _checked(self, maps: Levels) -> Levels:
        array = np.asarray(maps)
        if array.ndim != 2 or array.shape[1] != self.num_tensors:
            raise InputError(
                f"a map of shape {array.shape[1:]} does not fit the problem, which has {self.num_tensors} tensors"
            )
        if array.dtype.kind not in "ui":
            raise InputError(f"a map has the type {array.dtype}; levels are whole numbers")
        if array.size and not 0 <= int(array.min()) <= int(array.max()) < self.num_levels:
            worst = int(array.min()) if array.min() < 0 else int(array.max())
            raise InputError(
                f"a map names level {worst}; the levels of '{self.chip.name}' are 0 to {self.num_levels - 1}"
            )
        return np.ascontiguousarray(array, np.uint8)
