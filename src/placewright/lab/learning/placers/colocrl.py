"""ColocRL (Mirhoseini et al., Device Placement Optimization with Reinforcement Learning, ICML 2017)."""

from __future__ import annotations

from dataclasses import dataclass

from placewright.lab.learning.environments.first_come import FAILING_SIGNAL
from placewright.lab.learning.placers.colocrl_settings import ColocRlSettings
from placewright.lab.learning.placers.placer import Task, Trying, torch_on_one_thread
from placewright.problem.objective import StopReason
from placewright.support.errors import InputError


@dataclass(frozen=True, kw_only=True)
class ColocRl(ColocRlSettings):
    """An attentional sequence-to-sequence network over colocation groups, trained by REINFORCE on the square root of
    the step time."""

    def learn(self, task: Task, trying: Trying) -> StopReason:
        if self.controllers == 1 and self.ray is None and self.checkpoint is None:
            return super().learn(task, trying)
        if not trying.environment.is_simulated:
            raise InputError("several controllers simulate; one alone, without checkpoint, can measure placements")
        with torch_on_one_thread(self.name):
            from placewright.lab.learning.distributed.training import learn_distributed

            return learn_distributed(self, task, trying)


#: Sizes that the paper leaves open are those of the published code of its successor.
COLOCRL_PAPER = ColocRl(
    name="colocrl-paper", hidden=512, kind_width=32, first_baseline=FAILING_SIGNAL, cut_off=5000, shared_noise=0.0
)
