"""The settings of ColocRL, which its controllers and its parameter server know, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from placewright.lab.learning.placers.placer import Learn, NetworkPlacer, Task, check_noise, check_sizes, falling_noise
from placewright.support.errors import InputError, shown

if TYPE_CHECKING:
    from placewright.lab.learning.algorithms.reinforce import MovingBaseline
    from placewright.lab.learning.placers.placement_policy import PlacementPolicy
    from placewright.lab.learning.placers.sequence_network import SequencePlacer

Updates: TypeAlias = Literal["asynchronous", "synchronous", "deterministic"]


@dataclass(frozen=True, kw_only=True)
class SequencePlacement(NetworkPlacer):
    """The groups are placed one after the other by ColocRL's attentional sequence-to-sequence network.

    hidden: of the LSTMs; kind_width: of the embedding of an op's kind.
    """

    hidden: int = 64
    kind_width: int = 16

    def __post_init__(self) -> None:
        check_sizes(self.samples, self.hidden)
        check_noise(self.shared_noise)

    def policy_of(self, task: Task) -> SequencePlacer:
        from placewright.lab.learning.placers.sequence_network import sequence_placer

        return sequence_placer(task, self.kind_width, self.hidden, self.shared_noise)


@dataclass(frozen=True, kw_only=True)
class ColocRlSettings(SequencePlacement):
    """Settings of ColocRL.

    samples: the paper's K.
    first_baseline, baseline_decay, cut_off: as in MovingBaseline; the paper begins at the failing signal, which costs
    the first forty steps. shared_noise: falls over the first 2,400 placements whatever the budget, as a checkpoint may
    go on under another; 0 as in the paper.

    controllers: that draw and measure, each with a baseline of its own, and share a parameter server. updates: how its
    weights change, by each gradient as it comes (asynchronous), by the mean of all controllers' (synchronous), or one
    after the other in a fixed order (deterministic). staleness: by how many updates a gradient may be late; later ones
    are dropped. ray: address of a cluster whose processes they are; None for this one. workers: of each controller,
    that measure for it; 0 where it does so itself. checkpoint: a folder where a training that was killed goes on.
    """

    name: str = "colocrl"
    first_baseline: float | None = None
    baseline_decay: float = 0.9
    cut_off: int = 200
    controllers: int = 1
    updates: Updates = "asynchronous"
    staleness: int = 20
    workers: int = 0
    ray: str | None = None
    checkpoint: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.updates not in get_args(Updates):
            raise InputError(f"updates is '{shown(self.updates)}'; allowed are {', '.join(get_args(Updates))}")
        for name, least in (("controllers", 1), ("staleness", 0), ("workers", 0)):
            if not least <= (value := getattr(self, name)) <= 1024:
                raise InputError(f"{name} is {value}; it must be from {least} to 1024")

    @property
    def settings(self) -> dict[str, Any]:
        """Without where it learns, which decides nothing."""
        return {name: value for name, value in super().settings.items() if name not in ("workers", "ray", "checkpoint")}

    def noise_after(self, tried: int, task: Task) -> float:
        return falling_noise(self.shared_noise, tried)

    def reinforce(self, policy: PlacementPolicy) -> MovingBaseline:
        """The algorithm of a controller, at its beginning."""
        from placewright.lab.learning.algorithms.reinforce import MovingBaseline

        return MovingBaseline(
            policy,
            learning_rate=self.learning_rate,
            start=self.first_baseline,
            decay=self.baseline_decay,
            cut_off=self.cut_off,
            max_grad_norm=self.max_grad_norm,
        )

    def learner(self, policy: PlacementPolicy) -> Learn:
        return self.reinforce(policy).learn
