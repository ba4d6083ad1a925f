"""Search curves of the placers that `placers.py` compared: the best step time by placements tried.

    python benchmarks/placer_curves.py OUT [--evaluations 500]

OUT holds the rows.jsonl of `placers.py`; search-curves.svg and .png go there. A panel for each network and machine on
which a learner ran; of several seeds the median. Needs the extra `bench`.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from placers import LEARNERS, Row, whole_rows

from placewright.lab.bench.figure_style import INK, LINE_COLOURS, QUIET, as_files, headline, style
from placewright.support.files import write_atomically

#: What learns in colours, what does not in greys.
_LOOKS: dict[str, dict[str, Any]] = {
    **{method: {"color": colour} for method, colour in zip(LEARNERS, LINE_COLOURS, strict=True)},
    "shared-noise-placement": {"color": QUIET, "linestyle": (0, (1, 1.2))},
    "annealed-placement": {"color": QUIET, "linestyle": (0, (5, 2))},
    "auto": {"color": INK},
}
_COLUMNS = 4
#: Workload and machine.
Case = tuple[str, str]


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("--evaluations", type=int, default=500, help="of the rows that are drawn")
    return options


def main() -> None:
    arguments = parser().parse_args()
    runs = runs_by_case(whole_rows(arguments.out / "rows.jsonl"), arguments.evaluations)
    with style():
        for suffix, data in as_files(drawn(runs, arguments.evaluations)).items():
            write_atomically(arguments.out / f"search-curves.{suffix}", data)
            print(arguments.out / f"search-curves.{suffix}")


def runs_by_case(rows: Sequence[Row], evaluations: int) -> Mapping[Case, Mapping[str, list[Row]]]:
    """Of cases with a learner, those of most learners first, by method, with the single device."""
    found: dict[Case, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        workload, machine, *method, limit, _ = row["run"].split(" ")  # "auto 10 s" is a method, too
        if limit == f"{evaluations}":
            found[workload, machine][" ".join(method)].append(row)
    learned = {case: runs for case, runs in found.items() if runs.keys() & set(LEARNERS)}
    return dict(sorted(learned.items(), key=lambda each: -len(each[1].keys() & set(LEARNERS))))


def drawn(runs: Mapping[Case, Mapping[str, list[Row]]], evaluations: int) -> Any:
    from matplotlib.figure import Figure

    lines = math.ceil(len(runs) / _COLUMNS)
    figure: Any = Figure(figsize=(11, 2.3 * lines + 1.3), layout="constrained")
    figure.get_layout_engine().set(rect=(0.005, 0, 0.985, 1 - 0.66 / (2.3 * lines + 1.3)), wspace=0.04)
    headline(
        figure,
        "Placers by placements tried",
        "best step time so far over that of the single device; median of the seeds",
    )
    axes = list(figure.subplots(lines, _COLUMNS, squeeze=False, sharex=True).flat)
    for axis, ((workload, machine), methods) in zip(axes, runs.items(), strict=False):
        alone = methods["single-device"][0]["step_time_ns"]
        for method, look in _LOOKS.items():
            if of_method := methods.get(method):
                steps, best = median_curve(of_method, evaluations)
                axis.plot(steps, best / alone, label=method, linewidth=1.5, drawstyle="steps-post", **look)
        axis.set(title=f"{workload}, {machine}", xlim=(1, evaluations), ylim=(None, 1.05))
    for axis in axes[len(runs) :]:
        axis.set_axis_off()
    for axis in axes[::_COLUMNS]:
        axis.set_ylabel("step time")
    for axis in axes[max(0, len(runs) - _COLUMNS) : len(runs)]:
        axis.set_xlabel("placements")
        axis.tick_params(labelbottom=True)
    handles = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    shown = [method for method in _LOOKS if method in handles]
    figure.legend(
        [handles[method] for method in shown], shown,
        loc="outside lower center", ncols=5, frameon=False, columnspacing=1.4, handlelength=2.2,
    )  # fmt: skip
    return figure


def median_curve(rows: Sequence[Row], evaluations: int) -> tuple[Any, Any]:
    """Numbers of placements, and the best step time after each, in ns; nan before one that fits."""
    steps = np.arange(1, evaluations + 1)
    curves = []
    for row in rows:
        after = np.array([point[0] for point in row["trace"]])
        values = np.array([np.nan, *(point[1] for point in row["trace"])])
        curves.append(values[np.searchsorted(after, steps, side="right")])
    median = np.median(curves, axis=0)
    kept = np.flatnonzero(np.r_[True, np.diff(median) != 0])  # levels between changes need no points
    kept = np.unique([*kept, len(steps) - 1])
    return steps[kept], median[kept]


if __name__ == "__main__":
    main()
