"""Runs the benchmarks and writes their figures as a table.

    python benchmarks/report.py build/bench/core_speed benchmarks/results/core_speed.md [--against FOLDER]

The folder holds an earlier commit's package (`make bench` puts it there), against which the current one is timed.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from placewright.support.files import write_atomically

HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured number; target is "", ">= x" or "<= x" in the unit of the value."""

    case: str
    what: str
    value: float
    unit: str
    target: str

    @property
    def verdict(self) -> str:
        if not self.target:
            return ""
        relation, bound = self.target.split()
        return "yes" if (self.value >= float(bound) if relation == ">=" else self.value <= float(bound)) else "no"

    @property
    def row(self) -> str:
        return f"| {self.case} | {self.what} | {self.value:g} {self.unit} | {self.target} | {self.verdict} |"


def figures(command: list[str]) -> list[Figure]:
    """The figures that a benchmark prints, echoed on stderr while it runs. Raises SystemExit if it fails."""
    found = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for printed in process.stdout:
            print(printed.rstrip(), file=sys.stderr)
            case, what, value, unit, target = (field.strip() for field in printed.split(";"))
            found.append(Figure(case=case, what=what, value=float(value), unit=unit, target=target))
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} failed")
    return found


def processor() -> str:
    """Model of the processor, as Linux names it."""
    cpuinfo = Path("/proc/cpuinfo")
    names = [row.split(":")[1].strip() for row in cpuinfo.read_text().splitlines() if row.startswith("model name")]
    return names[0] if names else platform.processor()


def commit() -> str:
    """The commit measured, and whether anything was changed since."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty=, with changes"], cwd=HERE, capture_output=True, text=True, check=False
    )
    return described.stdout.strip() or "unknown"


def document(measured: list[Figure], load: tuple[float, float, float]) -> str:
    head = f"""# Speed and memory

- date: {datetime.datetime.now(tz=datetime.UTC).date()}
- commit: {commit()}
- machine: {os.cpu_count()} cores, {processor()}; Linux, Python {platform.python_version()}
- load average of the minute before and after: {load[0]:.1f}, {os.getloadavg()[0]:.1f}
- command: `make bench`

Least time of several rounds in which the measurements take turns; benchmarks/README.md says how.

| case | figure | measured | target | reached |
|---|---|---|---|---|
"""
    return head + "\n".join(figure.row for figure in measured) + "\n"


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("core_speed", help="the program that cpp/benchmarks builds")
    options.add_argument("result", type=Path)
    options.add_argument("--against", type=Path, help="the folder of an earlier commit's package")
    options.add_argument("--quick", action="store_true", help="one round of everything, on the smallest sizes")
    return options


def main() -> None:
    arguments = parser().parse_args()
    load = os.getloadavg()
    measured = figures([arguments.core_speed, *(["150", "1"] if arguments.quick else [])])
    quick = ["--rounds", "1", "--ops", "150"] if arguments.quick else []
    measured += figures([sys.executable, str(HERE / "process.py"), *quick])
    if arguments.against:
        measured += figures([sys.executable, str(HERE / "against.py"), str(arguments.against), *quick])
    write_atomically(arguments.result, document(measured, load).encode())
    print(f"wrote {arguments.result}")


if __name__ == "__main__":
    main()
