"""A measure of whether a policy in training decides: the differences between its decisions on ops, and the size of its
numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """Statistics of a distribution of actions on one graph.

    entropy: of all actions of an op, in nats, mean over ops. variation: total variation between the probabilities of an
    op's action and their mean over the ops of the graph, mean over ops and choices: 0 where all ops are decided alike,
    at most 1; None where ops are not decided one by one. state_rms, logit_rms: root mean square of the states and
    logits that it comes from; None where it has none. Ops with one possible action decide nothing and do not count.
    """

    entropy: float
    variation: float | None = None
    state_rms: float | None = None
    logit_rms: float | None = None


def decisions_of(choices: Sequence[Tensor], states: Tensor | None = None, logits: Tensor | None = None) -> Decisions:
    """Return the statistics of log probabilities, [ops, levels] for each choice of an op; [1, levels] for one that ops
    share. Minus infinity, also in the logits, marks a level that an op may not use."""
    logs = [log[_decides(log)] for log in (choice.detach() for choice in choices)]
    of_ops = [log.exp() for log in logs if len(log) > 1]
    apart = [float((each - each.mean(0)).abs().sum(1).mean()) / 2 for each in of_ops]
    return Decisions(
        entropy=sum(float(-(log.exp() * log.clamp(min=-1e30)).sum(1).mean()) for log in logs if len(log)),
        variation=sum(apart) / len(apart) if apart else None,
        state_rms=None if states is None else _rms(states),
        logit_rms=None if logits is None else _rms(logits[_decides(logits)]),
    )


def _decides(log: Tensor) -> Tensor:
    """Return by op True if more than one level is left to it."""
    return (~log.isneginf()).sum(1) > 1


def mean_decisions(found: Sequence[Decisions]) -> Decisions:
    """Return the mean over several graphs or samples; a value that one of them lacks is None. Those without a
    variation, which have one op to decide about at most, do not count for it."""
    variations = [each.variation for each in found if each.variation is not None]
    return Decisions(
        entropy=sum(each.entropy for each in found) / len(found),
        variation=sum(variations) / len(variations) if variations else None,
        state_rms=_mean([each.state_rms for each in found]),
        logit_rms=_mean([each.logit_rms for each in found]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def _rms(values: Tensor) -> float:
    """Return the root mean square of the finite values; 0 if there are none."""
    known = values.detach()[~values.isneginf()]
    return float(known.square().mean().sqrt()) if len(known) else 0.0
