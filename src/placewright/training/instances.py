"""Graphs to learn from: each with its features and what uniform BRKGA reaches on it, made once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from placewright import _core
from placewright.bench.suite import Suite
from placewright.policies.actions import ActionSpace
from placewright.policies.configuration import PolicyConfiguration
from placewright.policies.features import FEATURE_EVALUATIONS, Context, context_of, guided_search
from placewright.problem import Problem
from placewright.training.teacher import actions_of, taught_actions


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
    def taught_actions(self) -> NDArray[np.int64]:
        """What a policy may be taught to do here, [num ops, num choices]: a simple proposal, or after rounds of search,
        each guided by what the one before found, the best that was found."""
        actions = taught_actions(self.context.features, self.space)
        best, taught = None, actions
        for round_ in range(self.teacher_rounds):
            search = self._search(actions, seed=round_)
            actions = actions_of(*self.problem.core.decode(search.best_keys(), self.space.decoder), self.space)
            if best is None or search.best_objective < best:
                best, taught = search.best_objective, actions
        return taught

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
        suite: Suite,
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
