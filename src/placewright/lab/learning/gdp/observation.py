"""GDP's observation of a problem: features of its units in topological order, and the edges along which tensors
pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.lab.learning.placers.colocation import Units
from placewright.lab.learning.placers.features import (
    NUM_KINDS,
    SHAPE_EXTENTS,
    SHAPE_OUTPUTS,
    UnitFeatures,
    unit_features,
)
from placewright.lab.learning.regal.features import fixed_op_of
from placewright.problem import Problem

if TYPE_CHECKING:
    from placewright.lab.learning.placers.shared_noise import SharedNoise

Float = NDArray[np.float32]
_PHASES = ("forward", "backward", "optimizer")
NUM_FEATURES = NUM_KINDS + SHAPE_OUTPUTS * SHAPE_EXTENTS + 7 + len(_PHASES)
#: Divisors of base-2 logarithms, of times and bytes, and of extents and counts: all features are then near 1.
_LARGE, _SMALL = 32.0, 12.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Observation:
    """GDP's observation. features: [num units, NUM_FEATURES]. edges: int64 [2, num edges], from unit to unit; bytes_on:
    the bytes on each. allowed: [num units, num devices] the devices that a unit may use; where devices are alike, the
    heaviest unit, `fixed`, is on the first."""

    units: Units
    features: Float
    edges: NDArray[np.int64]
    bytes_on: NDArray[np.float64]
    allowed: NDArray[np.bool_]
    fixed: int | None = None

    @cached_property
    def noise(self) -> SharedNoise:
        from placewright.lab.learning.placers.shared_noise import SharedNoise

        return SharedNoise(self.edges, self.bytes_on, self.units.count)


def observe(problem: Problem, units: Units) -> Observation:
    """Return the observation; nothing is random."""
    known = unit_features(problem, units)
    features = np.concatenate(
        [
            known.kinds / known.kinds.sum(1, keepdims=True),
            known.shapes / np.log(2) / _SMALL,
            *_sizes(known),
            *_places(problem, units),
            _phases(problem, units),
        ],
        axis=1,
        dtype=np.float32,
    )
    op, allowed = fixed_op_of(problem), units.allowed.copy()
    fixed = None if op is None else int(units.of_op[op])
    if fixed is not None:  # equal devices are interchangeable, so one unit is fixed and the policy need not choose
        allowed[fixed, 1:] = False
    return Observation(
        units=units, features=features, edges=known.edges, bytes_on=known.bytes_on, allowed=allowed, fixed=fixed
    )


def _sizes(known: UnitFeatures) -> list[NDArray[np.float64]]:
    """Return columns: time, bytes made and held, number of units read from and read by."""
    count = len(known.kinds)
    degrees = [np.bincount(side, minlength=count) for side in known.edges]
    large = [known.time, known.output_bytes, known.resident_bytes]
    columns = [np.log2(1 + each) / _LARGE for each in large] + [np.log2(1 + each) / _SMALL for each in degrees]
    return [column[:, None] for column in columns]


def _places(problem: Problem, units: Units) -> list[NDArray[np.float64]]:
    """Return columns: the position of a unit's first op in the graph, and its distance from the end, by time."""
    first = units.first_op
    to_end = _core.bottom_levels(problem.core)[first].astype(np.float64)
    return [(first / problem.core.num_ops)[:, None], (to_end / max(1.0, to_end.max()))[:, None]]


def _phases(problem: Problem, units: Units) -> NDArray[np.float64]:
    """Return the share of a unit's ops in each phase."""
    phase = [problem.graph.ops[index].phase for index in problem.lowered.graph_op.tolist()]
    count = np.bincount(units.of_op, minlength=units.count)
    shares = [np.bincount(units.of_op, [own == each for own in phase], units.count) / count for each in _PHASES]
    return np.stack(shares, axis=1)
