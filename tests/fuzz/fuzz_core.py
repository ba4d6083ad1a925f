"""Breaks what the core is given, under the sanitizers: python tests/fuzz/fuzz_core.py MODULE SECONDS

MODULE: the core built with the address sanitizer, whose library must be loaded beforehand (LD_PRELOAD). Problems are
drawn from one seed after the other; the last line names how many, and how many calls were answered and refused.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections import Counter
from pathlib import Path


def load_core(path: str) -> None:
    """Makes the module in that file the core of the package, before anything asks for it."""
    spec = importlib.util.spec_from_file_location("placewright._core", path)
    assert spec is not None
    assert spec.loader is not None
    core = importlib.util.module_from_spec(spec)
    sys.modules["placewright._core"] = core
    spec.loader.exec_module(core)


def main(module: str, seconds: float) -> None:
    load_core(module)
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import core_arrays

    assert core_arrays._core.__file__ == module
    seen: Counter[str] = Counter()
    until, number = time.monotonic() + seconds, 0
    while number == 0 or time.monotonic() < until:
        seen += core_arrays.run(number, examples=10)
        number += 1
    refused = sum(count for what, count in seen.items() if what.endswith(" refused"))
    print(f"{number} seeds, {sum(seen.values()) - refused} answers, {refused} refusals")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
