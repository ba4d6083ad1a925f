"""HDP (Mirhoseini et al., A Hierarchical Model for Device Placement, ICLR 2018)."""

from __future__ import annotations

from dataclasses import dataclass

from placewright.learning.environments.first_come import FAILING_SIGNAL
from placewright.learning.placers.placer import LearnedPlacer, Proposals, Task, check_sizes
from placewright.learning.placers.torch_needed import torch_on_one_thread
from placewright.support.errors import InputError

#: Steps after which the likeliest placement is tried, too: bounded logits never leave a device without a chance, so
#: what is drawn for thousands of ops always has some that stand apart from the rest.
LIKELIEST_EVERY = 10


@dataclass(frozen=True, kw_only=True)
class Hdp(LearnedPlacer):
    """No group is given: a feed-forward network puts each op into one, a sequence-to-sequence network gives each group
    its device, and REINFORCE trains both on the square root of the step time.

    groupings: drawn at a step, the paper's m; samples: placements of each, its k. num_groups: at most, and no more than
    groups_per_device for each device where that is not 0. kind_width: of the embedding of an op's kind; grouper_hidden:
    of the grouper's one layer, rectified or linear; hidden: of the LSTMs. temperature, bound: of the logits of devices,
    as in SequenceNetwork. logit_noise: of what is drawn at the first noisy_steps, over the root mean square of logits.
    first_baseline, baseline_decay, cut_off: as in MovingBaseline. While the baseline is above what placements cost,
    all that is drawn becomes likelier, and with thousands of ops a few steps of that leave nothing to draw; so it
    begins at the cost of the best single device, where the paper's begins at the failing signal.
    """

    name: str = "hdp"
    colocation: tuple[str, ...] = ()
    groupings: int = 1
    samples: int = 4
    num_groups: int = 256
    groups_per_device: int = 20
    kind_width: int = 16
    grouper_hidden: int = 64
    rectified: bool = True
    hidden: int = 64
    temperature: float = 1.0
    bound: float = 5.0
    learning_rate: float = 1e-2
    max_grad_norm: float = 1.0
    logit_noise: float = 0.0
    noisy_steps: int = 0
    first_baseline: float = 1.0
    baseline_decay: float = 0.9
    cut_off: int = 200

    def __post_init__(self) -> None:
        check_sizes(self.samples, self.hidden)
        if self.groupings < 1 or self.num_groups < 1 or self.groups_per_device < 0:
            raise InputError(
                f"{self.groupings} groupings into {self.num_groups} groups, {self.groups_per_device} per device, "
                "cannot be drawn; there must be at least one of each"
            )
        if not (self.temperature > 0 and self.bound > 0 and self.logit_noise >= 0):
            raise InputError(
                f"temperature {self.temperature}, bound {self.bound} and logit noise {self.logit_noise} of logits: the "
                "first two must be above 0, the last at least 0"
            )

    def proposals(self, task: Task) -> Proposals:
        with torch_on_one_thread(self.name):
            yield from self._learning(task)

    def _learning(self, task: Task) -> Proposals:
        from placewright.learning.algorithms.moving_baseline import MovingBaseline
        from placewright.learning.placers.hierarchical_network import hierarchical_placer
        from placewright.learning.placers.placement_policy import seeded

        policy, generator = seeded(lambda: hierarchical_placer(task, self), task.seed)
        learner = MovingBaseline(
            policy,
            learning_rate=self.learning_rate,
            start=self.first_baseline,
            decay=self.baseline_decay,
            cut_off=self.cut_off,
            max_grad_norm=self.max_grad_norm,
        )
        while True:
            if learner.steps and learner.steps % LIKELIEST_EVERY == 0:
                yield policy.devices(policy.likeliest(), task.units.allowed)
            noise = self.logit_noise if learner.steps < self.noisy_steps else 0.0
            actions = policy.sample(self.groupings, generator, noise)
            trials = yield policy.devices(actions, task.units.allowed)
            log_probability = policy.evaluate(actions).log_probability.sum(1)
            learner.step(log_probability, trials.cost, trials.runs)


#: As the paper has it; it leaves the cut-off open, which is ColocRL's.
HDP_PAPER = Hdp(
    name="hdp-paper",
    groups_per_device=0,
    kind_width=32,
    hidden=256,
    temperature=10.0,
    learning_rate=0.1,
    logit_noise=0.5,
    noisy_steps=500,
    first_baseline=FAILING_SIGNAL,
    cut_off=5000,
)
#: The settings of the code that its authors published with TensorFlow, without its mistakes (docs/placers.md).
HDP_GRAPPLER = Hdp(
    name="hdp-grappler",
    samples=1,
    kind_width=32,
    rectified=False,
    hidden=512,
    bound=1.0,
    learning_rate=0.1,
    logit_noise=0.5,
    noisy_steps=750,
    first_baseline=FAILING_SIGNAL,
    cut_off=1000,
)
