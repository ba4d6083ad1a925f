"""Figures 3, 4 and 6 of EGRL's comparison (Khadka et al. 2021), and its table.

    python benchmarks/egrl_figures.py OUT FOLDER [FOLDER ...]

FOLDERs hold the rows.jsonl of `egrl.py` and the transfers.jsonl of `egrl_transfer.py`. Into OUT go, as .svg and .png,

    figure-3   speed-up over the compiler by evaluations, of every method on every network
    figure-4   speed-up of policies on networks that they did not learn on, by stage of their training
    figure-6   which level the bytes of each level of the compiler's map have in the fastest map of EGRL
    figure-6-tensors   the level of every tensor in both maps

and table.md, mean and standard deviation over the seeds. Needs the extra `bench`.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from egrl import STAGES, speedup, whole_rows
from numpy.typing import NDArray

from placewright.lab.bench.figure_style import GRID, INK, LINE_COLOURS, QUIET, as_files, headline, style
from placewright.lab.datasets.fused.networks import fused_network
from placewright.memory_levels.chips import load_chip
from placewright.memory_levels.compilers import BASELINE, COMPILERS
from placewright.memory_levels.lowering import make_memory_problem
from placewright.memory_levels.problem import MemoryProblem
from placewright.support.files import make_folder, write_atomically

Row = dict[str, Any]
#: In the order of the legend; the first is drawn last, above the others.
METHODS = {
    "egrl": "EGRL",
    "ea": "EA",
    "local-search": "local search",
    "greedy-dp": "greedy-DP",
    "random": "random",
    "pg": "PG",
}
NETWORKS = {"resnet50-int8": "ResNet-50", "resnet101-int8": "ResNet-101", "bert-base-384-int8": "BERT"}
#: Speed-up of the best map that is known or proven, docs/notes/memory-levels.md.
OPTIMA = {"resnet50-int8": 1.279, "resnet101-int8": 1.218, "bert-base-384-int8": 1.838}
#: On the axis of figure 4, what was tuned on the network itself.
TUNED_AT = 117
#: From the fastest level to the slowest, of up to four.
LEVEL_COLOURS = ("#0072B2", "#8CC4E8", "#E69F00", "#CC79A7")
_COLOUR = dict(zip(METHODS, LINE_COLOURS, strict=True))

TITLE = "# Speed-up of memory maps over the compiler's\n\n"


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("folders", type=Path, nargs="+")
    options.add_argument("--chip", default="nnpi")
    return options


def main() -> None:
    arguments = parser().parse_args()
    rows = [row for folder in arguments.folders for row in whole_rows(folder / "rows.jsonl")]
    moved = [row for folder in arguments.folders for row in whole_rows(folder / "transfers.jsonl")]
    check_alike(rows)
    make_folder(arguments.out)
    write_atomically(arguments.out / "table.md", f"{TITLE}{table(rows)}".encode())
    figures: dict[str, Callable[[], Any]] = {
        "figure-3": lambda: figure_3(rows),
        "figure-6": lambda: figure_6(rows, arguments.chip),
        "figure-6-tensors": lambda: figure_6_tensors(rows, arguments.chip),
    }
    if any(row["kind"] == "zero-shot" for row in moved):
        figures["figure-4"] = lambda: figure_4(moved)
    with style():
        for name, draw in figures.items():
            for suffix, data in as_files(draw()).items():
                write_atomically(arguments.out / f"{name}.{suffix}", data)
                print(arguments.out / f"{name}.{suffix}")


def check_alike(rows: Sequence[Row]) -> None:
    """Seeds of one method are of one mode with as many gradient steps, which stand at the end of a run's name."""
    for method in {row["method"] for row in rows}:
        kinds = {row["run"].rpartition("-seed")[2].partition("-")[2] for row in rows if row["method"] == method}
        if len(kinds) > 1:
            raise SystemExit(f"the rows of {method} are of several settings, {', '.join(sorted(kinds))}: draw one")


def networks_of(rows: Sequence[Row], key: str = "network") -> list[str]:
    """In the paper's order, others behind."""
    order = list(NETWORKS)
    found = dict.fromkeys(row[key] for row in rows)
    return sorted(found, key=lambda name: (order.index(name) if name in order else len(order), name))


def runs_of(rows: Sequence[Row], network: str, method: str) -> list[Row]:
    return [row for row in rows if (row["network"], row["method"]) == (network, method)]


def table(rows: Sequence[Row]) -> str:
    methods = [method for method in METHODS if any(row["method"] == method for row in rows)]
    lines = [
        f"| network | seeds | {' | '.join(METHODS[method] for method in methods)} |",
        "|---|" + "---:|" * (len(methods) + 1),
    ]
    for network in networks_of(rows):
        of_methods = [[speedup(row) for row in runs_of(rows, network, method)] for method in methods]
        cells = [f"{statistics.mean(g):.3f} ± {statistics.pstdev(g):.3f}" if g else "-" for g in of_methods]
        seeds = {len(gains) for gains in of_methods if gains}
        lines.append(f"| {network} | {'-'.join(map(str, sorted(seeds)))} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def panels(count: int, height: float, title: str, subtitle: str) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(3.1 * count + 0.5, height), layout="constrained")
    figure.get_layout_engine().set(rect=(0.005, 0, 0.985, 1 - 0.66 / height), wspace=0.04)
    headline(figure, title, subtitle)
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def figure_3(rows: Sequence[Row]) -> Any:
    networks = networks_of(rows)
    figure, axes = panels(
        len(networks),
        4.1,
        "Speed-up of memory maps by evaluations",
        "over the compiler's map; mean of the seeds, and one standard deviation around it",
    )
    for axis, network in zip(axes, networks, strict=True):
        final = {}
        for method in reversed(METHODS):
            if runs := runs_of(rows, network, method):
                final[method] = drawn_curve(axis, runs, method)
        axis.axhline(1, color=QUIET, linewidth=0.9, linestyle=":", label="compiler")
        title = NETWORKS.get(network, network)
        if network in OPTIMA:
            axis.axhline(OPTIMA[network], color=INK, linewidth=0.9, linestyle=(0, (4, 2)), label="optimum")
            title = f"{title}, optimum {OPTIMA[network]:.3f}"
        axis.set(title=title, xlabel="evaluations", xlim=(0, 1.03 * max(row["evaluations"] for row in rows)))
        axis.set_ylim(*around([1, OPTIMA.get(network, 1), *final.values()]))
    axes[0].set_ylabel("speed-up")
    handles, labels = axes[0].get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda index: (labels[index] in ("compiler", "optimum"), -index))
    figure.legend(
        [handles[index] for index in order], [labels[index] for index in order],
        loc="outside lower center", ncols=len(labels), frameon=False, columnspacing=1.4, handlelength=1.6,
    )  # fmt: skip
    return figure


def around(values: Sequence[float]) -> tuple[float, float]:
    """Limits of an axis of ratios: what ends far below the others is still on it, what only begins there is not."""
    low, high = min(values), max(values)
    return max(0, low - 0.25 * (high - low) - 0.02), high + 0.06 * (high - low) + 0.01


def drawn_curve(axis: Any, runs: Sequence[Row], method: str) -> float:
    """Where its mean ends."""
    steps = np.unique(np.linspace(1, max(row["evaluations"] for row in runs), 250).astype(int))
    curves = np.array([curve(row, steps) for row in runs])
    mean, spread = curves.mean(axis=0), curves.std(axis=0)
    # Steps are level between their changes, so only these are drawn; it keeps the file small.
    kept = np.flatnonzero(np.r_[True, np.any(np.diff(curves, axis=1) != 0, axis=0)])
    kept = np.unique([*kept, len(steps) - 1])
    steps, mean, spread = steps[kept], mean[kept], spread[kept]
    width = 2.2 if method == "egrl" else 1.4
    look = {"color": _COLOUR[method], "drawstyle": "steps-post", "marker": "o", "markersize": width + 2}
    # Its end is marked: a method that times all its maps at once has no other point.
    axis.plot(steps, mean, label=METHODS[method], linewidth=width, markevery=[-1], **look)
    axis.fill_between(steps, mean - spread, mean + spread, step="post", color=_COLOUR[method], alpha=0.15, linewidth=0)
    return float(mean[-1])


def curve(row: Row, steps: NDArray[np.int64]) -> NDArray[np.float64]:
    """The best speed-up after so many evaluations; nan before a map that fits."""
    after = np.array([point[0] for point in row["trace"]])
    values = np.array([np.nan, *(row["compiler_ps"] / point[1] for point in row["trace"])])
    return values[np.searchsorted(after, steps, side="right")]


def figure_4(moved: Sequence[Row]) -> Any:
    targets = networks_of(moved, "target")
    figure, axes = panels(
        len(targets),
        4.1,
        "Policies on networks that they did not learn on",
        "speed-up over the compiler's map by stage of the training; mean and standard deviation over policies",
    )
    colour_of = dict(zip(targets, LINE_COLOURS, strict=False))
    for axis, target in zip(axes, targets, strict=True):
        of_target = [row for row in moved if row["target"] == target]
        before = [row["speedup"] for row in of_target if row["kind"] == "untrained"]
        axis.axhline(statistics.mean(before), color=QUIET, linewidth=0.9, linestyle=(0, (4, 2)), label="untrained")
        axis.axhline(1, color=QUIET, linewidth=0.9, linestyle=":", label="compiler")
        for source in networks_of([row for row in of_target if row["source"]], "source"):
            drawn_transfer(axis, [row for row in of_target if row["source"] == source], source, colour_of[source])
        axis.set(title=f"on {NETWORKS.get(target, target)}", xlabel="% of the training", xlim=(10, 125))
        axis.set_xticks([*(100 * stage // STAGES for stage in range(1, STAGES + 1)), TUNED_AT], [
            *(f"{100 * stage // STAGES}" for stage in range(1, STAGES + 1)), "tuned",
        ])  # fmt: skip
    axes[0].set_ylabel("speed-up")
    handles = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    labels = sorted(handles, key=lambda label: (label in ("untrained", "compiler"), label))
    figure.legend([handles[label] for label in labels], labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def drawn_transfer(axis: Any, rows: Sequence[Row], source: str, colour: str) -> None:
    """zero-shot by stage, and where fine-tuning ends."""
    name = NETWORKS.get(source, source)
    by_stage = {
        stage: [row["speedup"] for row in rows if row["kind"] == "zero-shot" and row["stage"] == stage]
        for stage in range(1, STAGES + 1)
    }
    known = {stage: gains for stage, gains in by_stage.items() if gains}
    axis.errorbar(
        [100 * stage / STAGES for stage in known],
        [statistics.mean(gains) for gains in known.values()],
        [statistics.pstdev(gains) for gains in known.values()],
        label=f"learned on {name}", color=colour, marker="o", markersize=4, linewidth=1.6, capsize=2, elinewidth=0.9,
    )  # fmt: skip
    tuned = [row["speedup"] for row in rows if row["kind"] == "fine-tuned"]
    if tuned:
        axis.plot([TUNED_AT], [statistics.mean(tuned)], marker="*", markersize=10, linestyle="none", color=colour,
                  label=f"{name}, fine-tuned")  # fmt: skip


def fastest_maps(rows: Sequence[Row]) -> dict[str, Row]:
    """EGRL's, by network."""
    best: dict[str, Row] = {}
    for row in rows:
        if row["method"] == "egrl" and row["latency_ps"] <= best.get(row["network"], row)["latency_ps"]:
            best[row["network"]] = row
    return best


def figure_6(rows: Sequence[Row], chip_name: str) -> Any:
    from matplotlib.figure import Figure

    best = fastest_maps(rows)
    networks = networks_of(list(best.values()))
    height = 5.6
    figure: Any = Figure(figsize=(2.7 * len(networks) + 0.6, height), layout="constrained")
    figure.get_layout_engine().set(rect=(0.005, 0, 0.985, 1 - 0.66 / height))
    headline(figure, "Where EGRL moves what the compiler places", "share of the bytes of each of the compiler's levels")
    axes = figure.subplots(2, len(networks), squeeze=False)
    for column, network in enumerate(networks):
        problem = make_memory_problem(fused_network(network), load_chip(chip_name))
        levels = np.array(best[network]["levels"], np.uint8)
        for row_of_axes, (role, what) in enumerate(((1, "weights"), (0, "activations"))):
            axis = axes[row_of_axes][column]
            drawn_transitions(axis, transitions(problem, levels, role), problem.chip.level_names)
            axis.set(title=f"{NETWORKS.get(network, network)}: {what}", xlabel="EGRL")
            if column == 0:
                axis.set_ylabel("compiler")
    return figure


def drawn_transitions(axis: Any, moved: NDArray[np.int64], names: Sequence[str]) -> None:
    """moved: bytes, [from, to]. A row of no bytes stays blank."""
    whole = moved.sum(axis=1, keepdims=True)
    shares = np.divide(moved, whole, out=np.full(moved.shape, np.nan), where=whole > 0)
    axis.imshow(shares, vmin=0, vmax=1, cmap="Blues")
    for (row, column), share in np.ndenumerate(shares):
        text = f"{share:.0%}" if np.isfinite(share) else "" if column else "holds nothing"
        place = {"ha": "center", "color": "white" if share > 0.6 else INK if share > 0 else QUIET}
        if text == "holds nothing":
            axis.text(1, row, text, va="center", ha="center", size=8, color=QUIET)
        else:
            axis.text(column, row, text, va="center", size=9, **place)
    axis.set_xticks(range(len(names)), names)
    axis.set_yticks(range(len(names)), names)
    axis.grid(False)
    axis.tick_params(length=0)
    for spine in axis.spines.values():
        spine.set(visible=True, color=GRID)


def figure_6_tensors(rows: Sequence[Row], chip_name: str) -> Any:
    """A panel for each network; in it a band for each map, of weights above and of activations below."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    best, chip = fastest_maps(rows), load_chip(chip_name)
    networks = networks_of(list(best.values()))
    height = 1.5 * len(networks) + 1.2
    figure: Any = Figure(figsize=(8.7, height), layout="constrained")
    figure.get_layout_engine().set(rect=(0.005, 0, 0.985, 1 - 0.66 / height), h_pad=0.08)
    headline(figure, "Where every tensor lives", "in the order of the ops, each as wide as any other")
    colours = LEVEL_COLOURS[: len(chip.level_names)]
    for axis, network in zip(figure.subplots(len(networks), 1, squeeze=False)[:, 0], networks, strict=True):
        problem = make_memory_problem(fused_network(network), chip)
        maps = {"compiler": COMPILERS[BASELINE](problem), "EGRL": np.array(best[network]["levels"], np.uint8)}
        drawn_bands(axis, problem, maps, colours)
        axis.set_title(NETWORKS.get(network, network))
    handles = [Patch(color=colour, label=name) for colour, name in zip(colours, chip.level_names, strict=True)]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return figure


def drawn_bands(
    axis: Any, problem: MemoryProblem, maps: Mapping[str, NDArray[np.uint8]], colours: Sequence[str]
) -> None:
    """Four bands over one axis, which goes from the first op to the last; of two weights of an op the last is seen."""
    from matplotlib.colors import ListedColormap, to_rgb

    labels, places = [], []
    for index, (role, what) in enumerate(((True, "weights"), (False, "activations"))):
        for row, (name, levels) in enumerate(maps.items()):
            band = np.full(problem.num_ops, np.nan)
            chosen = problem.is_weight == role
            band[problem.node[chosen]] = levels[chosen]
            top = 2.4 * index + row
            axis.imshow(
                band[None], extent=(0, problem.num_ops, top + 0.94, top), aspect="auto", interpolation="nearest",
                cmap=ListedColormap([to_rgb(colour) for colour in colours]), vmin=-0.5, vmax=len(colours) - 0.5,
            )  # fmt: skip
            labels.append(f"{what}, {name}")
            places.append(top + 0.47)
    axis.set(xlim=(0, problem.num_ops), ylim=(4.4, 0), yticks=places, yticklabels=labels, xlabel="op")
    axis.grid(False)
    axis.tick_params(axis="y", length=0)
    for side in ("left", "bottom"):
        axis.spines[side].set_visible(False)


def transitions(problem: Any, levels: NDArray[np.uint8], role: int) -> NDArray[np.int64]:
    """Bytes by level of the compiler's map and level of the other."""
    chosen = problem.is_weight == role
    moved = np.zeros((problem.num_levels, problem.num_levels), np.int64)
    np.add.at(moved, (COMPILERS[BASELINE](problem)[chosen], levels[chosen]), problem.size_bytes[chosen])
    return moved


if __name__ == "__main__":
    main()
