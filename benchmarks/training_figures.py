"""REGAL's figures 4 and 8 of trainings: `python benchmarks/training_figures.py OUT RUN [RUN ...]`.

RUN is a folder of `placewright train regal`, or of its records alone (benchmarks/policies), perhaps with the name of a
shipped policy that they are of. Into OUT go
training-reward.svg and .png (figure 8: mean reward by step), training-entropy (of one op's actions by step, which the
paper shows after training), training-validation (gain at each validation) and, of runs whose settings differ in their
rounds and seeds alone, training-rounds (figure 4: best validation by rounds of message passing, of each run and in the
mean).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from placewright.lab.bench.figure_style import LINE_COLOURS, MARKERS, QUIET, as_files, headline, style
from placewright.lab.learning.shipped import shipped_names
from placewright.lab.learning.trainer import BEST
from placewright.methods.policy_file import find_policy, read_policy
from placewright.support.files import write_atomically

#: The least number of lines of the records that are drawn as their mean, and the most points that may be left, so that
#: the figure shows the course and not the noise.
_SMOOTHED, _MOST_POINTS = 3, 100


@dataclass(frozen=True, kw_only=True)
class Training:
    """A training. name: of its folder. rounds: of messages. settings: all others but the seed; both are None if there
    are only records. lines: of its records."""

    name: str
    rounds: int | None
    settings: dict[str, Any] | None
    lines: list[dict[str, float]]

    @property
    def best(self) -> float:
        """Percent over uniform BRKGA at the best validation."""
        return max(line["improvement"] for line in self.lines if "improvement" in line)


def read(folder: Path) -> Training:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    if (folder / BEST).exists():
        policy = read_policy(folder / BEST)
    elif folder.name in shipped_names():
        policy = find_policy(folder.name)
    else:
        return Training(name=folder.name, rounds=None, settings=None, lines=lines)
    others = asdict(replace(policy.configuration, rounds=0)) | dict(policy.record.get("training") or {})
    return Training(name=folder.name, rounds=policy.configuration.rounds, settings=others, lines=lines)


def by_step(trainings: list[Training], key: str, title: str, y: str, least_smoothed: int = _SMOOTHED) -> Any:
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(7.2, 4.2), layout="constrained")
    figure.get_layout_engine().set(rect=(0, 0, 0.985, 1 - 0.62 / 4.2))
    axes = figure.subplots()
    found = [[(line["step"], line[key]) for line in training.lines if key in line] for training in trainings]
    smoothed = max(least_smoothed, max(map(len, found)) // _MOST_POINTS)
    names = line_names(trainings)
    drawn = list(dict.fromkeys(names))
    for number, (name, points) in enumerate(zip(names, found, strict=True)):
        groups = [points[begin : begin + smoothed] for begin in range(0, len(points), smoothed)]
        x = [group[-1][0] for group in groups]
        values = [sum(value for _, value in group) / len(group) for group in groups]
        colour = LINE_COLOURS[drawn.index(name) % len(LINE_COLOURS)]
        axes.plot(x, values, color=colour, linewidth=1.6, label=name if names.index(name) == number else None)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, labelcolor="linecolor")
    axes.set_xlabel("gradient steps")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylabel(y)
    means = f"mean of {smoothed} lines of the records, each over as many steps as lie between them"
    headline(figure, title, means if smoothed > 1 else "each point is one validation")
    return figure


def line_names(trainings: list[Training]) -> list[str]:
    """Names of the lines: of the trainings, or of their rounds if there are more trainings than colours."""
    if len(trainings) <= len(LINE_COLOURS) or any(training.rounds is None for training in trainings):
        return [training.name for training in trainings]
    return [f"T = {training.rounds}" for training in trainings]


def by_rounds(trainings: list[Training]) -> Any:
    """The figure of the best validation by rounds; None if no two trainings differ in their rounds alone. Only settings
    that all records name count: earlier records had fewer, and some had other names."""
    from matplotlib.figure import Figure

    known = [(training, training.settings) for training in trainings if training.settings is not None]
    named = set.intersection(*(set(settings) for _, settings in known)) if known else set()
    alike: dict[str, dict[int, list[float]]] = {}
    for training, settings in known:
        if training.rounds is not None:
            same = json.dumps({name: settings[name] for name in sorted(named)})
            alike.setdefault(same, {}).setdefault(training.rounds, []).append(training.best)
    found = max(alike.values(), key=len, default={})
    if len(found) < 2:
        return None
    means = [(rounds, sum(found[rounds]) / len(found[rounds])) for rounds in sorted(found)]
    figure: Any = Figure(figsize=(5.6, 4.2), layout="constrained")
    figure.get_layout_engine().set(rect=(0, 0, 0.985, 1 - 0.62 / 4.2))
    axes = figure.subplots()
    places = range(len(means))  # evenly spaced, as rounds double
    for place, (rounds, _) in enumerate(means):
        values = found[rounds]
        axes.plot(
            [place] * len(values), values, color=QUIET, marker=MARKERS[0], markersize=3.5, linestyle="none", zorder=3
        )
    axes.plot(places, [mean for _, mean in means], color=LINE_COLOURS[0], marker=MARKERS[0], linewidth=1.6)
    axes.axhline(0, color=QUIET, linewidth=0.8)
    axes.set_xticks(places, [f"{rounds}\n{mean:+.1f}" for rounds, mean in means])
    axes.set_xlabel("rounds of message passing, T, and the mean")
    axes.set_ylabel("% improvement over BRKGA 5K")
    headline(figure, "Improvement by rounds of message passing", "best validation of each training, and their mean")
    return figure


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("runs", type=Path, nargs="+")
    return options


def main() -> None:
    arguments = parser().parse_args()
    out, trainings = arguments.out, [read(folder) for folder in arguments.runs]
    out.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Callable[[], Any]] = {
        "reward": lambda: by_step(trainings, "reward", "Reward by step", "-objective / uniform BRKGA's"),
        "entropy": lambda: by_step(trainings, "entropy", "Entropy of an op's actions by step", "nats"),
        "validation": lambda: by_step(trainings, "improvement", "Gain at validations", "% over BRKGA 5K", 1),
        "rounds": lambda: by_rounds(trainings),
    }
    with style():
        for name, draw in figures.items():
            if (figure := draw()) is None:
                continue
            for suffix, data in as_files(figure).items():
                write_atomically(out / f"training-{name}.{suffix}", data)


if __name__ == "__main__":
    main()
