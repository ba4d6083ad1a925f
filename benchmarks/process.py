"""Whole processes, from start to exit: imports, planning an example, the memory of a search.

python benchmarks/process.py prints one line per figure, "case; what; value; unit; target", as core_speed does.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BERT_PLAN = ["plan", "example:bert-base-train", "--devices", "2xp100"]
HERE = Path(__file__).parent


def seconds(command: list[str]) -> float:
    """Wall-clock time of one process."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began


def least_seconds(commands: dict[str, list[str]], num_rounds: int) -> dict[str, float]:
    """Least time per command, over rounds in which they take turns; a first round warms the disk's cache."""
    rounds = [{name: seconds(command) for name, command in commands.items()} for _ in range(num_rounds + 1)]
    return {name: min(taken[name] for taken in rounds[1:]) for name in commands}


def peak_megabytes(command: list[str]) -> float:
    """Most resident memory of one process, in 10**6 bytes."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise RuntimeError(f"{command} failed")
    return usage.ru_maxrss * 1024 / 1e6


def line(case: str, what: str, value: float, unit: str, target: str = "") -> None:
    print(f"{case}; {what}; {value:.3g}; {unit}; {target}", flush=True)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--ops", type=int, default=20_000, help="of the graph whose search has its memory measured")
    return options


def main() -> None:
    arguments = parser().parse_args()
    with tempfile.TemporaryDirectory() as folder:
        output = ["-o", str(Path(folder) / "plan.json")]
        least = least_seconds(
            {
                "numpy": [sys.executable, "-c", "import numpy"],
                "placewright": [sys.executable, "-c", "import placewright"],
                "plan": [sys.executable, "-m", "placewright", *BERT_PLAN, *output],
            },
            arguments.rounds,
        )
    line("process", "import numpy", least["numpy"], "s")
    line("process", "import placewright, beyond numpy's", least["placewright"] - least["numpy"], "s", "<= 0.1")
    line("process", f"placewright {' '.join(BERT_PLAN)}", least["plan"], "s")
    line("process", "the same against import numpy", least["plan"] / least["numpy"], "times")
    search = [sys.executable, str(HERE / "large_search.py"), "--ops", str(arguments.ops)]
    line(
        f"{arguments.ops} ops", "BRKGA from Python, peak memory of the process", peak_megabytes(search), "MB", "<= 300"
    )


if __name__ == "__main__":
    main()
