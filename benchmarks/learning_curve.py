"""What more networks to learn from are worth: trainings on 50, 150, 500 and 1,000 graphs, measured on unseen ones.

    python benchmarks/learning_curve.py OUT

The graphs are those of `library_networks.py`, of which no family is in two parts. For either objective a policy that
sees smoothed affinities learns from rewards (REINFORCE), imitates what searches find, or imitates the rule and then
learns from rewards, from the first of one shuffled list of training graphs, so that the larger set holds the smaller.
All trainings of one kind take as many steps. Trainings go to OUT/trainings, one core each, and the rows of the
policies, of the rule and of uniform BRKGA on the test graphs to OUT/rows. Killed, it goes on where it was.
OUT/curve.md, .svg and .png hold the gains over BRKGA and over the rule, graph by graph, of all trainings in OUT, those
of earlier commands too. Needs the extras `train` and `bench`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, cast

from placewright.importers.graph_set import SUFFIX, read_graph_set, write_graph_set
from placewright.lab.bench.figure_style import LINE_COLOURS, MARKERS, QUIET, as_files, headline, style
from placewright.lab.bench.result_set import read_result_sets
from placewright.lab.bench.statistics import Mean, clustered_mean
from placewright.lab.learning.regal.trainings import TRAININGS, RegalTraining
from placewright.lab.learning.rule.policy import found_rule
from placewright.lab.learning.trainer import BEST, train
from placewright.lab.processes import end_with_parent
from placewright.methods.policy_file import read_policy
from placewright.problem.objective import Objective
from placewright.support.files import make_folder, write_atomically

HERE = Path(__file__).parent
GRAPHS = HERE / "instances" / "libraries"
SIZES = (50, 150, 500, 1000)
OBJECTIVES: tuple[Objective, ...] = ("step-time", "peak-memory")
TITLE = "What more networks to learn from are worth"
MEASURED = "Measured is the policy of the best validation of each training."
NAMES = {"reinforce": "REINFORCE", "imitation": "imitation", "rule-reinforce": "the rule imitated, then REINFORCE"}
ALGORITHMS = tuple(NAMES)
#: Larger graphs are measured on, not learned from.
MAX_OPS = 2500
#: Of the list from which the sets to learn from are the first so many.
SHUFFLE_SEED = 0
SUITES = {"step-time": "libraries", "peak-memory": "libraries-peak-memory"}
CONFIGURATIONS = {"step-time": "runtime-zoo-affinity", "peak-memory": "peak-memory-zoo-affinity"}
RULES = {"step-time": "rule-runtime-libraries", "peak-memory": "rule-peak-memory-libraries"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One training."""

    objective: Objective
    algorithm: str
    size: int
    seed: int
    is_quick: bool = False

    @property
    def name(self) -> str:
        return f"{self.objective}-{self.algorithm}-{self.size}-seed-{self.seed}{'-quick' if self.is_quick else ''}"

    @property
    def training(self) -> RegalTraining:
        """Without noisy copies: networks are what there is to be more of."""
        training = replace(TRAININGS[CONFIGURATIONS[self.objective]], augmentations=0, max_ops=MAX_OPS)
        training = replace(training, validation_interval=100, validation_graphs=32)
        if self.algorithm == "imitation":
            training = replace(training, evaluations=2500, validation_interval=200)
        elif self.algorithm == "reinforce":
            training = replace(training, imitation_steps=0, steps=500, **_REWARDS)
        else:
            space = found_rule(RULES[self.objective]).configuration.action_space
            policy = replace(
                training.policy, placement_levels=space.placement_levels, scheduling_levels=space.scheduling_levels
            )
            training = replace(
                training, policy=policy, expert_rule=RULES[self.objective], imitation_steps=400, steps=700, **_REWARDS
            )
        return _quick(training) if self.is_quick else training


#: Of trainings on rewards; imitation has its own (learning/regal/trainings.py).
_REWARDS: dict[str, Any] = {
    "expert_rounds": 0,
    "batch": 4,
    "samples": 4,
    "evaluations": 1000,
    "learning_rate": 1e-3,
    "last_learning_rate": 0.0,
}


def _quick(training: RegalTraining) -> RegalTraining:
    """In two steps."""
    imitated = min(training.imitation_steps, 2 if training.steps == training.imitation_steps else 1)
    return replace(
        training,
        imitation_steps=imitated,
        expert_rounds=min(training.expert_rounds, 1),
        steps=2,
        batch=2,
        samples=2,
        evaluations=450,
        validation_evaluations=450,
        validation_graphs=1,
    )


@dataclass(frozen=True, kw_only=True)
class Gain:
    """Of the policies of one kind of training on the test graphs, their mean on each graph over the seeds, in percent.

    of_seeds: what each seed's gains over uniform BRKGA. of_rule: what the rule does.
    """

    objective: Objective
    algorithm: str
    size: int
    over_brkga: Mean
    of_seeds: tuple[float, ...]
    over_rule: Mean
    of_rule: Mean
    share_no_worse: float


def trained_in(out: Path) -> list[Case]:
    """All whose training is over, those of earlier commands too."""
    names = [path.parent.name for path in sorted((out / "trainings").glob("*/done"))]
    kind = re.compile(rf"({'|'.join(OBJECTIVES)})-({'|'.join(ALGORITHMS)})-(\d+)-seed-(\d+)(-quick)?")
    return [
        Case(
            objective=cast(Objective, each[1]),
            algorithm=each[2],
            size=int(each[3]),
            seed=int(each[4]),
            is_quick=each[5] is not None,
        )
        for each in map(kind.fullmatch, names)
        if each is not None
    ]


def train_all(cases: Sequence[Case], graphs: Path, out: Path) -> None:
    trained = {case.name for case in trained_in(out)}
    missing = [case for case in cases if case.name not in trained]
    write_data(graphs, out / "data", sorted({case.size for case in missing}))
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), spawn, initializer=end_with_parent, max_tasks_per_child=1) as pool:
        for case, best in zip(missing, pool.map(_trained, missing, [out] * len(missing)), strict=True):
            print(f"{case.name}: {best:+.2f}% over BRKGA at the best validation", flush=True)


def write_data(graphs: Path, folder: Path, sizes: Sequence[int]) -> None:
    """For each size a folder of the graphs to learn from and those to validate on."""
    sizes = [size for size in sizes if not (folder / f"{size}" / f"valid{SUFFIX}").exists()]  # the last to be written
    train_set = read_graph_set(graphs / f"train{SUFFIX}")
    all_graphs = (train_set[index] for index in range(len(train_set) if sizes else 0))
    small = sorted((graph for graph in all_graphs if len(graph.ops) <= MAX_OPS), key=lambda graph: graph.name)
    random.Random(SHUFFLE_SEED).shuffle(small)
    if sizes and sizes[-1] > len(small):
        raise SystemExit(f"'{graphs}' has {len(small):,} graphs of at most {MAX_OPS:,} ops to learn from")
    for size in sizes:
        make_folder(folder / f"{size}")
        metadata = {"set": "libraries", "part": "train", "size": size}
        write_graph_set(folder / f"{size}" / f"train{SUFFIX}", small[:size], metadata)
        write_atomically(folder / f"{size}" / f"valid{SUFFIX}", (graphs / f"valid{SUFFIX}").read_bytes())


def _trained(case: Case, out: Path) -> float:
    """In a process of its own. Percent over uniform BRKGA at its best validation."""
    folder = out / "trainings" / case.name
    best = train(out / "data" / f"{case.size}", case.training, folder, name=case.name, seed=case.seed)
    improvement = float(read_policy(best).record["improvement_percent"])
    write_atomically(folder / "done", b"")
    return improvement


def measure_all(cases: Sequence[Case], out: Path, options: Sequence[str]) -> None:
    for objective in {case.objective: None for case in cases}:
        policies = [f"regal:{policy_of(case, out)}" for case in cases if case.objective == objective]
        solvers = ",".join(["brkga", f"rule:{RULES[objective]}", *policies])
        suite = HERE / "suites" / f"{SUITES[objective]}.toml"
        command = [sys.executable, "-m", "placewright", "bench", "run", str(suite), "--solvers", solvers]
        subprocess.run([*command, "--out", str(out / "rows" / objective), *options], check=True)


def policy_of(case: Case, out: Path) -> Path:
    return out / "trainings" / case.name / BEST


def gains(cases: Sequence[Case], out: Path, families: Mapping[str, str]) -> list[Gain]:
    """Of each kind of training. Intervals count the graphs of one family as one. families: of the graphs, by name."""
    kinds = sorted({(case.objective, case.algorithm, case.size) for case in cases}, key=_place)
    return [gain_of([case for case in cases if (case.objective, case.algorithm, case.size) == kind], out, families)
            for kind in kinds]  # fmt: skip


def _place(kind: tuple[Objective, str, int]) -> tuple[int, int, int]:
    objective, algorithm, size = kind
    return OBJECTIVES.index(objective), ALGORITHMS.index(algorithm), size


def gain_of(seeds: Sequence[Case], out: Path, families: Mapping[str, str]) -> Gain:
    objective = seeds[0].objective
    (results,), complaints = read_result_sets([out / "rows" / objective])
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for row in results.rows:
        found[row.solver][row.graph] = row.objective
    brkga, rule = found["brkga"], found[f"rule:{RULES[objective]}"]
    policies = [found[f"regal:{policy_of(case, out)}"] for case in seeds]

    def mean(values: Mapping[str, float]) -> Mean:
        found = clustered_mean(values, families.__getitem__)
        assert found is not None
        return found

    over_brkga = [saved(policy, brkga) for policy in policies]
    return Gain(
        objective=objective,
        algorithm=seeds[0].algorithm,
        size=seeds[0].size,
        over_brkga=mean(by_graph(over_brkga)),
        of_seeds=tuple(fmean(gains.values()) for gains in over_brkga),
        over_rule=mean(by_graph([saved(policy, rule) for policy in policies])),
        of_rule=mean(saved(rule, brkga)),
        share_no_worse=fmean(gain >= 0 for gains in over_brkga for gain in gains.values()),
    )


def saved(own: Mapping[str, int], other: Mapping[str, int]) -> dict[str, float]:
    """Percent by which a method's objectives are less than another's, by graph."""
    return {graph: 100 * (1 - own[graph] / other[graph]) for graph in other}


def by_graph(of_seeds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {graph: fmean(gains[graph] for gains in of_seeds) for graph in of_seeds[0]}


def table(found: Sequence[Gain]) -> str:
    columns = ("objective", "algorithm", "graphs", "% over BRKGA", "each seed", "no worse", "% over the rule", "rule")
    lines = [f"| {' | '.join(columns)} |", "|---|---|---:|---:|---|---:|---:|---:|"]
    for gain in found:
        cells = [gain.objective, NAMES[gain.algorithm], f"{gain.size:,}", told(gain.over_brkga)]
        cells += [", ".join(f"{each:+.2f}" for each in gain.of_seeds), f"{gain.share_no_worse:.1%}"]
        lines.append(f"| {' | '.join([*cells, told(gain.over_rule), told(gain.of_rule)])} |")
    return "\n".join(lines) + "\n"


def told(mean: Mean) -> str:
    return f"{mean.value:+.2f}" + ("" if mean.half_width is None else f" ± {mean.half_width:.2f}")


def drawn(found: Sequence[Gain]) -> Any:
    """A panel for each objective: gain over BRKGA by graphs learned from, and the rule's as a line."""
    from matplotlib.figure import Figure

    objectives = list({gain.objective: None for gain in found})
    figure: Any = Figure(figsize=(4.1 * len(objectives) + 0.6, 4), layout="constrained")
    figure.get_layout_engine().set(rect=(0, 0, 0.985, 1 - 0.66 / 4), wspace=0.06)
    headline(
        figure,
        TITLE,
        f"unseen families, {found[0].over_brkga.num_graphs} graphs, 95% intervals by family; "
        "the best validation of each training",
    )
    for axis, objective in zip(figure.subplots(1, len(objectives), squeeze=False).flat, objectives, strict=True):
        own = [gain for gain in found if gain.objective == objective]
        for (algorithm, name), colour, marker in zip(NAMES.items(), LINE_COLOURS, MARKERS, strict=False):
            points = sorted((gain for gain in own if gain.algorithm == algorithm), key=lambda gain: gain.size)
            if points:
                shift = 1.06 ** (ALGORITHMS.index(algorithm) - 1)  # so that intervals do not cover each other
                axis.errorbar(
                    [gain.size * shift for gain in points],
                    [gain.over_brkga.value for gain in points],
                    yerr=[gain.over_brkga.half_width or 0 for gain in points],
                    color=colour, marker=marker, markersize=5, linewidth=1.5, elinewidth=1, capsize=2, label=name,
                )  # fmt: skip
        axis.axhline(0, color=QUIET, linewidth=0.8)
        axis.axhline(own[0].of_rule.value, color=QUIET, linewidth=1.3, linestyle=(0, (4, 2)), label="the rule")
        axis.set_xscale("log")
        sizes = sorted({gain.size for gain in found})
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axis.minorticks_off()
        axis.set(title=objective.replace("-", " "), xlabel="graphs to learn from")
    handles = {
        label: handle for axis in figure.axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=4, frameon=False)
    figure.axes[0].set_ylabel("% over BRKGA, both at 5,000 evaluations")
    return figure


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("--graphs", type=Path, default=GRAPHS, help="folder of train, valid and test")
    options.add_argument("--objectives", nargs="+", choices=OBJECTIVES, default=OBJECTIVES)
    options.add_argument("--algorithms", nargs="+", choices=ALGORITHMS, default=ALGORITHMS)
    options.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    options.add_argument("--seeds", type=int, default=1, help="trainings of each kind")
    options.add_argument("--quick", action="store_true", help="two steps of each training, to try the script")
    return options


def main() -> None:
    arguments = parser().parse_args()
    cases = [
        Case(objective=objective, algorithm=algorithm, size=size, seed=seed, is_quick=arguments.quick)
        for seed in range(arguments.seeds)
        for size in arguments.sizes
        for objective in arguments.objectives
        for algorithm in arguments.algorithms
    ]
    train_all(cases, arguments.graphs, arguments.out)
    cases = trained_in(arguments.out)
    measure_all(cases, arguments.out, ["--take", "2", "--evaluations", "450"] if arguments.quick else [])
    test = read_graph_set(arguments.graphs / f"test{SUFFIX}")
    families = {graph.name: graph.metadata["family"] for graph in (test[index] for index in range(len(test)))}
    found = gains(cases, arguments.out, families)
    write_atomically(arguments.out / "curve.md", f"# {TITLE}\n\n{MEASURED}\n\n{table(found)}".encode())
    print(table(found), end="")
    with style():
        for suffix, data in as_files(drawn(found)).items():
            write_atomically(arguments.out / f"curve.{suffix}", data)


if __name__ == "__main__":
    main()
