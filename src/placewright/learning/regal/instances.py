"""Graphs to learn from: each with its features and what uniform BRKGA reaches on it, made once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.datasets.problem_set import ProblemSet
from placewright.learning.regal.actions import ActionSpace
from placewright.learning.regal.configuration import PolicyConfiguration
from placewright.learning.regal.expert import actions_of, taught_actions, tried_actions
from placewright.learning.regal.features import FEATURE_EVALUATIONS, Context, context_of, guided_search
from placewright.problem import Problem

#: From which on a proposal that is taught counts fully.
_LARGE_GAIN = 0.05


@dataclass(frozen=True, kw_only=True, eq=False)
class Taught:
    """What a policy may be taught to do: actions, [num ops, num choices], and how much they count, from 0 to 1."""

    actions: NDArray[np.int64]
    weight: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Instance:
    """reference: mean objective of the paper's uniform BRKGA with all evaluations of a rollout. space, keeps_best: of
    the policy that learns. teacher_rounds: of guided search in what is taught."""

    problem: Problem
    context: Context
    space: ActionSpace
    keeps_best: bool = False
    reference: float
    evaluations: int
    teacher_rounds: int

    def reward(self, actions: NDArray[np.int64], seed: int) -> float:
        """-objective / reference (section 4.1) of BRKGA with the proposal that the actions, [num ops, num choices],
        stand for, or of the search for features where that found better."""
        kept = [self._best_for_features] if self.keeps_best else []
        return -min(self._search(actions, seed, kept).best_objective, self.context.objective) / self.reference

    @cached_property
    def taught(self) -> Taught:
        """A simple proposal, or after rounds of search, each guided by what the one before found, the best that was
        found. Where peak memory is the objective the best of several simple ones; it counts by what it gains over
        their mean, since on most graphs they are alike."""
        actions, weight = self._simple_proposal()
        best, taught = None, actions
        for round_ in range(self.teacher_rounds):
            search = self._search(actions, seed=round_)
            actions = actions_of(*self.problem.core.decode(search.best_keys(), self.space.decoder), self.space)
            if best is None or search.best_objective < best:
                best, taught = search.best_objective, actions
        return Taught(actions=taught, weight=weight)

    def _simple_proposal(self) -> tuple[NDArray[np.int64], float]:
        if self.problem.objective == "step-time":
            return taught_actions(self.context.features, self.space), 1.0
        tried = tried_actions(self.context.features, self.space)
        objectives = [self._search(actions, seed=0).best_objective for actions in tried]
        best = int(np.argmin(objectives))
        gain = 1 - objectives[best] / max(1.0, float(np.mean(objectives)))
        return tried[best], min(1.0, gain / _LARGE_GAIN)

    @cached_property
    def _best_for_features(self) -> NDArray[np.uint32]:
        """Keys of what the search for features found."""
        core, decoder = self.problem.core, self.space.decoder
        return core.encode(*core.decode(self.context.keys, decoder), decoder)

    def _search(self, actions: NDArray[np.int64], seed: int, kept: Sequence[NDArray[np.uint32]] = ()) -> _core.Brkga:
        """With the proposal that the actions stand for, after all evaluations."""
        proposal = self.space.proposal(self.problem, actions, self.context.fixed_op)
        search = guided_search(self.problem, proposal, seed, self.space.decoder, kept)
        search.advance(self.evaluations - FEATURE_EVALUATIONS)
        return search


class Instances:
    """The instances of a suite by number; those drawn last are held, up to so many ops. Not for several threads."""

    def __init__(
        self,
        suite: ProblemSet,
        policy: PolicyConfiguration,
        evaluations: int,
        reference_seeds: int,
        teacher_rounds: int,
        most_ops: int,
    ) -> None:
        self._most_ops, self._suite, self._policy = most_ops, suite, policy
        self._evaluations, self._reference_seeds, self._teacher_rounds = evaluations, reference_seeds, teacher_rounds
        self._held: OrderedDict[int, Instance] = OrderedDict()
        self._ops_held = 0

    def __getitem__(self, index: int) -> Instance:
        if index in self._held:
            self._held.move_to_end(index)
            return self._held[index]
        instance = self._make(index)
        self._held[index] = instance
        self._ops_held += instance.problem.core.num_ops
        while self._ops_held > self._most_ops and len(self._held) > 1:
            _, oldest = self._held.popitem(last=False)
            self._ops_held -= oldest.problem.core.num_ops
        return instance

    def _make(self, index: int) -> Instance:
        problem, own = self._suite.problem(self._suite.graph(index)), self._policy
        objectives = []
        for seed in range(self._reference_seeds):
            search = guided_search(problem, None, seed)
            search.advance(self._evaluations)
            objectives.append(search.best_objective)
        return Instance(
            problem=problem,
            context=context_of(problem, index, own.decoder, with_leanings=own.with_leanings),
            space=own.action_space,
            keeps_best=own.keeps_best,
            reference=max(1.0, float(np.mean(objectives))),
            evaluations=self._evaluations,
            teacher_rounds=self._teacher_rounds,
        )
