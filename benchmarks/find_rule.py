"""The best rule for a policy's place, found on training graphs: `python benchmarks/find_rule.py NAME --task TASK`.

A rule makes priorities and affinities straight from the features that a policy sees (learning/rule/rule.py), and a
learned policy that is no better than the best of them has learned nothing more. Gains are percent over uniform BRKGA
with as many evaluations, on --take of the training graphs. The --candidates rules, random ones and some found by hand,
are tried on few graphs, one in four of them on four times as many, until all graphs are used (halving.py). The best is
written to --out as NAME.toml, which `rule` uses under that name.

    python benchmarks/find_rule.py rule-runtime-synthetic --task synthetic
    python benchmarks/find_rule.py rule-runtime-synthetic-signal --task synthetic --control signal
    python benchmarks/find_rule.py rule-runtime-synthetic-transfer --task synthetic --control transfer
    python benchmarks/find_rule.py rule-runtime-zoo --task zoo
    python benchmarks/find_rule.py rule-runtime-zoo-lazy --task zoo --decoder lazy
    python benchmarks/find_rule.py rule-peak-memory-zoo --task zoo --objective peak-memory
    python benchmarks/find_rule.py rule-peak-memory-zoo-evict --task zoo --objective peak-memory --decoder evict
    python benchmarks/find_rule.py rule-peak-memory-zoo-scheduling --task zoo --objective peak-memory --part scheduling
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields, replace
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, get_args

from halving import Scored, halved

from placewright.decoder import WITH_AFFINITIES
from placewright.graph import Graph
from placewright.importers.graph_set import read_graph_set
from placewright.lab.datasets.problem_set import PAPER_MACHINE, spread
from placewright.lab.datasets.synthetic import interesting_graphs
from placewright.lab.learning.regal.features import FEATURE_EVALUATIONS, Context, context_of, guided_search
from placewright.lab.learning.rule.rule import (
    PLACEMENT_LEVELS,
    SCHEDULING_LEVELS,
    RuleConfiguration,
    columns,
    num_kinds,
    rule_actions,
)
from placewright.machines import load_machine
from placewright.problem import Problem, make_problem
from placewright.problem.objective import ControlMode
from placewright.support.files import make_folder, write_atomically

HERE = Path(__file__).parent
OUT = HERE.parent / "src" / "placewright" / "lab" / "learning" / "rule" / "found"
TRAINING_SEED, MAX_OPS = 1, 1500
Part = Literal["both", "placement", "scheduling"]
#: Weights to draw from, mostly zeros, so that rules are short.
WEIGHTS = (-2, -1, 0, 0, 0, 1, 2)


class Trial:
    """Training problems, each with the result of uniform BRKGA and with its features."""

    def __init__(self, graphs: Sequence[Graph], like: RuleConfiguration, evaluations: int) -> None:
        self._graphs, self._like, self._evaluations = graphs, like, evaluations

    def __len__(self) -> int:
        return len(self._graphs)

    @cache  # noqa: B019, a trial lives as long as the script
    def _problem(self, index: int) -> tuple[Problem, int, Context]:
        own, machine = self._like, load_machine(PAPER_MACHINE)
        problem = make_problem(self._graphs[index], machine, objective=own.objective, control=own.control)
        uniform = guided_search(problem, None, seed=index + 1)
        uniform.advance(self._evaluations)
        return problem, uniform.best_objective, context_of(problem, index, own.decoder, with_affinities=True)

    def gain(self, rule: RuleConfiguration, index: int) -> float:
        """Gain of the search that the rule guides over uniform BRKGA with the paper's decoder, in percent."""
        problem, reference, context = self._problem(index)
        proposal = rule.action_space.proposal(problem, rule_actions(rule, context.features), context.fixed_op)
        kept = [problem.core.encode(*problem.core.decode(context.keys, rule.decoder), rule.decoder)]
        search = guided_search(problem, proposal, index, rule.decoder, kept if rule.warm_start else ())
        search.advance(self._evaluations - FEATURE_EVALUATIONS)
        return 100 * (1 - min(search.best_objective, context.objective) / max(1, reference))


def candidates(
    like: RuleConfiguration, count: int, draw: random.Random, part: Part = "both"
) -> list[RuleConfiguration]:
    """Rules found by hand, then random ones, `count` of those that decide about nothing but `part`."""
    return list(islice((each for each in chain(by_hand(like), _drawn(like, draw)) if _is_of(part, each)), count))


def _is_of(part: Part, rule: RuleConfiguration) -> bool:
    if part == "placement":
        return not rule.weights
    return part == "both" or rule.affinity is None


def by_hand(like: RuleConfiguration) -> list[RuleConfiguration]:
    """Rules found by hand: what the expert of imitation begins with, for each kind of affinity; and for step time, long
    ops, and ops after long ones, last, with little certainty."""
    first = 7 if like.decoder == "paper" else SCHEDULING_LEVELS - 1
    falling: dict[str, Any] = {"weights": {"position": 1}, "first_level": first, "last_level": 0, "variance_level": 0}
    sure = range(num_kinds(like.objective))
    if like.objective == "peak-memory":
        return [replace(like, affinity=kind, affinity_level=level) for kind in sure for level in (3, 4)]
    long_last = {"own": 1, "before": 2, "after": -1}
    halves: dict[str, Any] = {"shape": "halves", "first_level": 15, "last_level": 0, "variance_level": 15}
    return [
        *(replace(like, affinity=kind, **falling) for kind in sure),
        replace(like, weights=long_last, **halves),
    ]


def _drawn(like: RuleConfiguration, draw: random.Random) -> Iterator[RuleConfiguration]:
    while True:
        weights = {name: draw.choice(WEIGHTS) for name in columns(like.objective, like.num_devices)}
        weights = {name: weight for name, weight in weights.items() if weight}
        affinity = draw.choice((None, *range(num_kinds(like.objective))))
        if draw.random() < 0.2:
            weights = {}
        if not weights and affinity is None:
            continue
        yield replace(
            like,
            weights=weights,
            shape=draw.choice(("halves", "line")),
            first_level=draw.randrange(SCHEDULING_LEVELS),
            last_level=draw.choice((0, SCHEDULING_LEVELS // 2 - 1, SCHEDULING_LEVELS - 1)),
            variance_level=draw.choice((0, 1, 3, 7, 11, 15)),
            affinity=affinity,
            affinity_level=draw.choice((3, 4)),
            affinity_variance_level=draw.randrange(PLACEMENT_LEVELS),
        )


def training_graphs(task: str, take: int, max_ops: int, control: ControlMode) -> list[Graph]:
    if task == "synthetic":
        return list(islice(interesting_graphs(TRAINING_SEED, control=control), take))
    path = HERE / "instances" / "zoo-train.graphs.gz" if task == "zoo" else Path(task)
    graphs = read_graph_set(path)
    small = [graph for graph in (graphs[index] for index in range(len(graphs))) if len(graph.ops) <= max_ops]
    chosen = [small[index] for index in spread(len(small), take)]
    random.Random(TRAINING_SEED).shuffle(chosen)  # so that the few of the first round have all sizes
    return chosen


def document(best: Scored[RuleConfiguration], command: str) -> str:
    """TOML with the rule's settings that differ from defaults, and how it was found."""
    said = {
        each.name: value
        for each in fields(RuleConfiguration)
        if (value := getattr(best.candidate, each.name)) is not None
        and (value != each.default or each.name == "control")
    }
    weights = said.pop("weights", {})
    lines = ["[rule]", *(f"{name} = {_toml(value)}" for name, value in said.items())]
    if weights:
        lines.append(f"weights = {{{', '.join(f'{name} = {weight}' for name, weight in weights.items())}}}")
    lines += ["", "[found]", f"command = {_toml(command)}", f"graphs = {len(best.gains)}"]
    lines += [f"improvement_percent = {best.mean:.2f}", f"standard_error = {best.error:.2f}"]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("name", help="of the rule, like rule-runtime-zoo")
    options.add_argument("--task", default="synthetic", help="synthetic, zoo, or a graph set to learn from")
    options.add_argument("--objective", default="step-time", choices=("step-time", "peak-memory"))
    options.add_argument("--control", default="order", choices=("order", "signal", "transfer"))
    options.add_argument("--decoder", default="paper", choices=WITH_AFFINITIES, help="others keep the best, too")
    options.add_argument("--part", default="both", choices=get_args(Part), help="what the rule may decide about")
    options.add_argument("--candidates", type=int, default=256)
    options.add_argument("--take", type=int, default=192, help="training graphs")
    options.add_argument("--first", type=int, default=12, help="of them, for all candidates")
    options.add_argument("--max-ops", type=int, default=MAX_OPS, help="of a graph of the zoo")
    options.add_argument("--evaluations", type=int, default=5000)
    options.add_argument("--out", type=Path, default=OUT)
    return options


def main() -> None:
    arguments = parser().parse_args()
    make_folder(arguments.out)
    like = RuleConfiguration(
        objective=arguments.objective,
        control=arguments.control,
        decoder=arguments.decoder,
        warm_start=arguments.decoder != "paper",
        affinity=0,
    )
    graphs = training_graphs(arguments.task, arguments.take, arguments.max_ops, like.control)
    trial = Trial(graphs, like, arguments.evaluations)
    best, *others = halved(
        candidates(like, arguments.candidates, random.Random(0), arguments.part),
        len(trial),
        trial.gain,
        arguments.first,
    )
    for rival in (best, *others[:4]):
        print(f"{rival.mean:+.2f} ± {rival.error:.2f}: {asdict(rival.candidate)}")
    command = f"python benchmarks/find_rule.py {arguments.name} " + told(arguments)
    write_atomically(arguments.out / f"{arguments.name}.toml", document(best, command.strip()).encode())


def told(arguments: argparse.Namespace) -> str:
    """The options that differ from their defaults, except `name` and `out`."""
    plain = parser()
    said = {
        name: value
        for name, value in vars(arguments).items()
        if name not in ("name", "out") and value != plain.get_default(name)
    }
    return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in said.items())


if __name__ == "__main__":
    main()
