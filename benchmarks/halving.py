"""Random search by successive halving, as `find_rule.py` does it: many candidates on a few graphs,
the best of them on more."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

Candidate = TypeVar("Candidate")
#: Each round uses this many times the graphs of the round before, and keeps one in this many candidates.
FACTOR = 4


@dataclass(frozen=True, kw_only=True)
class Scored(Generic[Candidate]):
    """A candidate with its gains on the first graphs, in percent."""

    candidate: Candidate
    gains: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.gains))

    @property
    def error(self) -> float:
        """Standard error over graphs; 0 for a single one."""
        return float(np.std(self.gains, ddof=1) / len(self.gains) ** 0.5) if len(self.gains) > 1 else 0.0


def halved(
    candidates: Sequence[Candidate], num_graphs: int, gain: Callable[[Candidate, int], float], first: int = 12
) -> list[Scored[Candidate]]:
    """The candidates that were tried on all graphs, best first.

    gain: percent gained by a candidate on the graph of that number. first: number of graphs of the first round.
    """
    rivals = [Scored(candidate=candidate, gains=()) for candidate in candidates]
    reached = 0
    while reached < num_graphs:
        upto = min(num_graphs, FACTOR * reached or first)
        rivals = [
            Scored(
                candidate=rival.candidate,
                gains=(*rival.gains, *(gain(rival.candidate, index) for index in range(reached, upto))),
            )
            for rival in rivals
        ]
        rivals.sort(key=lambda rival: -rival.mean)
        best = rivals[0]
        print(f"{len(rivals)} on {upto} graphs: best {best.mean:+.2f} ± {best.error:.2f}", file=sys.stderr, flush=True)
        reached = upto
        if reached < num_graphs:
            rivals = rivals[: max(2, len(rivals) // FACTOR)]
    return rivals
