"""What GDP sees of a problem: features of its units in topological order, and which of them exchange tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.learning.placers.colocation import Units
from placewright.learning.placers.features import (
    NUM_KINDS,
    SHAPE_EXTENTS,
    SHAPE_OUTPUTS,
    UnitFeatures,
    unit_features,
)
from placewright.learning.regal.actions import fixed_op_of
from placewright.problem import Problem

Float = NDArray[np.float32]
_PHASES = ("forward", "backward", "optimizer")
NUM_FEATURES = NUM_KINDS + SHAPE_OUTPUTS * SHAPE_EXTENTS + 7 + len(_PHASES)
#: Logarithms to base 2, of times and bytes and of extents and counts, are divided by these: all features are near 1.
_LARGE, _SMALL = 32.0, 12.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Observation:
    """features: [num units, NUM_FEATURES]. edges: int64 [2, num edges], from unit to unit. allowed: [num units, num
    devices] those that a unit may be given to; where devices are alike, the heaviest unit stands on the first."""

    units: Units
    features: Float
    edges: NDArray[np.int64]
    allowed: NDArray[np.bool_]


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
    return Observation(units=units, features=features, edges=known.edges, allowed=_allowed(problem, units))


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


def _allowed(problem: Problem, units: Units) -> NDArray[np.bool_]:
    """Names of equal devices mean nothing: with one unit's device given, the policy need not choose among them."""
    allowed = units.allowed.copy()
    if (fixed := fixed_op_of(problem)) is not None:
        allowed[units.of_op[fixed], 1:] = False
    return allowed
