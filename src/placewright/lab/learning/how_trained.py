"""How a policy was trained, in a word or two: what a table says next to its name."""

from __future__ import annotations

from placewright.lab.learning.verdict import is_constant
from placewright.methods.policies import Policy, family_of

RULE = "a rule, no network"
UNKNOWN = "not recorded"


def training_of(policy: Policy) -> str:
    """ "imitation", its family's algorithm ("REINFORCE", say), "imitation, then REINFORCE", that it is a rule, or that
    its record does not say. A policy whose training was stopped, or that decides alike for all ops, is no evidence of
    what can be learned: "; learned nothing" says so."""
    if not policy.weights:
        return RULE
    training = policy.record.get("training")
    steps = policy.record.get("step")
    if not isinstance(training, dict) or not isinstance(steps, int):
        return UNKNOWN
    imitated = training.get("imitation_steps")
    if not isinstance(imitated, int):
        return UNKNOWN
    if imitated >= steps:
        return "imitation"
    algorithm = family_of(policy.family).algorithm
    how = f"imitation, then {algorithm}" if imitated else algorithm
    learned = policy.record.get("learned")
    if isinstance(learned, dict) and (learned.get("stopped") or is_constant(learned)):
        return f"{how}; learned nothing"
    return how
