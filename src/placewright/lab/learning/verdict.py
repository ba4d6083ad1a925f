"""Whether a training learns, by its records: what stops one that cannot, and what its policy says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite, nan
from typing import Any

from placewright.lab.learning.gain import Gain, gain_of

#: Logits of trainings that learned stay below 20; of those that ended in constants they were 49 and more, and softmax
#: has no gradient left. States say nothing of that where they are centred and scaled: a training that went on to depend
#: on the op had 491,000 on the way, and logits of 0.2.
MOST_LOGIT_RMS = 40.0
#: Below it all ops are decided alike: policies of trainings that failed have 0.000 to 0.017, those that learned by
#: rewards 0.1 and more, and two that imitate 0.06 (benchmarks/policies/README.md).
LEAST_VARIATION = 0.02
#: Of the entropy that the policy began with: below it the policy has made up its mind.
DECIDED_ENTROPY = 0.5
#: So many lines of the records in a row must say the same.
LINES = 3

Line = Mapping[str, Any]


def reason_to_stop(lines: Sequence[Line]) -> str | None:
    """Why nothing more can be learned; None where the training may go on. lines: of the records, in order."""
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
    """Whether decisions do not depend on the op."""
    variation = line.get("variation")
    return isinstance(variation, float) and variation < LEAST_VARIATION


def facts_of(lines: Sequence[Line]) -> list[Line]:
    """The lines that tell of decisions. Earlier versions wrote numbers that are none where ops had no choice."""
    return [line for line in lines if isfinite(line.get("entropy", nan))]


def what_was_learned(lines: Sequence[Line], stopped: str | None, step: int, gain: Gain | None) -> dict[str, Any]:
    """For the record of the policy of a step: how its decisions vary, and what the training gained in what it drew."""
    facts = facts_of(lines)
    found: dict[str, Any] = {"stopped": stopped}
    if facts:
        of_policy = next((line for line in facts if line["step"] >= step), facts[-1])
        found |= {name: of_policy[name] for name in ("entropy", "variation") if name in of_policy}
    if gain is not None:
        found |= {"gain": gain.reward, "gain_error": gain.error}
    return found


def verdict_on(learned: Mapping[str, Any]) -> str:
    """On a training, by what is recorded of it: "learned nothing" where it was stopped or decides alike for every op,
    "no gain shown" where what it drew at its end is no better than at its beginning by more than noise; "" else."""
    if learned.get("stopped") or is_constant(learned):
        return "learned nothing"
    gain = gain_of(learned)
    return "no gain shown" if gain is not None and not gain.is_shown else ""
