"""REGAL's figure 11, what a policy decides: `python benchmarks/action_figures.py SUITE POLICY OUT [TAKE]`.

The policy must decide about devices and priorities. Of all ops of the suite's graphs (of TAKE of them): how often a
device is preferred together with a low or high priority, and how large these ops are: time, or where memory is the
objective bytes of inputs and outputs, over the largest of the graph. Prints both and draws OUT/actions-POLICY.svg and
.png.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placewright.bench.figure_style import as_files, headline, style
from placewright.bench.suite import Suite, read_suite, spread
from placewright.files import write_atomically
from placewright.policies.actions import op_bytes
from placewright.policies.features import context_of
from placewright.policies.forward import logits_of
from placewright.policies.policy import Policy, sample
from placewright.policies.shipped import find_policy
from placewright.problem import Problem

PRIORITIES = ("low priority", "high priority")


def decisions(policy: Policy, problem: Problem, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each op the device whose affinity has the largest mean, or their number where means are equal, and whether
    the mean of its priority is above one half."""
    configuration = policy.configuration
    context = context_of(problem, seed, configuration.decoder, with_leanings=configuration.with_leanings)
    space = configuration.action_space
    actions = sample(logits_of(policy.weights, configuration, context.features), space, seed)
    means = actions[:, : 2 * space.num_devices : 2]
    best = means.argmax(axis=1)
    alone = (means == means.max(axis=1, keepdims=True)).sum(axis=1) == 1
    is_high = 2 * (actions[:, 2 * space.num_devices] + 1) > space.scheduling_levels + 1
    return np.where(alone, best, space.num_devices), is_high.astype(np.int64)


def sizes(problem: Problem) -> NDArray[np.float64]:
    if problem.objective == "peak-memory":
        own = op_bytes(problem)[:, :2].sum(axis=1).astype(np.float64)
    else:
        own = problem.time_ns[problem.lowered.graph_op, 0].astype(np.float64)
    return own / max(1.0, own.max())


def gather(suite: Suite, policy: Policy, take: int | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Percent of all ops and mean size, [preference, priority]."""
    count, size = (
        np.zeros((policy.configuration.num_devices + 1, 2)),
        np.zeros((policy.configuration.num_devices + 1, 2)),
    )
    for index in spread(len(suite.labels), take):
        problem = suite.problem(suite.graph(index))
        where = decisions(policy, problem, index)
        np.add.at(count, where, 1)
        np.add.at(size, where, sizes(problem))
    return 100 * count / count.sum(), size / np.maximum(1, count)


def draw(policy: Policy, share: NDArray[np.float64], size: NDArray[np.float64]) -> Any:
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(8.2, 3.6), layout="constrained")
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - 0.62 / 3.6))
    size_of = "bytes" if policy.configuration.objective == "peak-memory" else "time"
    panels = ((share, "ops, %", "{:.1f}"), (size, f"mean {size_of}, of the graph's largest", "{:.3f}"))
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


def names(policy: Policy) -> list[str]:
    return [*(f"device {device + 1}" for device in range(policy.configuration.num_devices)), "no preference"]


def main(suite: Path, name: str, out: Path, take: int | None) -> None:
    policy = find_policy(name)
    space = policy.configuration.action_space
    if not (space.placement_levels and space.scheduling_levels):
        sys.exit(f"policy '{policy.name}' does not decide about both devices and priorities")
    share, size = gather(read_suite(suite), policy, take)
    for row, label in enumerate(names(policy)):
        for column, priority in enumerate(PRIORITIES):
            print(f"{label}, {priority}: {share[row, column]:.1f}% of ops, mean size {size[row, column]:.3f}")
    out.mkdir(parents=True, exist_ok=True)
    with style():
        for suffix, data in as_files(draw(policy, share, size)).items():
            write_atomically(out / f"actions-{policy.name}.{suffix}", data)


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) == 5 else None)
