"""The reward of a proposal: the result of BRKGA with it (REGAL, section 4.1)."""

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
    """A BRKGA search with the proposal, after a search that made the observation.

    Parameters
    ----------
    reference
        Divisor of rewards: the mean objective of the paper's uniform BRKGA with all evaluations of a rollout.
    evaluations
        Evaluations of the guided search.
    searches
        Number of searches that share the evaluations of a rollout; the reward is their mean, which depends less on one
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
        """Return -objective / reference for each guide."""
        return [self._reward(guide, seed) for guide, seed in zip(guides, seeds, strict=True)]

    @cached_property
    def demonstration(self) -> Demonstration:
        assert self.expert is not None
        return self.expert(self)

    def search(self, proposal: Proposal, seed: int, initial_keys: Sequence[NDArray[np.uint32]] = ()) -> _core.Brkga:
        """Return a search after all of its evaluations."""
        search = Brkga(decoder=self.decoder).guided_by(proposal).start(self.problem, seed, proposal, initial_keys)
        search.advance(self.evaluations // self.searches)
        return search

    def _reward(self, guide: Guide, seed: int) -> float:
        assert isinstance(guide, Proposal)
        seeds = range(seed, seed + self.searches)
        reached = float(np.mean([self.search(guide, each, self.initial_keys).best_objective for each in seeds]))
        return -(min(reached, self.found_before) if self.searches == 1 else reached) / self.reference


def uniform_objective(problem: Problem, evaluations: int, num_seeds: int) -> float:
    """Return the mean over the seeds of the objective that the paper's uniform BRKGA reaches, at least 1."""
    objectives = []
    for seed in range(num_seeds):
        search = Brkga().start(problem, seed)
        search.advance(evaluations)
        objectives.append(search.best_objective)
    return max(1.0, float(np.mean(objectives)))
