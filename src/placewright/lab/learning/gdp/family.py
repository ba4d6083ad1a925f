"""GDP among the families of policies."""

from __future__ import annotations

from placewright.lab.learning.gdp.policy import read
from placewright.lab.learning.gdp.trainings import TRAININGS
from placewright.methods.policies import PolicyFamily

GDP = PolicyFamily(name="gdp", read=read, trainings=lambda: TRAININGS, algorithm="PPO")
