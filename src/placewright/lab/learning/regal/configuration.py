"""The shape of a policy's network, and the paper's settings by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from placewright.decoder import DecoderName
from placewright.lab.learning.regal.actions import ActionSpace
from placewright.lab.learning.regal.features import num_op_features
from placewright.machine import MAX_DEVICES
from placewright.problem.objective import Objective
from placewright.support.errors import InputError

Network = Literal["graph", "sequence", "autoregressive"]
ActionSelection = Literal["sample", "mean"]
Normalisation = Literal["none", "graph"]


@dataclass(frozen=True, kw_only=True)
class PolicyConfiguration:
    """The graph network of REGAL, section 4.2, its baseline that reads a sequence, or its variant that draws actions op
    by op.

    network: "graph", or "sequence": a recurrent network over the ops in captured order, which is topological, without
    edges (GAS, section 5.2); then rounds, aggregation and update have no effect. "autoregressive": the graph network,
    then a recurrent one over the ops in that order, which gets the actions of the op before (A.8). objective,
    num_devices: of the problems it is for. rounds: of message passing, T. width: of states, messages and hidden layers.
    aggregation: of messages at an op. update: of an op's state by messages: a network's output for both is added to the
    state, as in A.15, or replaces it, as in equation 1 as printed, or a gated recurrent unit updates it (A.16).
    placement_levels, scheduling_levels, transfer_levels, decoder, elite_bias_levels: as in ActionSpace. Not in the
    paper: with_affinities: smoothed affinities are among the features (smoothed_affinity.py, or memory_affinity.py
    where peak memory is the objective). action_selection: "sample" by their probabilities, as in the paper, or "mean":
    the level nearest to the mean of a choice's levels, so that a mean expresses how sure the policy is. warm_start: the
    best plan of the search for features is among the first individuals of the guided one. normalisation: "graph" for
    states that are centred and scaled over the ops of the graph before the actions, so that what all ops share does not
    hide their differences.
    """

    objective: Objective
    num_devices: int = 2
    network: Network = "graph"
    rounds: int = 16
    width: int = 32
    aggregation: Literal["sum", "mean"] = "sum"
    update: Literal["residual", "gru", "plain"] = "residual"
    placement_levels: int = 2
    scheduling_levels: int = 16
    transfer_levels: int = 0
    decoder: DecoderName = "paper"
    elite_bias_levels: int = 0
    with_affinities: bool = False
    action_selection: ActionSelection = "sample"
    warm_start: bool = False
    normalisation: Normalisation = "none"

    def __post_init__(self) -> None:
        if not (0 <= self.rounds <= 1000 and 1 <= self.width <= 4096 and 1 <= self.num_devices <= MAX_DEVICES):
            raise InputError(
                f"{self.rounds} rounds of width {self.width} for {self.num_devices} devices; allowed are at most 1000 "
                f"rounds, widths from 1 to 4096 and 1 to {MAX_DEVICES} devices"
            )
        if self.network not in get_args(Network):
            raise InputError(f"there is no network '{self.network}'; known are {', '.join(get_args(Network))}")
        if self.aggregation not in ("sum", "mean") or self.update not in ("residual", "gru", "plain"):
            raise InputError(f"aggregation '{self.aggregation}' and update '{self.update}' are not both known")
        if self.normalisation not in get_args(Normalisation):
            known = ", ".join(get_args(Normalisation))
            raise InputError(f"normalisation is '{self.normalisation}'; known are {known}")
        if self.action_selection not in get_args(ActionSelection):
            raise InputError(
                f"action_selection is '{self.action_selection}'; known are {', '.join(get_args(ActionSelection))}"
            )
        if self.action_selection == "mean" and self.network == "autoregressive":
            raise InputError(
                "action_selection of an autoregressive network must be 'sample': levels depend on those drawn before"
            )
        _ = self.action_space

    @property
    def action_space(self) -> ActionSpace:
        return ActionSpace(
            num_devices=self.num_devices,
            placement_levels=self.placement_levels,
            scheduling_levels=self.scheduling_levels,
            transfer_levels=self.transfer_levels,
            decoder=self.decoder,
            elite_bias_levels=self.elite_bias_levels,
        )

    @property
    def num_op_features(self) -> int:
        return num_op_features(self.objective, self.num_devices, self.with_affinities)


#: A.14 to A.16. Peak memory has no levels there; A.13 counts 16 actions of placement, 4 of scheduling, so 2 and 2.
_PAPER = {
    "runtime-synthetic": PolicyConfiguration(objective="step-time", rounds=2, aggregation="mean", update="gru"),
    "runtime-zoo": PolicyConfiguration(objective="step-time"),
    "peak-memory-zoo": PolicyConfiguration(objective="peak-memory", aggregation="mean", scheduling_levels=2),
}
#: Variations of each: a baseline (section 5.2), actions drawn in order (A.8), priorities alone (A.12), other depths
#: (figure 4), the elite bias of A.6. Not in the paper: decoders that leave less to chance
#: (docs/lab/policies.md).
_VARIATIONS: dict[str, dict[str, Any]] = {
    "sequence": {"network": "sequence"},
    "autoregressive": {"network": "autoregressive"},
    "scheduling": {"placement_levels": 0},
    **{f"rounds-{rounds}": {"rounds": rounds} for rounds in (0, 1, 2, 4, 8, 16)},
    "elite-bias": {"elite_bias_levels": 5},
    "lazy": {"decoder": "lazy"},
    "evict": {"decoder": "evict"},
}
_VARIED = {
    f"{name}-{variation}": replace(configuration, **changes)
    for name, configuration in _PAPER.items()
    for variation, changes in _VARIATIONS.items()
}
_AFFINITIES = replace(
    _PAPER["runtime-zoo"],
    with_affinities=True,
    placement_levels=5,
    rounds=4,
    aggregation="mean",
    action_selection="mean",
)
CONFIGURATIONS: dict[str, PolicyConfiguration] = {
    **_PAPER,
    **{name: policy for name, policy in _VARIED.items() if policy not in _PAPER.values()},
    "runtime-zoo-affinity": _AFFINITIES,
    "runtime-zoo-affinity-lazy": replace(_AFFINITIES, decoder="lazy", warm_start=True),
    "peak-memory-zoo-affinity": replace(_AFFINITIES, objective="peak-memory"),
    "peak-memory-zoo-affinity-evict": replace(_AFFINITIES, objective="peak-memory", decoder="evict", warm_start=True),
}
#: Names of REGAL and of GAS on each task.
IN_THE_PAPER = tuple(f"{name}{variation}" for name in _PAPER for variation in ("", "-sequence"))
