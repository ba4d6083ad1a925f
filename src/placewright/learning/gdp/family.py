"""GDP among the families of policies."""

from __future__ import annotations

from placewright.learning.family import PolicyFamily
from placewright.learning.gdp.policy import read
from placewright.learning.gdp.trainings import TRAININGS

GDP = PolicyFamily(name="gdp", read=read, trainings=lambda: TRAININGS, algorithm="PPO")
