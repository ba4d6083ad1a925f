"""Learned list schedulers among the families of policies."""

from __future__ import annotations

from collections.abc import Mapping

from placewright.learning.family import PolicyFamily
from placewright.learning.learned_list.policy import read
from placewright.learning.training import TrainingConfiguration


def _trainings() -> Mapping[str, TrainingConfiguration]:
    from placewright.learning.learned_list.trainings import TRAININGS

    return TRAININGS


LEARNED_LIST = PolicyFamily(name="learned-list", read=read, trainings=_trainings, algorithm="evolution")
