"""EGRL's comparison (Khadka et al. 2021): methods at equal numbers of evaluations, and figures 3, 4 and 6.

    python benchmarks/egrl.py OUT [--networks NAME ...] [--methods NAME ...] [--seeds 5] [--evaluations 4000]

Prints the speed-ups over the compiler's map, mean and standard deviation over the seeds, then what trained policies
make of the other networks. OUT holds rows.jsonl, a row as soon as its run ends; the checkpoints of runs that have not
ended; each learner's policy at five stages; and the figures. Killed and started again it goes on from there, and with
more networks, methods or seeds it makes the rows that are missing. A run takes one core: start it once per core, with
other --networks and another OUT, and put the rows together. Needs the extras `train` and `bench`.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from placewright.datasets.fused.networks import FUSED, fused_network
from placewright.learning.egrl.policy import MapPolicy, MapPolicyConfiguration
from placewright.learning.egrl.settings import GradientSettings, Mode
from placewright.learning.egrl.solvers import MapLearner, policy_of
from placewright.learning.environments.memory_map import MemoryMapEnvironment
from placewright.learning.policy_file import read_policy, write_policy
from placewright.memory_levels.chips import load_chip
from placewright.memory_levels.compilers import BASELINE, COMPILERS
from placewright.memory_levels.lowering import make_memory_problem
from placewright.memory_levels.problem import MemoryProblem
from placewright.memory_levels.run import MapSolver
from placewright.memory_levels.solvers.table import MAP_SOLVERS, make_map_solver
from placewright.search.run.budget import Budget
from placewright.search.run.search_run import SearchRun
from placewright.support.files import locked_folder, make_folder

PAPER_NETWORKS = ("resnet50-int8", "resnet101-int8", "bert-base-384-int8")
LEARNERS = ("egrl", "ea", "pg")
METHODS = (*LEARNERS, "greedy-dp", "local-search", "random")
STAGES = 5
Row = dict[str, Any]


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("--networks", nargs="+", choices=list(FUSED), default=PAPER_NETWORKS)
    options.add_argument("--methods", nargs="+", choices=list(MAP_SOLVERS), default=METHODS)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--evaluations", type=int, default=4000)
    options.add_argument("--mode", choices=["paper", "fixed"], default="fixed")
    options.add_argument("--gradient-steps", type=float, default=1.0, help="of the learners, per evaluation")
    options.add_argument("--chip", default="nnpi")
    return options


def main() -> None:
    arguments = parser().parse_args()
    problems = {
        name: make_memory_problem(fused_network(name), load_chip(arguments.chip)) for name in arguments.networks
    }
    with locked_folder(arguments.out, "another comparison writes to"):
        rows = missing_rows_made(arguments, problems)
        print_table(rows, arguments.methods, problems)
        figure_3(rows, arguments.out)
        figure_4(transfers(rows, problems, arguments.out), arguments.out)
        figure_6(rows, problems, arguments.out)


def missing_rows_made(arguments: argparse.Namespace, problems: dict[str, MemoryProblem]) -> list[Row]:
    """The rows that were asked for, those on disk among them."""
    path = arguments.out / "rows.jsonl"
    known = {row["run"]: row for row in whole_rows(path)}
    rows = []
    for seed in range(arguments.seeds):
        for network in problems:
            for method in arguments.methods:
                run = run_name(arguments, network, method, seed)
                if run not in known:
                    known[run] = row_of(arguments, problems[network], network, method, seed)
                    with path.open("a") as file:
                        file.write(json.dumps(known[run]) + "\n")
                rows.append(known[run])
    return rows


def whole_rows(path: Path) -> list[Row]:
    """A kill may have cut the last, which is then removed."""
    if not path.exists():
        return []
    lines = path.read_text().split("\n")
    path.write_text("".join(line + "\n" for line in lines[:-1]))
    return [json.loads(line) for line in lines[:-1]]


def run_name(arguments: argparse.Namespace, network: str, method: str, seed: int) -> str:
    """All that decides a row."""
    name = f"{arguments.chip.replace('/', '-')}-{network}-{method}-{arguments.evaluations}-seed{seed}"
    return f"{name}-{arguments.mode}-{arguments.gradient_steps:g}" if method in LEARNERS else name


def row_of(arguments: argparse.Namespace, problem: MemoryProblem, network: str, method: str, seed: int) -> Row:
    name = run_name(arguments, network, method, seed)
    solver: MapSolver = make_map_solver(method)
    checkpoint = arguments.out / "checkpoints" / f"{name}.pt"
    if method in LEARNERS:
        make_folder(checkpoint.parent)
        solver = learner(method, arguments, checkpoint, arguments.out / "policies" / name, network)
    before = problem.evaluate_one(COMPILERS[BASELINE](problem))[0]
    run = SearchRun(Budget(evaluations=arguments.evaluations), seed=seed)
    found = solver.solve(problem, run)
    checkpoint.unlink(missing_ok=True)
    row = {
        "run": name,
        "network": network,
        "method": method,
        "seed": seed,
        "mode": arguments.mode,
        "compiler_ps": before,
        "latency_ps": found.latency_ps,
        "evaluations": found.evaluations,
        "seconds_since_start": round(found.seconds, 1),
        "found_by": found.found_by,
        "trace": [[point.evaluations, point.best] for point in found.trace],
        "levels": found.levels.tolist(),
    }
    print(f"{name}: {before / found.latency_ps:.3f} in {found.seconds:.0f} s", flush=True)
    return row


def learner(method: Any, arguments: argparse.Namespace, checkpoint: Path, policies: Path, network: str) -> MapLearner:
    """Whose policy is written at each stage of its training."""
    mode: Mode = arguments.mode

    def keep(of: object, environment: MemoryMapEnvironment) -> None:
        stage = environment.run.evaluations * STAGES // arguments.evaluations
        path = policies / f"{stage}.safetensors"
        if stage >= 1 and not path.exists():
            make_folder(policies)
            record = {"network": network, "method": method, "mode": mode, "evaluations": environment.run.evaluations}
            write_policy(policy_of(of, f"{method}-{network}", record), path)

    return MapLearner(
        name=method,
        mode=mode,
        gradient=GradientSettings(gradient_steps=arguments.gradient_steps, mode=mode),
        checkpoint=checkpoint,
        on_generation=None if method == "ea" else keep,
    )


def print_table(rows: list[Row], methods: list[str], problems: dict[str, MemoryProblem]) -> None:
    print(f"\n| network | {' | '.join(methods)} |")
    print("|---|" + "---:|" * len(methods))
    for network in problems:
        cells = []
        for method in methods:
            gains = [speedup(row) for row in rows if (row["network"], row["method"]) == (network, method)]
            cells.append(f"{statistics.mean(gains):.3f} ± {statistics.pstdev(gains):.3f}")
        print(f"| {network} | {' | '.join(cells)} |")


def speedup(row: Row, latency_ps: int | None = None) -> float:
    return float(row["compiler_ps"] / (latency_ps or row["latency_ps"]))


def figure_3(rows: list[Row], out: Path) -> None:
    """Speed-up by evaluations, mean and standard deviation over the seeds."""
    networks = list(dict.fromkeys(row["network"] for row in rows))
    plot, axes = axes_for(len(networks))
    for axis, network in zip(axes, networks, strict=True):
        of_network = [row for row in rows if row["network"] == network]
        steps = np.linspace(1, max(row["evaluations"] for row in of_network), 200)
        for method in dict.fromkeys(row["method"] for row in of_network):
            curves = np.array([curve(row, steps) for row in of_network if row["method"] == method])
            mean, spread = curves.mean(axis=0), curves.std(axis=0)
            line = axis.plot(steps, mean, label=method)[0]
            axis.fill_between(steps, mean - spread, mean + spread, color=line.get_color(), alpha=0.2)
        axis.axhline(1, color="grey", linewidth=0.8)
        axis.set(title=network, xlabel="evaluations", ylabel="speed-up over the compiler")
    axes[0].legend()
    plot.savefig(out / "figure-3.svg")


def curve(row: Row, steps: Any) -> Any:
    """The best speed-up after so many evaluations; 0 before a map that fits."""
    after = np.array([point[0] for point in row["trace"]])
    values = np.array([0.0, *(speedup(row, point[1]) for point in row["trace"])])
    return values[np.searchsorted(after, steps, side="right")]


def transfers(rows: list[Row], problems: dict[str, MemoryProblem], out: Path) -> dict[tuple[str, str, str, int], Any]:
    """Speed-ups of rectified maps of policies, by method, network it learned on, another, and stage."""
    found: defaultdict[tuple[str, str, str, int], list[float]] = defaultdict(list)
    for row in rows:
        for stage in range(1, STAGES + 1):
            path = out / "policies" / row["run"] / f"{stage}.safetensors"
            policy = read_policy(path) if path.exists() else None
            if not isinstance(policy, MapPolicy):
                continue
            for network, problem in problems.items():
                if network != row["network"]:
                    found[row["method"], row["network"], network, stage].append(zero_shot(policy, problem))
    for network, problem in problems.items():
        gains = [zero_shot(untrained(problem.num_levels, seed), problem) for seed in range(STAGES)]
        print(f"untrained policies, which the rectifier helps as well, {network}: {statistics.mean(gains):.3f}")
    for (method, source, target, stage), gains in found.items():
        if stage == STAGES:
            print(f"zero-shot, {method}, {source} -> {target}: {statistics.mean(gains):.3f} of {len(gains)} policies")
    return found


def untrained(levels: int, seed: int) -> MapPolicy:
    """What every trained policy must be better than: the rectifier makes something of any map."""
    from placewright.learning.egrl.network import PolicyNetwork, torch_seed, weights_of

    configuration = MapPolicyConfiguration(num_levels=levels)
    with torch_seed(seed):
        network = PolicyNetwork(configuration.num_features, levels, configuration.network)
    return MapPolicy(name="untrained", configuration=configuration, weights=weights_of(network))


def zero_shot(policy: MapPolicy, problem: MemoryProblem) -> float:
    before = problem.evaluate_one(COMPILERS[BASELINE](problem))[0]
    return before / problem.evaluate_one(problem.from_nodes(policy.node_levels(problem)))[0]


def figure_4(found: dict[tuple[str, str, str, int], Any], out: Path) -> None:
    """Speed-up on networks that the policy has not seen, by stage of its training, of EGRL's policies."""
    pairs = sorted({key[1:3] for key in found if key[0] == "egrl"})
    if not pairs:
        return
    plot, (axis,) = axes_for(1)
    for source, target in pairs:
        stages = [stage for stage in range(1, STAGES + 1) if ("egrl", source, target, stage) in found]
        gains = [found["egrl", source, target, stage] for stage in stages]
        axis.errorbar(
            [100 * stage / STAGES for stage in stages],
            [np.mean(each) for each in gains],
            [np.std(each) for each in gains],
            label=f"{source} to {target}",
        )
    axis.axhline(1, color="grey", linewidth=0.8)
    axis.set(xlabel="% of the training", ylabel="speed-up over the compiler")
    axis.legend(fontsize="small")
    plot.savefig(out / "figure-4.svg")


def figure_6(rows: list[Row], problems: dict[str, MemoryProblem], out: Path) -> None:
    """From which level of the compiler's map to which of EGRL's fastest map bytes go, of weights and of activations."""
    best: dict[str, Row] = {}
    for row in rows:
        if row["method"] == "egrl" and row["latency_ps"] <= best.get(row["network"], row)["latency_ps"]:
            best[row["network"]] = row
    if not best:
        return
    plot, axes = axes_for(2 * len(best))
    panels = [(network, role) for network in best for role in (1, 0)]
    for axis, (network, role) in zip(axes, panels, strict=True):
        problem = problems[network]
        shares = transitions(problem, np.array(best[network]["levels"], np.uint8), role)
        axis.imshow(shares, vmin=0, vmax=1, cmap="Blues")
        for (row_, column), share in np.ndenumerate(shares):
            axis.text(column, row_, f"{share:.0%}", ha="center", va="center")
        names = problem.chip.level_names
        axis.set_xticks(range(len(names)), names)
        axis.set_yticks(range(len(names)), names)
        axis.set(title=f"{network}, {'weights' if role else 'activations'}", xlabel="EGRL", ylabel="compiler")
    plot.savefig(out / "figure-6.svg")


def transitions(problem: MemoryProblem, levels: Any, role: int) -> Any:
    """Of the bytes in each level of the compiler's map the shares in each level of the other, [levels, levels]."""
    chosen = problem.is_weight == role
    moved = np.zeros((problem.num_levels, problem.num_levels))
    np.add.at(moved, (COMPILERS[BASELINE](problem)[chosen], levels[chosen]), problem.size_bytes[chosen])
    return moved / np.maximum(1, moved.sum(axis=1, keepdims=True))


def axes_for(count: int) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    plot, axes = pyplot.subplots(1, count, figsize=(5 * count, 4), layout="constrained", squeeze=False)
    return plot, axes[0]


if __name__ == "__main__":
    main()
