"""Learned list schedulers among the families of policies."""

from __future__ import annotations

from collections.abc import Mapping

from placewright.lab.learning.learned_list.policy import read
from placewright.lab.learning.learned_list.solver import LearnedList
from placewright.lab.learning.training import TrainingConfiguration
from placewright.methods.policies import PolicyFamily


def _trainings() -> Mapping[str, TrainingConfiguration]:
    from placewright.lab.learning.learned_list.trainings import TRAININGS

    return TRAININGS


LEARNED_LIST = PolicyFamily(
    name="learned-list",
    read=read,
    trainings=_trainings,
    algorithm="evolution",
    first_of_auto=lambda policy: LearnedList(policy=policy),
)
