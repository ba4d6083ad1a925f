"""The verdict on a training, from its records: the reason to stop one that cannot learn, and the record of what was
learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite, nan
from typing import Any

from placewright.lab.learning.gain import Gain, gain_of

#: Logits of trainings that learned stay below 20; in those that ended in constants they were 49 and more, and softmax
#: has no gradient left. States that are centred and scaled do not show that: a training that later depended
#: on the op had 491,000 on the way, and logits of 0.2.
MOST_LOGIT_RMS = 40.0
#: Below this all ops are decided alike: policies of trainings that failed have 0.000 to 0.017, those that learned by
#: rewards 0.1 and more, and two that imitate 0.06 (benchmarks/policies/README.md).
LEAST_VARIATION = 0.02
#: Share of the policy's initial entropy: below it the policy has decided.
DECIDED_ENTROPY = 0.5
#: Number of consecutive lines of the records that must agree.
LINES = 3

Line = Mapping[str, Any]


def reason_to_stop(lines: Sequence[Line]) -> str | None:
    """Return why nothing more can be learned; None where the training may go on. lines: of the records, in order."""
    facts = facts_of(lines)
    last = facts[-LINES:]
    if len(last) < LINES:
        return None
    if all(line.get("logit_rms", 0.0) > MOST_LOGIT_RMS for line in last):
        return f"its logits have grown to {last[-1]['logit_rms']:.3g} in the root mean square"
    decided = DECIDED_ENTROPY * facts[0]["entropy"]
    if all(line["entropy"] < decided and is_constant(line) for line in last):
        return f"it decides alike for every op: their decisions differ by {last[-1]['variation']:.2g} of 1"
    return None


def is_constant(line: Line) -> bool:
    """True if decisions do not depend on the op."""
    variation = line.get("variation")
    return isinstance(variation, float) and variation < LEAST_VARIATION


def facts_of(lines: Sequence[Line]) -> list[Line]:
    """Return the lines with statistics of decisions. Earlier versions wrote NaN where ops had no choice."""
    return [line for line in lines if isfinite(line.get("entropy", nan))]


def what_was_learned(lines: Sequence[Line], stopped: str | None, step: int, gain: Gain | None) -> dict[str, Any]:
    """Return the record of a policy after a step: the variation of its decisions, and the training's gain in
    rewards."""
    facts = facts_of(lines)
    found: dict[str, Any] = {"stopped": stopped}
    if facts:
        of_policy = next((line for line in facts if line["step"] >= step), facts[-1])
        found |= {name: of_policy[name] for name in ("entropy", "variation") if name in of_policy}
    if gain is not None:
        found |= {"gain": gain.reward, "gain_error": gain.error}
    return found


def verdict_on(learned: Mapping[str, Any]) -> str:
    """Return the verdict on a training from its record: "learned nothing" where it was stopped or decides alike for
    every op, "no gain shown" where the rewards at its end exceed those at its beginning by no more than noise; ""
    else."""
    if learned.get("stopped") or is_constant(learned):
        return "learned nothing"
    gain = gain_of(learned)
    return "no gain shown" if gain is not None and not gain.is_shown else ""
