"""What GDP sees of a problem: features of its units in topological order, and which of them exchange tensors."""

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
#: Logarithms to base 2, of times and bytes and of extents and counts, are divided by these: all features are near 1.
_LARGE, _SMALL = 32.0, 12.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Observation:
    """features: [num units, NUM_FEATURES]. edges: int64 [2, num edges], from unit to unit; bytes_on: what passes on
    each. allowed: [num units, num devices] those that a unit may be given to; where devices are alike, the heaviest
    unit, `fixed`, stands on the first."""

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
    """Nothing is drawn."""
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
    if fixed is not None:  # names of equal devices mean nothing: with one given, the policy need not choose among them
        allowed[fixed, 1:] = False
    return Observation(
        units=units, features=features, edges=known.edges, bytes_on=known.bytes_on, allowed=allowed, fixed=fixed
    )


def _sizes(known: UnitFeatures) -> list[NDArray[np.float64]]:
    """Columns: time, bytes made and held, units read from and read by."""
    count = len(known.kinds)
    degrees = [np.bincount(side, minlength=count) for side in known.edges]
    large = [known.time, known.output_bytes, known.resident_bytes]
    columns = [np.log2(1 + each) / _LARGE for each in large] + [np.log2(1 + each) / _SMALL for each in degrees]
    return [column[:, None] for column in columns]


def _places(problem: Problem, units: Units) -> list[NDArray[np.float64]]:
    """Columns: where a unit's first op stands in the order of the graph, and how far it is from the end, by time."""
    first = units.first_op
    to_end = _core.bottom_levels(problem.core)[first].astype(np.float64)
    return [(first / problem.core.num_ops)[:, None], (to_end / max(1.0, to_end.max()))[:, None]]


def _phases(problem: Problem, units: Units) -> NDArray[np.float64]:
    """The share of a unit's ops in each phase."""
    phase = [problem.graph.ops[index].phase for index in problem.lowered.graph_op.tolist()]
    count = np.bincount(units.of_op, minlength=units.count)
    shares = [np.bincount(units.of_op, [own == each for own in phase], units.count) / count for each in _PHASES]
    return np.stack(shares, axis=1)
