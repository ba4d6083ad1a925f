"""The methods of papers: those to compare with, those that a policy guides and those that learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from placewright.lab.learning.gdp.policy import GdpPolicy
from placewright.lab.learning.guided import Regal
from placewright.lab.learning.placer import Placer
from placewright.lab.learning.placers.colocrl import COLOCRL_PAPER, ColocRl
from placewright.lab.learning.placers.controls import (
    AnnealedPlacement,
    EvolvedPlacement,
    RandomPlacement,
    SharedNoisePlacement,
)
from placewright.lab.learning.placers.gdp import GDP_PAPER, Gdp
from placewright.lab.learning.placers.hdp import HDP_GRAPPLER, HDP_PAPER, Hdp
from placewright.lab.learning.placers.layer_wise import LayerWise
from placewright.lab.learning.placers.placer import LearnedPlacer
from placewright.lab.learning.placers.placeto import PLACETO_PAPER, Placeto
from placewright.lab.learning.placers.post import Post
from placewright.lab.learning.placers.spotlight import Spotlight
from placewright.lab.learning.random_splits import RANDOM_SPLITS_LAZY, RandomSplits
from placewright.lab.learning.regal.features import FEATURE_EVALUATIONS
from placewright.lab.peers.annealing import Annealing
from placewright.lab.peers.brkga import BRKGA_BETAS, BRKGA_BY_DECODER, TUNED_BRKGA, Brkga
from placewright.lab.peers.cp_sat import CP_SAT_COLD, CpSat, CpWindows
from placewright.lab.peers.graph_partition import GP_DFS, METIS_DFS
from placewright.lab.peers.local_search import STRONG_LOCAL_SEARCH, LocalSearch
from placewright.lab.peers.m_etf import MemoryEtf
from placewright.lab.peers.m_sct import MemorySct
from placewright.lab.peers.m_topo import MemoryTopo
from placewright.lab.peers.random_search import RandomSearch
from placewright.methods.built_in import MethodEntry, paper_evaluations
from placewright.methods.policies import Policy
from placewright.problem import Problem
from placewright.search.run.method import Method


def _placer_evaluations(problem: Problem) -> int:
    """The number of placements that Post tries in all."""
    return Post().placements


def _guided_evaluations(problem: Problem) -> int:
    return max(paper_evaluations(problem), 2 * FEATURE_EVALUATIONS)


_DECODERS = {
    "brkga-lazy": "the same with transfers right before use",
    "brkga-early-free": "the same with what frees memory first",
    "brkga-evict": "the same with copies evicted and sent again",
    "brkga-segment-fill": "the same over the decoder of segment-fill",
    "brkga-earliest-finish": "the same with each op where it finishes first",
}
#: Those that a policy guides, without one.
GUIDED: dict[str, Regal] = {
    method.name: method
    for method in (
        Regal(),
        Regal(name="idrs", search=RandomSearch()),
        Regal(name="gas", network="sequence"),
        Regal(name="rule", family="rule"),
    )
}
_GUIDED = {
    "regal": "BRKGA guided by a policy that was trained beforehand (Paliwal et al. 2020)",
    "idrs": "random search guided by a policy",
    "gas": "BRKGA guided by a policy that reads the ops in order",
    "rule": "BRKGA guided by the best rule over a policy's features, without a network",
}
#: Each learns a placement by trying some; the last learns nothing, and draws as some of them do.
PLACERS: dict[str, LearnedPlacer] = {
    method.name: method
    for method in (
        Post(),
        ColocRl(),
        COLOCRL_PAPER,
        Hdp(),
        HDP_PAPER,
        HDP_GRAPPLER,
        Spotlight(),
        Placeto(),
        PLACETO_PAPER,
        Gdp(),
        GDP_PAPER,
        SharedNoisePlacement(),
    )
}
_PLACERS = {
    "post": "cross-entropy and PPO over a distribution for each group of ops (Gao et al. 2018)",
    "colocrl": "a sequence-to-sequence network that learns to place groups of ops (Mirhoseini et al. 2017)",
    "colocrl-paper": "the same in the size that its authors' code had",
    "hdp": "networks that learn to group ops and to place the groups (Mirhoseini et al. 2018)",
    "hdp-paper": "the same with the settings of its paper",
    "hdp-grappler": "the same with the settings of its authors' code",
    "spotlight": "colocrl's network, trained by PPO (Gao et al. 2018)",
    "placeto": "messages in the graph move one group of ops after the other (Addanki et al. 2019)",
    "placeto-paper": "the same with the settings of its paper",
    "gdp": "a graph network with attention that learns to place all ops at once (Zhou et al. 2020)",
    "gdp-paper": "the same in the size and with the settings of its paper",
    "shared-noise-placement": "random placements in which ops that exchange much stand together",
}


def _guided_by(method: Regal, policy: Policy) -> Method | None:
    return replace(method, policy=policy) if method.takes(policy) else None


def _placer_with(placer: Gdp, policy: Policy) -> Method | None:
    return placer.with_policy(policy) if isinstance(policy, GdpPolicy) else None


def _guided(method: Regal, summary: str) -> MethodEntry:
    return MethodEntry(
        method=method,
        kind="guided",
        summary=summary,
        needs="a policy; one is shipped for two devices",
        default_evaluations=_guided_evaluations,
        with_policy=partial(_guided_by, method),
    )


def _placer(placer: LearnedPlacer, summary: str) -> MethodEntry:
    learns = placer.name in PLACERS and not isinstance(placer, SharedNoisePlacement)
    zero_shot: Callable[[Problem], int] | None = None
    with_policy: Callable[[Policy], Method | None] | None = None
    if isinstance(placer, Gdp):
        zero_shot, with_policy = placer.zero_shot_evaluations, partial(_placer_with, placer)
    return MethodEntry(
        method=placer,
        kind="learner" if learns else "peer",
        summary=summary,
        needs=_needs(placer) if placer.name in PLACERS else "",
        default_evaluations=_placer_evaluations,
        evaluations_with_policy=zero_shot,
        with_policy=with_policy,
        tries_placements=True,
    )


def _needs(placer: LearnedPlacer) -> str:
    if isinstance(placer, Post):
        return ""
    return "the extra train" if isinstance(placer, Gdp) else "the extra torch"


def _peer(method: Method, summary: str, needs: str = "") -> MethodEntry:
    return MethodEntry(method=method, kind="peer", summary=summary, needs=needs)


#: In the order in which they are listed.
ENTRIES: tuple[MethodEntry, ...] = (
    _peer(Brkga(), "REGAL's genetic algorithm over its paper's decoder"),
    _peer(TUNED_BRKGA, "the same with settings tuned on synthetic graphs"),
    _peer(BRKGA_BETAS, "the same with a Beta distribution for each part of the chromosome"),
    *(_peer(brkga, _DECODERS[brkga.name]) for brkga in BRKGA_BY_DECODER),
    *(_guided(method, _GUIDED[method.name]) for method in GUIDED.values()),
    _peer(RandomSplits(), "BRKGA that begins with smooth random splits: what a policy has to beat"),
    _peer(RANDOM_SPLITS_LAZY, "the same with transfers right before use"),
    *(_placer(placer, _PLACERS[placer.name]) for placer in PLACERS.values()),
    _peer(MemoryTopo(), "Baechi's balanced memory in topological order (Jeon et al. 2020)"),
    _peer(MemoryEtf(), "Baechi's earliest task first within memory (Jeon et al. 2020)"),
    _peer(MemorySct(), "Baechi's small communication times within memory (Jeon et al. 2020)", "the extra levels"),
    _peer(GP_DFS, "graph partitioning, then depth first: REGAL's stand-in for XLA"),
    _peer(METIS_DFS, "the same with METIS", "the extra metis"),
    _peer(LocalSearch(), "REGAL's local search"),
    _peer(STRONG_LOCAL_SEARCH, "the same with the best settings found on synthetic graphs"),
    _peer(Annealing(), "simulated annealing of BRKGA's keys"),
    _peer(RandomSearch(), "random keys"),
    _peer(LayerWise(), "whole layers by hand, as learned placers are compared with (Mirhoseini et al. 2017)"),
    _placer(RandomPlacement(), "random placements of the groups that learned placers place"),
    _placer(EvolvedPlacement(), "REGAL's genetic algorithm over such placements alone (Paliwal et al. 2020)"),
    _placer(AnnealedPlacement(), "simulated annealing of such placements (Jia et al. 2019)"),
    _peer(CpSat(), "constraint programming over the whole problem, for small graphs", "the extra cp"),
    _peer(CP_SAT_COLD, "the same without a warm start", "the extra cp"),
    _peer(CpWindows(), "constraint programming over one window of the schedule after another", "the extra cp"),
    MethodEntry(
        method=Placer(),
        kind="guided",
        summary="the devices that a policy of one's own chooses (docs/lab/own-policies.md)",
        needs="a policy, by --policy",
        with_policy=lambda policy: Placer(policy=policy),
        needs_policy=True,
    ),
)
