"""What a proposal is worth to BRKGA (REGAL, section 4.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.decoder import DecoderName
from placewright.guide import Guide
from placewright.lab.learning.protocols import Demonstration
from placewright.lab.peers.brkga import Brkga
from placewright.problem import Problem
from placewright.proposal import Proposal


@dataclass(frozen=True, kw_only=True, eq=False)
class GuidedSearch:
    """BRKGA with the proposal, after a search that made the observation.

    Parameters
    ----------
    reference
        What rewards are divided by: the mean objective of the paper's uniform BRKGA with all evaluations of a rollout.
    evaluations
        Of the search that is guided.
    searches
        That the evaluations of a rollout are divided among; the mean of what they reach counts, which is less of one
        search's luck.
    found_before
        Objective that the search for the observation reached; a rollout of one search is never worse.
    initial_keys
        Chromosomes that are among the first individuals of the guided search.
    expert
        Makes the demonstration; None where nothing is imitated.
    """

    problem: Problem
    observation: Any
    decoder: DecoderName
    reference: float
    evaluations: int
    found_before: int
    searches: int = 1
    initial_keys: tuple[NDArray[np.uint32], ...] = ()
    expert: Callable[[GuidedSearch], Demonstration] | None = None

    def rewards(self, guides: Sequence[Guide], seeds: Sequence[int]) -> list[float]:
        """-objective / reference of each."""
        return [self._reward(guide, seed) for guide, seed in zip(guides, seeds, strict=True)]

    @cached_property
    def demonstration(self) -> Demonstration:
        assert self.expert is not None
        return self.expert(self)

    def search(self, proposal: Proposal, seed: int, initial_keys: Sequence[NDArray[np.uint32]] = ()) -> _core.Brkga:
        """After all evaluations of one search."""
        search = Brkga(decoder=self.decoder).guided_by(proposal).start(self.problem, seed, proposal, initial_keys)
        search.advance(self.evaluations // self.searches)
        return search

    def _reward(self, guide: Guide, seed: int) -> float:
        assert isinstance(guide, Proposal)
        seeds = range(seed, seed + self.searches)
        reached = float(np.mean([self.search(guide, each, self.initial_keys).best_objective for each in seeds]))
        return -(min(reached, self.found_before) if self.searches == 1 else reached) / self.reference


def uniform_objective(problem: Problem, evaluations: int, num_seeds: int) -> float:
    """Mean over the seeds of what the paper's uniform BRKGA reaches, at least 1."""
    objectives = []
    for seed in range(num_seeds):
        search = Brkga().start(problem, seed)
        search.advance(evaluations)
        objectives.append(search.best_objective)
    return max(1.0, float(np.mean(objectives)))
