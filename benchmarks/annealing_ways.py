"""Ways to spend evaluations of schedule annealing: one search, the best of several, two plans in one, exact windows.

    python benchmarks/annealing_ways.py          all rows that OUT lacks, then the tables; an hour
    python benchmarks/annealing_ways.py --ways   the tables of the rows that there are
N evaluations are what about a second gives on four V100 over PCIe. "one", "two", "four" and "half": one search of N,
2 N, 4 N and N / 2. "spliced": two searches of N / 3, the best plan that is the one's up to some op and the other's from
there, and N / 3 from that; "again": N / 3 from the better of the two instead. "windows": "one", then CP-SAT on each
window of 16 ops (needs OR-tools). Columns: the best of so many, the mean over all choices of as many seeds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from itertools import combinations, permutations, product
from pathlib import Path
from statistics import fmean

import numpy as np

import placewright._core as _core
from placewright.importers.graph_set import read_graph_set
from placewright.machines import load_machine
from placewright.problem import Problem, make_problem
from placewright.search.metaheuristics.schedule_annealing import ScheduleAnnealing
from placewright.search.portfolio import run_baselines
from placewright.search.run.budget import Budget
from placewright.search.run.result import Result, Solution, fitness_in
from placewright.search.run.search_run import SearchRun

SET, OUT = Path(__file__).parent / "instances" / "real-networks.graphs.gz", Path("out") / "annealing-ways.jsonl"
MACHINES = ("4xv100-32g/pcie3", "2xv100-32g/pcie3", "4xv100-32g/nvlink")
N = {"inception_v3-inference": 3000, "nasnet_a_large-inference": 1500, "randwire_ws-inference": 1400}  # thousands
N |= {"lstm1-training": 150, "nasnet_a_mobile-training": 700, "amoebanet_d-training": 800, "gshard16-training": 500}
N |= {"densenet121-training": 800, "inception_v3-training": 800, "wavenet30-training": 2100, "bert_base-training": 1000}
#: Places at which plans are cut, moves that a simulation counts as; ops of a window, what CP-SAT may spend, seconds.
CUTS, MOVES, SIZE, EFFORT = 25, 100, 16, 0.5
Rows = dict[tuple[str, str, str, int], int]  # step times in ns by machine, graph, way and seed


class Case:
    """A network on a machine, N, and the plans that searches start from."""

    def __init__(self, problem: Problem, evaluations: int) -> None:
        self.problem, self.evaluations = problem, evaluations

    @cached_property
    def starts(self) -> list[Solution]:
        baselines = run_baselines(self.problem, SearchRun(Budget(evaluations=1)))
        return [found.solution for found in sorted(baselines, key=fitness_in(self.problem))[:4]]

    def anneal(self, seed: int, share: float = 1.0, start: Solution | None = None) -> Result:
        budget = Budget(evaluations=max(1, int(share * self.evaluations)))
        run = SearchRun(budget, seed=seed, initial_solutions=self.starts if start is None else [start])
        method = ScheduleAnnealing() if start is None else ScheduleAnnealing(ops_per_cluster=())
        return method.solve(self.problem, run)


def in_thirds(case: Case, seed: int, splices: bool = False) -> Result:
    ends = sorted((case.anneal(100 + 2 * seed + i, 1 / 3) for i in range(2)), key=fitness_in(case.problem))
    start = spliced(case.problem, *(end.solution for end in ends)) if splices else ends[0].solution
    share = 1 / 3 - splices * 4 * CUTS * MOVES / case.evaluations
    return min(ends[0], case.anneal(200 + seed, share, start), key=fitness_in(case.problem))


def spliced(problem: Problem, one: Solution, other: Solution) -> Solution:
    """The best that is one of them up to a cut and the other behind it. Devices have the names that agree most."""
    group, together = problem.groups[0], np.zeros((problem.core.num_devices, problem.core.num_devices))
    np.add.at(together, (other.device_of, one.device_of), problem.time_ns[problem.lowered.graph_op].mean(axis=1))
    names = max(permutations(range(len(together))), key=lambda to: sum(together[d, to[d]] for d in range(len(to))))
    renamed = Solution(device_of=np.array(names, np.int32)[other.device_of], order=other.order)
    made: list[tuple[tuple[int, int, int], int, Solution]] = []
    for first, last in ((one, renamed), (renamed, one)):
        ops, behind = (each.order[each.order[:, 1] < 0, 0] for each in (first, last))
        place, begins = np.argsort(ops), np.full(len(ops), len(ops))
        np.minimum.at(begins, group, place)  # where a group has its first op
        for cut in np.linspace(0.1 * len(ops), 0.9 * len(ops), CUTS).astype(int):
            device_of = np.where(begins[group] < cut, first.device_of, last.device_of)
            cut_ops = np.concatenate([ops[:cut], behind[place[behind] >= cut]])
            order, fitness, _ = _core.best_transfers(problem.core, device_of, cut_ops, 2)
            made.append((fitness, len(made), Solution(device_of=device_of, order=order)))
    return min(made)[2]


def windows(case: Case, seed: int) -> Result:
    """Each overlaps half of the one before."""
    from placewright.lab.peers.cp_sat import running, structure, timed, window

    lists = structure.structure_of(case.problem)
    best = timed.Timed(lists, case.anneal(seed).solution)
    for first in range(0, lists.num_ops - SIZE // 2, SIZE // 2):
        model = window.Window(best, first, min(SIZE, lists.num_ops - first))
        found = running.solve_window(model, effort=EFFORT, seconds=None, seed=seed).solution
        changed = best if found is None else timed.Timed(lists, found)
        if changed.step_time_ns <= best.step_time_ns and changed.bytes_over_limit == 0:
            best = changed
    return SearchRun().result(case.problem, "windows", best.solution)


#: What makes a plan from a case and a seed, and how many seeds.
WAYS: dict[str, tuple[Callable[[Case, int], Result], int]] = {"one": (Case.anneal, 6), "windows": (windows, 3)}
WAYS |= {"two": (partial(Case.anneal, share=2), 3), "four": (partial(Case.anneal, share=4), 3), "again": (in_thirds, 3)}
WAYS |= {"half": (partial(Case.anneal, share=0.5), 6), "spliced": (partial(in_thirds, splices=True), 3)}
#: Columns of the tables: of a way, the best of so many seeds.
COLUMNS = (("one", 2), ("two", 1), ("one", 4), ("four", 1), ("half", 2), ("spliced", 1), ("again", 1), ("windows", 1))


def gain(of: dict[str, dict[int, int]], way: str, count: int) -> list[float]:
    """The gain in percent of the mean of "one", for windows of what they began with; nothing where rows lack."""
    one = [ns for seed, ns in of["one"].items() if way != "windows" or seed in of[way]]
    best = [min(ns) for ns in combinations(of[way].values(), count)]
    return [100 * (1 - fmean(best) / fmean(one))] if best and one else []


def table(rows: Rows, machine: str) -> Iterator[str]:
    yield f"\n| {machine} | {' | '.join(f'{count} {way}' for way, count in COLUMNS)} |\n|---{'|---:' * len(COLUMNS)}|"
    lines: dict[str, list[list[float]]] = {}
    for graph in dict.fromkeys(key[1] for key in rows if key[0] == machine):
        of = {way: {key[3]: ns for key, ns in rows.items() if key[:3] == (machine, graph, way)} for way in WAYS}
        lines[graph] = [gain(of, way, count) for way, count in COLUMNS]
    lines["mean"] = [[each for cell in column for each in cell] for column in zip(*lines.values(), strict=True)]
    for name, cells in lines.items():
        yield f"| {name} | {' | '.join(f'{fmean(cell):.2f}' if cell else '' for cell in cells)} |"


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--set", type=Path, default=SET, help="of graphs")
    options.add_argument("--machines", nargs="+", default=MACHINES)
    options.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))
    options.add_argument("--evaluations", type=int, help="N, of all graphs of the set")
    options.add_argument("--out", type=Path, default=OUT, help="file of rows")
    return options


def main() -> None:
    options = parser().parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    rows: Rows = {tuple(key): ns for *key, ns in map(json.loads, options.out.open() if options.out.exists() else ())}
    for machine, graph in product(options.machines, read_graph_set(options.set) if options.ways else ()):
        case = Case(make_problem(graph, load_machine(machine)), options.evaluations or 1000 * N.get(graph.name, 0))
        for way in options.ways if case.evaluations else ():
            for seed in range(WAYS[way][1]):
                if (key := (machine, graph.name, way, seed)) not in rows:
                    rows[key] = WAYS[way][0](case, seed).metrics.step_time_ns
                    with options.out.open("a") as file:
                        file.write(f"{json.dumps([*key, rows[key]])}\n")
    print("\n".join(line for machine in dict.fromkeys(key[0] for key in rows) for line in table(rows, machine)))


if __name__ == "__main__":
    main()
