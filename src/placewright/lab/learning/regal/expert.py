"""The expert that a policy imitates, before it learns from rewards or instead: devices that neighbours share, ops in
order.

REINFORCE decides for each op independently, so it rarely draws a placement in which neighbours are on one device, and
on real networks those give the gain (docs/lab/policies.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from placewright.lab.learning.environments.guided_search import GuidedSearch
from placewright.lab.learning.protocols import Demonstration
from placewright.lab.learning.regal.actions import ActionSpace
from placewright.lab.learning.regal.features import Features
from placewright.lab.learning.regal.memory_affinity import NUM_KINDS
from placewright.lab.learning.regal.smoothed_affinity import num_smoothed_affinities
from placewright.lab.learning.rule.rule import RuleConfiguration, rule_actions
from placewright.proposal import Proposal

Float = NDArray[np.float64]
Int = NDArray[np.int64]

#: Means and shares of the largest variance (A.6): of a key that stays uniform, and of one that is nearly certain.
_UNIFORM = (1 / 2, 1 / 3)
_SURE_MEAN, _SURE_VARIANCE = 5 / 6, 1 / 3
_WEAK_MEAN = 4 / 6
#: Priorities fall from the first to the last over the graph. Where transfers have priorities too, those of ops are
#: below the mean of theirs, so that they leave early.
_FIRST_PRIORITY, _LAST_PRIORITY, _PRIORITY_VARIANCE = 17 / 18, 1 / 18, 1 / 18
_FIRST_BELOW_TRANSFERS = 8 / 18
#: Position between 0.5 and 1 of an elite bias of 0.7, the search's default.
_ELITE_BIAS_SHARE = 0.4
#: Gain from which a demonstration has full weight.
_LARGE_GAIN = 0.05


def demonstrate(environment: GuidedSearch, space: ActionSpace, rounds: int) -> Demonstration:
    """Return a simple proposal, or after rounds of search, each guided by the one before, the best plan that was found.

    Where peak memory is the objective, the best of several simple ones; its weight depends on its gain over their mean,
    since on most graphs they are alike.
    """
    actions, weight = _simple_proposal(environment, space)
    best, shown = None, actions
    for round_ in range(rounds):
        search = environment.search(_proposal(environment, space, actions), seed=round_)
        actions = actions_of(*environment.problem.core.decode(search.best_keys(), space.decoder), space)
        if best is None or search.best_objective < best:
            best, shown = search.best_objective, actions
    return Demonstration(actions=shown, weight=weight)


def demonstrate_rule(environment: GuidedSearch, rule: RuleConfiguration) -> Demonstration:
    """Return the rule's proposal; the policy must have the rule's action space."""
    return Demonstration(actions=rule_actions(rule, environment.observation.features), weight=1.0)


def _simple_proposal(environment: GuidedSearch, space: ActionSpace) -> tuple[Int, float]:
    features = environment.observation.features
    if environment.problem.objective == "step-time":
        return affinity_actions(features, space), 1.0
    tried = candidate_actions(features, space)
    objectives = [
        environment.search(_proposal(environment, space, actions), seed=0).best_objective for actions in tried
    ]
    best = int(np.argmin(objectives))
    gain = 1 - objectives[best] / max(1.0, float(np.mean(objectives)))
    return tried[best], min(1.0, gain / _LARGE_GAIN)


def _proposal(environment: GuidedSearch, space: ActionSpace, actions: Int) -> Proposal:
    return space.proposal(environment.problem, actions, environment.observation.fixed_op)


def affinity_actions(features: Features, space: ActionSpace) -> Int:
    """Return levels, [ops, choices], for the device of an op's largest affinity, of the last kind of affinity, and for
    priorities that fall with the op's mean position. features: must include affinities."""
    position = features.op[:, -num_smoothed_affinities(space.num_devices) - 1].astype(np.float64)
    return _actions(features.op[:, -space.num_devices :].argmax(axis=1), position, space, _SURE_VARIANCE)


def candidate_actions(features: Features, space: ActionSpace) -> list[Int]:
    """Return the actions to try where peak memory is the objective, levels, [ops, choices], each: all uniform; and for
    each kind of affinity the device of an op's largest, weakly and surely. Priorities stay uniform."""
    num_devices = space.num_devices
    kinds = features.op[:, -NUM_KINDS * num_devices :].reshape(-1, NUM_KINDS, num_devices).argmax(axis=2)
    # With a mean of 1/2 it does not matter which device is an op's own.
    tried = [_actions(kinds[:, 0], None, space, _UNIFORM[1], away=_UNIFORM[0])]
    for device_of in kinds.T:
        tried += [_actions(device_of, None, space, _SURE_VARIANCE, away=1 - mean) for mean in (_WEAK_MEAN, _SURE_MEAN)]
    return tried


def actions_of(device_of: NDArray[np.int32], order: NDArray[np.int32], space: ActionSpace) -> Int:
    """Return levels, [ops, choices], for a plan's devices, [ops], and the order of its ops. order: of its steps, as the
    core decodes it, [steps, 2]."""
    ops = order[order[:, 1] < 0, 0]
    position = np.empty(len(ops))
    position[ops] = np.linspace(0, 1, len(ops))
    return _actions(device_of, position, space, variance=0)


def _actions(
    device_of: NDArray[np.integer[Any]],
    position: Float | None,
    space: ActionSpace,
    variance: float,
    away: float = 1 - _SURE_MEAN,
) -> Int:
    """Return levels. position: of each op in time, from 0 to 1; None for uniform priorities. variance: of affinities,
    as a share of the largest. away: mean of an op's affinity to other devices than its own."""
    columns: list[Int] = []
    if space.placement_levels:
        for device in range(space.num_devices):
            mean = np.where(device_of == device, 1 - away, away)
            columns += _levels(mean, variance, space.placement_levels)
    if space.scheduling_levels:
        if position is None:
            columns += _levels(np.array(_UNIFORM[0]), _UNIFORM[1], space.scheduling_levels)
        else:
            first = _FIRST_BELOW_TRANSFERS if space.decoder == "paper" else _FIRST_PRIORITY
            mean = first + (_LAST_PRIORITY - first) * position
            columns += _levels(mean, _PRIORITY_VARIANCE, space.scheduling_levels)
    if space.transfer_levels:
        columns += _levels(np.array(_UNIFORM[0]), _UNIFORM[1], space.transfer_levels)
    if space.elite_bias_levels:
        columns.append(np.array(max(0, round(_ELITE_BIAS_SHARE * space.elite_bias_levels) - 1)))
    return np.column_stack([np.broadcast_to(column, len(device_of)) for column in columns])


def _levels(mean: Float, variance: float, levels: int) -> list[Int]:
    """Return the numbers of the levels of A.6, m of mean (m + 1) / (levels + 1), nearest to a mean and a share of
    variance."""
    return [
        np.clip(np.round(each * (levels + 1) - 1), 0, levels - 1).astype(np.int64)
        for each in (mean, np.array(variance))
    ]
