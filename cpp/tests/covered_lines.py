"""Lines of the core that its tests ran, by file, as gcc counted: `python cpp/tests/covered_lines.py build/coverage`."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections import defaultdict
from pathlib import Path

CORE = Path(__file__).parents[1] / "core"


def lines_of(notes: list[Path], folder: Path) -> dict[Path, dict[int, bool]]:
    """By file of the core, by line that holds code, whether it ran in any translation unit."""
    command = ["gcov", "--json-format", "--stdout", *map(str, notes)]
    printed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    ran: dict[Path, dict[int, bool]] = defaultdict(lambda: defaultdict(bool))
    for unit in map(json.loads, printed.splitlines()):
        for file in unit["files"]:
            path = Path(unit["current_working_directory"], file["file"]).resolve()
            if CORE.resolve() in path.parents:
                for line in file["lines"]:
                    ran[path][line["line_number"]] |= line["count"] > 0
    return ran


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path, help="a folder in which tests compiled with --coverage ran")
    folder = parser.parse_args().build.resolve()
    notes = sorted(folder.rglob("*.gcda"))
    if not notes:
        raise SystemExit(f"'{folder}' holds no *.gcda: no test compiled with --coverage ran there")
    ran = lines_of(notes, folder)
    for path, lines in sorted(ran.items()):
        missed = [number for number, did in sorted(lines.items()) if not did]
        if missed:
            share = 1 - len(missed) / len(lines)
            print(f"{path.relative_to(CORE.resolve())!s:40} {share:7.1%}  not run: {', '.join(map(str, missed[:12]))}")
    total = sum(map(len, ran.values()))
    print(f"core: {sum(sum(lines.values()) for lines in ran.values()) / total:.1%} of {total:,} lines ran")


if __name__ == "__main__":
    main()
