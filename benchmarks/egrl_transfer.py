"""What EGRL's graph policies make of networks that they did not learn on (Khadka et al. 2021, figure 4).

    python benchmarks/egrl_transfer.py OUT FOLDER [FOLDER ...] [--seeds 5]

FOLDER is the OUT of `egrl.py`. Each of its policies maps every other network of the folders as it is ("zero-shot") at
each stage of its training; then the last stage goes on learning there for a tenth of the evaluations ("fine-tuned"),
beside which stands what a run from the beginning had found by then ("from scratch"). OUT/transfers.jsonl holds a row of
each, written as soon as it is made; started again, the script makes those that are missing. Needs the extra `train`.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from egrl import STAGES, cut_row_removed, whole_rows

from placewright.lab.datasets.fused.networks import fused_network
from placewright.lab.learning.egrl.network import PolicyNetwork, torch_seed, weights_of
from placewright.lab.learning.egrl.policy import MapPolicy, MapPolicyConfiguration
from placewright.lab.learning.egrl.solvers import MapLearner
from placewright.lab.memory_levels.chips import load_chip
from placewright.lab.memory_levels.compilers import BASELINE, COMPILERS
from placewright.lab.memory_levels.lowering import make_memory_problem
from placewright.lab.memory_levels.problem import MemoryProblem
from placewright.methods.policy_file import read_policy
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun
from placewright.support.files import locked_folder

#: Fine-tuning has this part of the evaluations.
PART = 10
Row = dict[str, Any]


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("folders", type=Path, nargs="+")
    options.add_argument("--seeds", type=int, default=5, help="at most so many policies of each network")
    options.add_argument("--chip", default="nnpi")
    return options


def main() -> None:
    arguments = parser().parse_args()
    learned = [
        (folder, row)
        for folder in arguments.folders
        for row in whole_rows(folder / "rows.jsonl")
        if row["method"] == "egrl" and row["seed"] < arguments.seeds
    ]
    names = dict.fromkeys(row["network"] for _, row in learned)
    problems = {name: make_memory_problem(fused_network(name), load_chip(arguments.chip)) for name in names}
    with locked_folder(arguments.out, "another comparison writes to"):
        path = arguments.out / "transfers.jsonl"
        cut_row_removed(path)
        known = {key_of(row): row for row in whole_rows(path)}
        for row in missing(known, learned, problems):
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
            known[key_of(row)] = row
    print_table(list(known.values()))


def key_of(row: Row) -> tuple[Any, ...]:
    return row["kind"], row["source"], row["target"], row["seed"], row["stage"]


def missing(
    known: dict[tuple[Any, ...], Row], learned: list[tuple[Path, Row]], problems: dict[str, MemoryProblem]
) -> Iterator[Row]:
    for target, problem in problems.items():
        for seed in range(STAGES):
            key = {"kind": "untrained", "source": "", "target": target, "seed": seed, "stage": 0}
            if key_of(key) not in known:
                yield {**key, "speedup": zero_shot(untrained(problem.num_levels, seed), problem)}
    for folder, row in learned:
        for target, problem in problems.items():
            if target != row["network"]:
                yield from transfers_of(known, folder, row, target, problem)


def transfers_of(
    known: dict[tuple[Any, ...], Row], folder: Path, row: Row, target: str, problem: MemoryProblem
) -> Iterator[Row]:
    for stage in range(1, STAGES + 1):
        path = folder / "policies" / row["run"] / f"{stage}.safetensors"
        if not path.exists():  # fewer generations than stages
            continue
        key = {"source": row["network"], "target": target, "seed": row["seed"], "stage": stage}
        policy = read_policy(path)
        assert isinstance(policy, MapPolicy)
        if key_of({"kind": "zero-shot", **key}) not in known:
            yield {"kind": "zero-shot", **key, "speedup": zero_shot(policy, problem)}
        if stage == STAGES and key_of({"kind": "fine-tuned", **key}) not in known:
            evaluations = max(20, row["evaluations"] // PART)
            yield {"kind": "fine-tuned", **key, **fine_tuned(policy, problem, evaluations, row["seed"])}


def fine_tuned(policy: MapPolicy, problem: MemoryProblem, evaluations: int, seed: int) -> Row:
    run = SearchRun(Budget(evaluations=evaluations), seed=seed)
    found = MapLearner(name="egrl", policy=policy).solve(problem, run)
    trace = [[point.evaluations, point.best] for point in found.trace]
    return {"speedup": compiler_ps(problem) / found.latency_ps, "evaluations": found.evaluations, "trace": trace}


def untrained(levels: int, seed: int) -> MapPolicy:
    """What every trained policy must be better than: the rectifier makes something of any map."""
    configuration = MapPolicyConfiguration(num_levels=levels)
    with torch_seed(seed):
        network = PolicyNetwork(configuration.num_features, levels, configuration.network)
    return MapPolicy(name="untrained", configuration=configuration, weights=weights_of(network))


def zero_shot(policy: MapPolicy, problem: MemoryProblem) -> float:
    """Speed-up of the rectified map."""
    levels = problem.from_nodes(policy.node_levels(problem))
    return compiler_ps(problem) / problem.evaluate_one(levels)[0]


def compiler_ps(problem: MemoryProblem) -> int:
    return problem.evaluate_one(COMPILERS[BASELINE](problem))[0]


def print_table(rows: list[Row]) -> None:
    """Speed-up over the compiler's map, mean and standard deviation over the policies."""
    print("| from | to | untrained | zero-shot | best stage | fine-tuned |")
    print("|---|---|" + "---:|" * 4)
    pairs = dict.fromkeys((row["source"], row["target"]) for row in rows if row["source"])
    for source, target in pairs:
        of_pair = [row for row in rows if (row["source"], row["target"]) == (source, target)]
        stages = [values(of_pair, "zero-shot", stage) for stage in range(1, STAGES + 1)]
        best = max((gains for gains in stages if gains), key=statistics.mean, default=[])
        before = [row["speedup"] for row in rows if row["kind"] == "untrained" and row["target"] == target]
        cells = [shown(gains) for gains in (before, stages[-1], best, values(of_pair, "fine-tuned", STAGES))]
        print(f"| {source} | {target} | {' | '.join(cells)} |")


def values(rows: list[Row], kind: str, stage: int) -> list[float]:
    return [row["speedup"] for row in rows if row["kind"] == kind and row["stage"] == stage]


def shown(gains: list[float]) -> str:
    return f"{statistics.mean(gains):.3f} ± {statistics.pstdev(gains):.3f}" if gains else "-"


if __name__ == "__main__":
    main()
