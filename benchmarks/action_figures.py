"""REGAL's figures 4a and 11, what a policy decides: `python benchmarks/action_figures.py SUITE POLICY OUT`.

Covers all ops of the suite's graphs (of so many with --take). Prints by how much the decisions of ops differ in the
mean: 0 if a policy decides alike for every op, at most 1. Next to it, by how much those of the same op differ between
three seeds of the search for features, with devices renamed to agree best. A policy decides by the op if the latter is
at most half of the former: else it follows the luck of that search. If it decides about both devices and priorities:
how often a device is preferred together with a low or high priority, and how large these ops are (their time, or bytes
of inputs and outputs if memory is the objective, over the largest of the graph); and for each graph the entropy of its
ops' decisions about devices. The script prints means of these and draws OUT/actions-POLICY and OUT/entropies-POLICY,
.svg and .png.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from placewright.lab.bench.figure_style import LINE_COLOURS, as_files, headline, style
from placewright.lab.bench.suite import Suite, read_suite
from placewright.lab.datasets.problem_set import spread
from placewright.lab.learning.decisions import decisions_of
from placewright.lab.learning.regal.actions import ActionSpace
from placewright.lab.learning.regal.features import context_of, op_bytes
from placewright.lab.learning.regal.forward import Logits, logits_of
from placewright.lab.learning.regal.policy import RegalPolicy, choose
from placewright.methods.policy_file import find_policy
from placewright.problem import Problem
from placewright.support.files import write_atomically

if TYPE_CHECKING:
    from torch import Tensor

Float = NDArray[np.float64]
Int = NDArray[np.int64]
PRIORITIES = ("low priority", "high priority")
#: Distance between seeds of one graph, so large that no graph has the seed of another.
SEED_STEP = 1_000_003


def logits_for(policy: RegalPolicy, problem: Problem, seed: int) -> Logits:
    configuration = policy.configuration
    context = context_of(problem, seed, configuration.decoder, with_affinities=configuration.with_affinities)
    return logits_of(policy.weights, configuration, context.features)


def choices_of(space: ActionSpace, logits: NDArray[np.float32]) -> list[Tensor]:
    """Log probabilities of the ops' decisions, [ops, levels] for each choice."""
    import torch

    of_ops = torch.from_numpy(logits[:, : sum(space.levels)])  # after them those of the elite bias
    return [torch.log_softmax(choice, dim=1) for choice in of_ops.split(space.levels, dim=1)]


def variation_between(space: ActionSpace, seeds: Sequence[Sequence[Tensor]]) -> float:
    """Total variation between the probabilities of an op's action under a seed and their mean over the seeds, averaged
    over ops and choices. Devices of later seeds are renamed to be closest to the first seed's."""
    import torch

    own = [[choice.exp() for choice in choices] for choices in seeds]
    aligned = [own[0], *(min(renamed(space, each), key=lambda one: distance(one, own[0])) for each in own[1:])]
    apart = []
    for of_seeds in zip(*aligned, strict=True):
        stacked = torch.stack(list(of_seeds))
        apart.append(float((stacked - stacked.mean(0)).abs().sum(2).mean()) / 2)
    return sum(apart) / len(apart)


def renamed(space: ActionSpace, choices: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Yield the choices with the devices in every order; the first choices are a mean and a variance per device."""
    if not space.placement_levels:
        yield list(choices)
        return
    rest = list(choices[2 * space.num_devices :])
    for devices in permutations(range(space.num_devices)):
        yield [choices[2 * device + part] for device in devices for part in (0, 1)] + rest


def distance(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    return sum(float((a - b).abs().sum()) for a, b in zip(one, other, strict=True))


def decisions(space: ActionSpace, actions: Int) -> tuple[Int, Int]:
    """The device of largest mean affinity per op, or the number of devices for a tie; and 1 where the mean of the op's
    priority is above one half, else 0."""
    means = actions[:, : 2 * space.num_devices : 2]
    best = means.argmax(axis=1)
    alone = (means == means.max(axis=1, keepdims=True)).sum(axis=1) == 1
    is_high = 2 * (actions[:, 2 * space.num_devices] + 1) > space.scheduling_levels + 1
    return np.where(alone, best, space.num_devices), is_high.astype(np.int64)


def entropy(space: ActionSpace, actions: Int) -> float:
    """Entropy in nats of the combinations of means and variances of affinities over the ops of a graph."""
    _, count = np.unique(actions[:, : 2 * space.num_devices], axis=0, return_counts=True)
    share = count / count.sum()
    return float(-(share * np.log(share)).sum())


def sizes(problem: Problem) -> NDArray[np.float64]:
    if problem.objective == "peak-memory":
        own: Float = op_bytes(problem)[:, :2].sum(axis=1).astype(np.float64)
    else:
        own = problem.time_ns[problem.lowered.graph_op, 0].astype(np.float64)
    largest = max(1.0, float(own.max()))
    return own / largest


@dataclass(frozen=True, kw_only=True, eq=False)
class Gathered:
    """Figures of a suite. variations, between_seeds, entropies: by graph, the first two empty if an op's actions depend
    on another's (A.8). share, size: percent of all ops and their mean size, [preference, priority]. max_entropy: the
    most that any graph could have."""

    variations: list[float]
    between_seeds: list[float]
    share: Float
    size: Float
    entropies: list[float]
    max_entropy: float


def gather(suite: Suite, policy: RegalPolicy, take: int | None) -> Gathered:
    space = policy.configuration.action_space
    count, size = np.zeros((space.num_devices + 1, 2)), np.zeros((space.num_devices + 1, 2))
    variations, between_seeds, entropies, max_ops = [], [], [], 0
    for index in spread(len(suite.labels), take):
        problem = suite.problem(suite.graph(index))
        logits = logits_for(policy, problem, index)
        if isinstance(logits, np.ndarray):
            others = [logits_for(policy, problem, index + SEED_STEP * step) for step in (1, 2)]
            seeds = [choices_of(space, each) for each in (logits, *others) if isinstance(each, np.ndarray)]
            variations.append(decisions_of(seeds[0]).variation or 0.0)
            between_seeds.append(variation_between(space, seeds))
        if not decides_both(space):
            continue
        actions = choose(logits, policy.configuration, index)
        where = decisions(space, actions)
        np.add.at(count, where, 1)
        np.add.at(size, where, sizes(problem))
        entropies.append(entropy(space, actions))
        max_ops = max(max_ops, len(actions))
    return Gathered(
        variations=variations,
        between_seeds=between_seeds,
        share=100 * count / max(1, count.sum()),
        size=size / np.maximum(1, count),
        entropies=entropies,
        max_entropy=float(np.log(max(1, min(max_ops, space.placement_levels ** (2 * space.num_devices))))),
    )


def decides_both(space: ActionSpace) -> bool:
    return bool(space.placement_levels and space.scheduling_levels)


def draw_actions(policy: RegalPolicy, found: Gathered) -> Any:
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(8.2, 3.6), layout="constrained")
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - 0.62 / 3.6))
    size_of = "bytes" if policy.configuration.objective == "peak-memory" else "time"
    panels = ((found.share, "ops, %", "{:.1f}"), (found.size, f"mean {size_of}, of the graph's largest", "{:.3f}"))
    for axes, (values, title, text) in zip(figure.subplots(1, 2), panels, strict=True):
        axes.imshow(values, cmap="Blues", vmin=0, vmax=1.4 * values.max(), aspect="auto")
        axes.grid(visible=False)
        axes.set_title(title)
        axes.set_xticks(range(2), PRIORITIES)
        axes.set_yticks(range(len(values)), names(policy))
        for (row, column), value in np.ndenumerate(values):
            axes.text(column, row, text.format(value), ha="center", va="center")
    headline(figure, f"What {policy.name} decides", "by the device it prefers and the mean of the priority")
    return figure


def draw_entropies(policy: RegalPolicy, found: Gathered) -> Any:
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(5.6, 3.6), layout="constrained")
    figure.get_layout_engine().set(rect=(0, 0, 0.985, 1 - 0.62 / 3.6))
    axes = figure.subplots()
    axes.hist(found.entropies, bins=np.linspace(0, found.max_entropy, 41), color=LINE_COLOURS[0])
    axes.set_xlabel("nats")
    axes.set_ylabel("graphs")
    mean = float(np.mean(found.entropies))
    headline(
        figure,
        f"Placement actions of {policy.name}",
        f"entropy over the ops of a graph: mean {mean:.2f} of at most {found.max_entropy:.2f} nats",
    )
    return figure


def names(policy: RegalPolicy) -> list[str]:
    return [*(f"device {device + 1}" for device in range(policy.configuration.num_devices)), "no preference"]


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("suite", type=Path)
    options.add_argument("policy", help="a name or a file")
    options.add_argument("out", type=Path)
    options.add_argument("--take", type=int, help="how many graphs of the suite, all without")
    return options


def main() -> None:
    arguments = parser().parse_args()
    policy, out = find_policy(arguments.policy), arguments.out
    assert isinstance(policy, RegalPolicy)
    found = gather(read_suite(arguments.suite), policy, arguments.take)
    if found.variations:
        print(f"variation of decisions between ops: {np.mean(found.variations):.4f}")
        print(f"between seeds of the search for features: {np.mean(found.between_seeds):.4f}")
    if not decides_both(policy.configuration.action_space):
        print(f"no figures: '{policy.name}' does not decide about both devices and priorities")
        return
    for row, label in enumerate(names(policy)):
        for column, priority in enumerate(PRIORITIES):
            share, size = found.share[row, column], found.size[row, column]
            print(f"{label}, {priority}: {share:.1f}% of ops, mean size {size:.3f}")
    print(f"entropy of a graph's placement actions: {np.mean(found.entropies):.2f} nats")
    out.mkdir(parents=True, exist_ok=True)
    with style():
        for name, figure in (("actions", draw_actions(policy, found)), ("entropies", draw_entropies(policy, found))):
            for suffix, data in as_files(figure).items():
                write_atomically(out / f"{name}-{policy.name.rpartition('/')[2]}.{suffix}", data)


if __name__ == "__main__":
    main()
