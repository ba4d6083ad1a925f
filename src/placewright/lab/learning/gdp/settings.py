"""The problems that a GDP policy is for, and the sizes of its network."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from placewright.lab.learning.placers.colocation import check_rules
from placewright.problem.objective import Objective
from placewright.support.errors import InputError

#: The conditioning of the placer on the graph's embedding: by factors from 0 to 2, by any factors, or none.
Superposition = Literal["sigmoid", "linear", "off"]


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """Sizes of GDP's network. rounds: layers of GraphSAGE. layers: of the placer. width: of all states; the placer's
    dense layers widen them by `widening`. segment: units that attend to one another; memory: number of units of the
    segment before that they also attend to. attention: False leaves only dense layers. superposition: see
    Superposition."""

    width: int = 64
    rounds: int = 4
    layers: int = 2
    heads: int = 4
    widening: int = 2
    segment: int = 128
    memory: int = 128
    attention: bool = True
    superposition: Superposition = "sigmoid"

    def __post_init__(self) -> None:
        for name, least, most in (
            ("width", 1, 4096),
            ("rounds", 0, 64),
            ("layers", 1, 64),
            ("heads", 1, 64),
            ("widening", 1, 16),
            ("segment", 1, 65536),
        ):
            if not least <= (value := getattr(self, name)) <= most:
                raise InputError(f"{name} is {value}; it must be from {least} to {most}")
        if self.width % self.heads:
            raise InputError(f"width is {self.width}; it must be a multiple of heads, {self.heads}")
        if not 0 <= self.memory <= self.segment:
            raise InputError(f"memory is {self.memory}; it must be from 0 to segment, {self.segment}")


#: Number of placements drawn besides the likeliest, for a graph that the policy answers for or learns on alone.
SAMPLES = 15

#: As far as the paper and its authors' later work (GO, 2020) describe it; the rest is ours.
PAPER_NETWORK = NetworkSettings(width=128, rounds=8, widening=4)


@dataclass(frozen=True, kw_only=True)
class GdpConfiguration:
    """A GDP policy. num_devices, objective: of the problems that the policy is for. colocation: the rules that make its
    units; none for ops, as in the paper. shared_noise: of the logits when drawing (shared_noise.py); 0 draws each op
    independently."""

    num_devices: int = 2
    objective: Objective = "step-time"
    colocation: tuple[str, ...] = ()
    network: NetworkSettings = field(default_factory=NetworkSettings)
    shared_noise: float = 3.0

    def __post_init__(self) -> None:
        if not 0 <= self.shared_noise < 1e6:
            raise InputError(f"shared_noise is {self.shared_noise}; it must be from 0 to below 1,000,000")
        if not 1 <= self.num_devices <= 64:
            raise InputError(f"a policy for {self.num_devices} devices; a machine has from 1 to 64")
        check_rules(self.colocation)
