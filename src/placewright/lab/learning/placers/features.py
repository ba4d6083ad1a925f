"""The features of units that learners see: kinds of their ops, shapes of their outputs, sizes, and the edges between
units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.graph import OP_KINDS, Op
from placewright.lab.learning.placers.colocation import Units
from placewright.problem import Problem

Float = NDArray[np.float32]
#: The last number is for kinds that are not known.
KIND_NUMBER = {kind: number for number, kind in enumerate(OP_KINDS)}
NUM_KINDS = len(KIND_NUMBER) + 1
#: Outputs of an op, and extents of each, that describe its shape; more are cut off, missing ones are 0.
SHAPE_OUTPUTS, SHAPE_EXTENTS = 5, 5


@dataclass(frozen=True, kw_only=True, eq=False)
class UnitFeatures:
    """Features of units. kinds: [num units, NUM_KINDS] ops of each. shapes: [num units, 25] the logarithm of the summed
    extents. edges: int64 [2, num edges] from unit to unit, each once, none to itself; bytes_on: [num edges] the bytes
    that pass on each. time, output_bytes, resident_bytes: [num units], in ns on the mean device and bytes."""

    kinds: Float
    shapes: Float
    edges: NDArray[np.int64]
    bytes_on: NDArray[np.float64]
    time: NDArray[np.float64]
    output_bytes: NDArray[np.float64]
    resident_bytes: NDArray[np.float64]

    def adjacency(self) -> Float:
        """Return [num units, 2 num units]: the units each reads from, and the units that read it."""
        count = len(self.kinds)
        found = np.zeros((count, 2 * count), np.float32)
        source, target = self.edges
        found[target, source] = 1
        found[source, count + target] = 1
        return found


def unit_features(problem: Problem, units: Units) -> UnitFeatures:
    """Return sums over the ops of each unit."""
    lowered, count = problem.lowered, units.count
    ops = [problem.graph.ops[index] for index in lowered.graph_op.tolist()]

    def summed(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.bincount(units.of_op, values, count).astype(np.float64)

    kinds = np.zeros((count, NUM_KINDS), np.float32)
    kind = np.array([KIND_NUMBER.get(op.kind, NUM_KINDS - 1) for op in ops])
    np.add.at(kinds, (units.of_op, kind), 1)
    shapes = np.zeros((count, SHAPE_OUTPUTS * SHAPE_EXTENTS), np.float64)
    np.add.at(shapes, units.of_op, np.array([_shape(problem, op) for op in ops]))
    edges, bytes_on = _edges(problem, units)
    made = np.add.reduceat(np.append(lowered.allocated_bytes, 0).astype(float), lowered.output_begin[:-1])
    made[np.diff(lowered.output_begin) == 0] = 0
    held = np.bincount(lowered.resident_reader, lowered.resident_bytes[lowered.residents], len(ops)).astype(np.float64)
    return UnitFeatures(
        kinds=kinds,
        shapes=np.log1p(shapes).astype(np.float32),
        edges=edges,
        bytes_on=bytes_on,
        time=summed(problem.time_ns[lowered.graph_op].mean(1)),
        output_bytes=summed(made),
        resident_bytes=summed(held),
    )


def _shape(problem: Problem, op: Op) -> list[int]:
    """Return the extents of the op's outputs, one after the other."""
    found: list[int] = []
    for tensor in op.outputs[:SHAPE_OUTPUTS]:
        extents = list(problem.graph.tensors[tensor].shape or ())[:SHAPE_EXTENTS]
        found += extents + [0] * (SHAPE_EXTENTS - len(extents))
    return found + [0] * (SHAPE_OUTPUTS * SHAPE_EXTENTS - len(found))


def _edges(problem: Problem, units: Units) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return edges between units and their bytes; a tensor counts once for each unit that reads it."""
    lowered = problem.lowered
    source = units.of_op[lowered.producer[lowered.inputs]].astype(np.int64)
    target = units.of_op[lowered.reader].astype(np.int64)
    across = source != target
    read = np.unique(np.stack([target, lowered.inputs.astype(np.int64)])[:, across], axis=1)
    source = units.of_op[lowered.producer[read[1]]].astype(np.int64)
    keys, place = np.unique(source * units.count + read[0], return_inverse=True)
    moved = np.bincount(place, lowered.transfer_bytes[read[1]].astype(float), len(keys)).astype(np.float64)
    return np.stack([keys // units.count, keys % units.count]), moved
