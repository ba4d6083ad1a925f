"""One rule for all graphs: levels of priorities and affinities directly from the features that a policy sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from placewright.decoder import DecoderName
from placewright.lab.learning.regal.actions import ActionSpace
from placewright.lab.learning.regal.features import Features, num_op_features
from placewright.lab.learning.regal.memory_affinity import NUM_KINDS as NUM_MEMORY_KINDS
from placewright.lab.learning.regal.smoothed_affinity import NUM_KINDS as NUM_TIME_KINDS
from placewright.problem.objective import ControlMode, Objective
from placewright.support.errors import InputError

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Shape = Literal["halves", "line"]

#: Columns of the features of an op, by name (features.py). Those of time exist where it is the objective.
_COLUMNS = {"inputs": 0, "outputs": 1, "workspace": 2}
_COLUMNS_OF_TIME = {"before": 4, "after": 5, "own": 6}
PLACEMENT_LEVELS, SCHEDULING_LEVELS = 5, 16


@dataclass(frozen=True, kw_only=True)
class RuleConfiguration:
    """A map from the features of an op to the levels of A.6; a choice it leaves out stays uniform.

    objective, num_devices, control: of the problems it was found on. decoder, warm_start: as in a policy.
    weights: by feature, of its rank among the ops, from 0 to 1; the weighted sum of ranks is an op's score. With none
    priorities stay uniform. shape: the mean of a priority is one level up to the median score and another above
    ("halves"), or rises or falls from one to the other with the score's rank ("line"). first_level, last_level: of that
    mean, at the lowest and the highest score. variance_level: of priorities.
    affinity: number of the kind of smoothed affinity whose device an op prefers; None where devices stay uniform.
    affinity_level, affinity_variance_level: of the mean of its key and of the variance.
    """

    objective: Objective
    num_devices: int = 2
    control: ControlMode = "order"
    decoder: DecoderName = "paper"
    warm_start: bool = False
    weights: Mapping[str, float] = field(default_factory=dict)
    shape: Shape = "line"
    first_level: int = 0
    last_level: int = SCHEDULING_LEVELS - 1
    variance_level: int = 0
    affinity: int | None = None
    affinity_level: int = PLACEMENT_LEVELS - 1
    affinity_variance_level: int = 1

    def __post_init__(self) -> None:
        if unknown := sorted(self.weights.keys() - columns(self.objective, self.num_devices).keys()):
            raise InputError(f"a rule for {self.objective} has a weight for '{unknown[0]}', which is no feature")
        if self.shape not in get_args(Shape):
            raise InputError(f"a rule's shape is '{self.shape}'; known are {', '.join(get_args(Shape))}")
        levels = (self.first_level, self.last_level, self.variance_level)
        if not all(0 <= level < SCHEDULING_LEVELS for level in levels):
            raise InputError(f"a rule has levels {levels}; they must be from 0 to {SCHEDULING_LEVELS - 1}")
        kinds = num_kinds(self.objective)
        if self.affinity is not None and not 0 <= self.affinity < kinds:
            raise InputError(f"a rule has affinity {self.affinity}; there are {kinds} for {self.objective}")
        if not all(0 <= lv < PLACEMENT_LEVELS for lv in (self.affinity_level, self.affinity_variance_level)):
            raise InputError(f"levels of a rule's affinity must be from 0 to {PLACEMENT_LEVELS - 1}")
        _ = self.action_space

    @property
    def with_affinities(self) -> bool:
        return self.affinity is not None

    @property
    def action_space(self) -> ActionSpace:
        return ActionSpace(
            num_devices=self.num_devices,
            placement_levels=PLACEMENT_LEVELS if self.affinity is not None else 0,
            scheduling_levels=SCHEDULING_LEVELS if self.weights else 0,
            decoder=self.decoder,
        )


def columns(objective: Objective, num_devices: int) -> dict[str, int]:
    """Return the features' columns by name; the mean position in the search for features comes last."""
    own = _COLUMNS_OF_TIME if objective == "step-time" else {}
    return {**_COLUMNS, **own, "position": num_op_features(objective, num_devices) - 1}


def num_kinds(objective: Objective) -> int:
    return NUM_TIME_KINDS if objective == "step-time" else NUM_MEMORY_KINDS


def rule_actions(rule: RuleConfiguration, features: Features) -> Int:
    """Return levels for each choice of each op, [num ops, num choices], as `ActionSpace.proposal` takes them."""
    chosen: list[Int] = []
    if rule.affinity is not None:
        own = _device_of(rule, features)
        for device in range(rule.num_devices):
            away = PLACEMENT_LEVELS - 1 - rule.affinity_level
            chosen += [np.where(own == device, rule.affinity_level, away), _all(own, rule.affinity_variance_level)]
    if rule.weights:
        place = _ranks(_score(rule, features))
        if rule.shape == "halves":
            mean = np.where(place > 0.5, rule.last_level, rule.first_level)
        else:
            mean = np.rint(rule.first_level + (rule.last_level - rule.first_level) * place).astype(np.int64)
        chosen += [mean, _all(mean, rule.variance_level)]
    return np.column_stack(chosen)


def _all(like: Int, level: int) -> Int:
    return np.full(len(like), level, np.int64)


def _device_of(rule: RuleConfiguration, features: Features) -> Int:
    kinds = num_kinds(rule.objective)
    found = features.op[:, -kinds * rule.num_devices :].reshape(-1, kinds, rule.num_devices)
    assert rule.affinity is not None
    return found[:, rule.affinity].argmax(axis=1)


def _score(rule: RuleConfiguration, features: Features) -> Float:
    column_of = columns(rule.objective, rule.num_devices)
    total = np.zeros(len(features.op))
    for name, weight in sorted(rule.weights.items()):
        total += weight * _ranks(features.op[:, column_of[name]].astype(np.float64))
    return total


def _ranks(values: Float) -> Float:
    """Return ranks from 0 to 1; equal values share the middle of theirs."""
    _, which, count = np.unique(values, return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - (count + 1) / 2
    ranks: Float = middle[which] / max(1, len(values) - 1)
    return ranks
