"""Each method in one line, for the list that users choose from; docs/algorithms.md tells the rest."""

from __future__ import annotations

from dataclasses import dataclass

from placewright.methods.table import BUILT_IN, METHODS, load_entry_points
from placewright.search.baselines import BASELINES

#: By name what a method does; in the order in which they are listed.
SUMMARIES: dict[str, str] = {
    "auto": "every baseline, then the search that fits the problem; the best of all",
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
    "schedule-annealing": "annealing of a schedule by moves of single ops",
    "superstep-annealing": "annealing for machines whose transfers are free and block",
    "peak-search": "search for the least peak memory, with a proof on small graphs",
    "brkga": "REGAL's genetic algorithm over its paper's decoder",
    "tuned-brkga": "the same with settings tuned on synthetic graphs",
    "brkga-lazy": "the same with transfers right before use",
    "brkga-early-free": "the same with what frees memory first",
    "brkga-evict": "the same with copies evicted and sent again",
    "brkga-segment-fill": "the same over the decoder of segment-fill",
    "brkga-earliest-finish": "the same with each op where it finishes first",
    "regal": "BRKGA guided by a policy that was trained beforehand (Paliwal et al. 2020)",
    "idrs": "random search guided by a policy",
    "gas": "BRKGA guided by a policy that reads the ops in order",
    "m-topo": "Baechi's balanced memory in topological order (Jeon et al. 2020)",
    "m-etf": "Baechi's earliest task first within memory (Jeon et al. 2020)",
    "gp-dfs": "graph partitioning, then depth first: REGAL's stand-in for XLA",
    "metis-dfs": "the same with METIS",
    "local-search": "REGAL's local search",
    "annealing": "simulated annealing of BRKGA's keys",
    "random-search": "random keys",
    "cp-sat": "constraint programming over the whole problem, for small graphs",
    "cp-windows": "constraint programming over one window of the schedule after another",
}
_NEEDS = {
    **dict.fromkeys(("cp-sat", "cp-windows"), "the extra cp"),
    "metis-dfs": "the extra metis",
    **dict.fromkeys(("regal", "idrs", "gas"), "a policy; one is shipped for two devices"),
}
_SEARCHES_OF_AUTO = ("schedule-annealing", "superstep-annealing", "peak-search")


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodSummary:
    """One method of the list.

    Attributes
    ----------
    name
        What `--solver` takes.
    kind
        "default", "baseline" (auto runs it first), "search of auto", "guided", "peer" (to compare with) or "own"
        (registered from outside).
    summary
        What it does.
    needs
        What it needs beside placewright; "" for nothing.
    """

    name: str
    kind: str
    summary: str
    needs: str


def method_summaries() -> tuple[list[MethodSummary], list[str]]:
    """All methods, those of installed packages too, and a sentence for each of these that cannot be loaded."""
    complaints = load_entry_points()
    own = {name: _first_line(method) for name, method in METHODS.items() if name not in BUILT_IN}
    listed = {**SUMMARIES, **own}
    found = [
        MethodSummary(name=name, kind=_kind(name), summary=text, needs=_NEEDS.get(name, ""))
        for name, text in listed.items()
    ]
    return found, complaints


def _kind(name: str) -> str:
    if name == "auto":
        return "default"
    if name not in BUILT_IN:
        return "own"
    if name in {baseline.name for baseline in BASELINES}:
        return "baseline"
    if name in _SEARCHES_OF_AUTO:
        return "search of auto"
    return "guided" if name in ("regal", "idrs", "gas") else "peer"


def _first_line(method: object) -> str:
    text = (type(method).__doc__ or "").strip()
    return text.splitlines()[0] if text else ""
