"""What the laboratory adds to the product's tables; the entry point `lab` of the group `placewright.extensions`."""

from __future__ import annotations

from functools import partial

from placewright.lab.learning.egrl.policy import EGRL
from placewright.lab.learning.egrl.solvers import MAP_LEARNERS, learner_with, zero_shot
from placewright.lab.learning.gdp.family import GDP
from placewright.lab.learning.learned_list.family import LEARNED_LIST
from placewright.lab.learning.regal.family import REGAL
from placewright.lab.learning.rule.policy import found_rule, rule_names
from placewright.lab.learning.shipped import named_policy, shipped_names
from placewright.lab.methods import ENTRIES
from placewright.memory_levels.solvers.table import MAP_SOLVERS, MAP_SOLVERS_OF_POLICIES
from placewright.methods.policies import NAMED_POLICIES, add_families
from placewright.methods.table import add_methods

add_methods(ENTRIES)
add_families(REGAL, GDP, EGRL, LEARNED_LIST)
NAMED_POLICIES.update({name: partial(named_policy, name) for name in shipped_names()})
NAMED_POLICIES.update({name: partial(found_rule, name) for name in rule_names()})
MAP_SOLVERS.update({learner.name: learner for learner in MAP_LEARNERS})
MAP_SOLVERS_OF_POLICIES.update({"zero-shot": zero_shot, "egrl": learner_with})
