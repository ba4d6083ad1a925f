"""Placewright's own methods: each with what it is, what it needs and how long it searches where nobody says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from placewright.learning.guided import Regal
from placewright.learning.learned_list.solver import LearnedList
from placewright.learning.placers.colocrl import COLOCRL_PAPER, ColocRl
from placewright.learning.placers.controls import (
    AnnealedPlacement,
    EvolvedPlacement,
    RandomPlacement,
    SharedNoisePlacement,
)
from placewright.learning.placers.gdp import GDP_PAPER, Gdp
from placewright.learning.placers.hdp import HDP_GRAPPLER, HDP_PAPER, Hdp
from placewright.learning.placers.layer_wise import LayerWise
from placewright.learning.placers.placer import LearnedPlacer
from placewright.learning.placers.placeto import PLACETO_PAPER, Placeto
from placewright.learning.placers.post import Post
from placewright.learning.placers.spotlight import Spotlight
from placewright.learning.regal.features import FEATURE_EVALUATIONS
from placewright.problem import Problem
from placewright.search import default_budget
from placewright.search.auto import Auto
from placewright.search.constructive.baselines import BASELINES
from placewright.search.constructive.graph_partition import GP_DFS, METIS_DFS
from placewright.search.constructive.m_etf import MemoryEtf
from placewright.search.constructive.m_sct import MemorySct
from placewright.search.constructive.m_topo import MemoryTopo
from placewright.search.exact.cp_sat import CP_SAT_COLD, CpSat, CpWindows
from placewright.search.metaheuristics.annealing import Annealing
from placewright.search.metaheuristics.brkga import BRKGA_BY_DECODER, Brkga
from placewright.search.metaheuristics.local_search import STRONG_LOCAL_SEARCH, LocalSearch
from placewright.search.metaheuristics.peak_search import PeakSearch
from placewright.search.metaheuristics.random_search import RandomSearch
from placewright.search.metaheuristics.schedule_annealing import ScheduleAnnealing
from placewright.search.metaheuristics.superstep_annealing import SuperstepAnnealing
from placewright.search.metaheuristics.tuned_brkga import BRKGA_BETAS, TUNED_BRKGA
from placewright.search.run.budget import key_search_evaluations
from placewright.search.run.method import Method

#: "baseline": `auto` runs it first. "search of auto": `auto` may run it then. "guided": by a policy. "peer": published
#: by others, to compare with. "learner": learns on the graph it is given. "own": registered from outside.
Kind = Literal["default", "baseline", "search of auto", "guided", "peer", "learner", "own"]


def paper_evaluations(problem: Problem) -> int:
    """The budget of the paper, less for large problems."""
    return key_search_evaluations(problem.core.num_keys)


def _placer_evaluations(problem: Problem) -> int:
    """As many placements as Post tries in all."""
    return Post().placements


def _guided_evaluations(problem: Problem) -> int:
    return max(paper_evaluations(problem), 2 * FEATURE_EVALUATIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodEntry:
    """What users are told of a method.

    summary: in one line, for the list that users choose from; docs/algorithms.md tells the rest. needs: beside
    placewright; "" for nothing. default_evaluations: the budget where none is given.
    """

    method: Method
    kind: Kind
    summary: str
    needs: str = ""
    default_evaluations: Callable[[Problem], int] = paper_evaluations


_BASELINES = {
    "input-order": "the captured order on one device",
    "single-device": "the best of the simple orders on the best single device",
    "dfs": "depth first on one device, as XLA orders ops",
    "bfs": "first in, first out on one device",
    "lpmf": "least peak memory first on one device, as PyTorch Inductor orders ops",
    "xla-list": "XLA's list scheduler for memory on one device",
    "reverse-greedy": "from the last op backwards, least memory first, on one device",
    "contiguous-split": "one run of ops per device, by memory, as in a pipeline",
    "list": "list scheduling by the longest way to the end, each op where it finishes first",
    "etf": "earliest task first (Hwang et al. 1989)",
    "segment-fill": "runs of ops that follow each other, dealt to the devices",
    "heft": "heterogeneous earliest finish time (Topcuoglu et al. 2002)",
    "cpop": "critical path on a processor (Topcuoglu et al. 2002)",
    "insertion": "HEFT whose tensors queue at the links, with and without a look ahead",
    "cluster-list": "list scheduling of clusters of ops",
    "cluster-partition": "graph partitioning of clusters of ops",
    "layers": "whole layers on devices, at all time steps; moves of layers and of parts of them",
}
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


def _entries() -> Iterator[MethodEntry]:
    """In the order in which they are listed."""
    yield MethodEntry(
        method=Auto(),
        kind="default",
        summary="every baseline, then the search that fits the problem; the best of all",
        default_evaluations=default_budget.default_evaluations,
    )
    for baseline in BASELINES:
        yield MethodEntry(method=baseline, kind="baseline", summary=_BASELINES[baseline.name])
    for search, summary in (
        (ScheduleAnnealing(), "annealing of a schedule by moves of single ops"),
        (SuperstepAnnealing(), "annealing for machines whose transfers are free and block"),
        (PeakSearch(), "search for the least peak memory, with a proof on small graphs"),
    ):
        yield MethodEntry(method=search, kind="search of auto", summary=summary)
    yield _peer(Brkga(), "REGAL's genetic algorithm over its paper's decoder")
    yield _peer(TUNED_BRKGA, "the same with settings tuned on synthetic graphs")
    yield _peer(BRKGA_BETAS, "the same with a Beta distribution for each part of the chromosome")
    for brkga in BRKGA_BY_DECODER:
        yield _peer(brkga, _DECODERS[brkga.name])
    for guided in GUIDED.values():
        yield MethodEntry(
            method=guided,
            kind="guided",
            summary=_GUIDED[guided.name],
            needs="a policy; one is shipped for two devices",
            default_evaluations=_guided_evaluations,
        )
    for placer in PLACERS.values():
        yield MethodEntry(
            method=placer,
            kind="peer" if isinstance(placer, SharedNoisePlacement) else "learner",
            summary=_PLACERS[placer.name],
            needs=_needs(placer),
            default_evaluations=_placer_evaluations,
        )
    yield MethodEntry(
        method=LearnedList(),
        kind="guided",
        summary="list scheduling of clusters of ops by a score that was learned",
    )
    yield _peer(MemoryTopo(), "Baechi's balanced memory in topological order (Jeon et al. 2020)")
    yield _peer(MemoryEtf(), "Baechi's earliest task first within memory (Jeon et al. 2020)")
    yield _peer(MemorySct(), "Baechi's small communication times within memory (Jeon et al. 2020)", "the extra levels")
    yield _peer(GP_DFS, "graph partitioning, then depth first: REGAL's stand-in for XLA")
    yield _peer(METIS_DFS, "the same with METIS", "the extra metis")
    yield _peer(LocalSearch(), "REGAL's local search")
    yield _peer(STRONG_LOCAL_SEARCH, "the same with the best settings found on synthetic graphs")
    yield _peer(Annealing(), "simulated annealing of BRKGA's keys")
    yield _peer(RandomSearch(), "random keys")
    yield _peer(LayerWise(), "whole layers by hand, as learned placers are compared with (Mirhoseini et al. 2017)")
    for control, summary in (
        (RandomPlacement(), "random placements of the groups that learned placers place"),
        (EvolvedPlacement(), "REGAL's genetic algorithm over such placements alone (Paliwal et al. 2020)"),
        (AnnealedPlacement(), "simulated annealing of such placements (Jia et al. 2019)"),
    ):
        yield MethodEntry(method=control, kind="peer", summary=summary, default_evaluations=_placer_evaluations)
    yield _peer(CpSat(), "constraint programming over the whole problem, for small graphs", "the extra cp")
    yield _peer(CP_SAT_COLD, "the same without a warm start", "the extra cp")
    yield _peer(CpWindows(), "constraint programming over one window of the schedule after another", "the extra cp")


def _needs(placer: LearnedPlacer) -> str:
    if isinstance(placer, Post):
        return ""
    return "the extra train" if isinstance(placer, Gdp) else "the extra torch"


def _peer(method: Method, summary: str, needs: str = "") -> MethodEntry:
    return MethodEntry(method=method, kind="peer", summary=summary, needs=needs)


#: By the name users give.
ENTRIES = {entry.method.name: entry for entry in _entries()}
