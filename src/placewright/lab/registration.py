"""Adds the laboratory's methods, policy families and named policies to the product's tables, and its learners to the
table of map solvers; the entry point `lab` of the group `placewright.extensions`."""

from __future__ import annotations

from functools import partial

from placewright.lab.learning.egrl.policy import EGRL
from placewright.lab.learning.egrl.solvers import MAP_LEARNERS, learner_with, zero_shot
from placewright.lab.learning.gdp import trainings as gdp_trainings
from placewright.lab.learning.gdp.policy import GdpPolicy
from placewright.lab.learning.regal import trainings as regal_trainings
from placewright.lab.learning.regal.policy import RegalPolicy
from placewright.lab.learning.rule.policy import found_rule, rule_names
from placewright.lab.learning.shipped import named_policy, shipped_names
from placewright.lab.memory_levels.solvers.table import MAP_SOLVERS, MAP_SOLVERS_OF_POLICIES
from placewright.lab.methods import ENTRIES
from placewright.methods.policies import NAMED_POLICIES, PolicyFamily, add_families
from placewright.methods.table import add_methods

add_methods(ENTRIES)
add_families(
    PolicyFamily(name="regal", read=RegalPolicy.read, trainings=lambda: regal_trainings.TRAININGS),
    PolicyFamily(name="gdp", read=GdpPolicy.read, trainings=lambda: gdp_trainings.TRAININGS, algorithm="PPO"),
    EGRL,
)
NAMED_POLICIES.update({name: partial(named_policy, name) for name in shipped_names()})
NAMED_POLICIES.update({name: partial(found_rule, name) for name in rule_names()})
MAP_SOLVERS.update({learner.name: learner for learner in MAP_LEARNERS})
MAP_SOLVERS_OF_POLICIES.update({"zero-shot": zero_shot, "egrl": learner_with})
