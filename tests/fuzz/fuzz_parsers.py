"""Coverage-guided fuzzing of one parser: python tests/fuzz/fuzz_parsers.py FORMAT SECONDS [FOLDER]

FORMAT: json, costgraph, stg, onnx, hlo or stablehlo. FOLDER keeps what was found to reach new code; a temporary one is
used without.
Stops at the first input that gives anything but a graph or bad input, and writes it to the current folder.
"""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
from pathlib import Path

import atheris
import parsers


def instrument() -> None:
    """Makes the importers tell the fuzzer which of their branches ran; atheris' own import hook misses an editable
    install."""
    modules = [module for name, module in sys.modules.items() if name.startswith("placewright.importers")]
    for module in modules:
        own = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
        classes = [value for value in own if inspect.isclass(value)]
        members = [member for value in classes for member in vars(value).values()]
        for function in filter(inspect.isfunction, [*own, *members]):
            atheris.instrument_func(function)


def main(file_format: str, seconds: int, folder: str) -> None:
    instrument()
    for number, seed in enumerate(parsers.seeds(file_format)):
        (Path(folder) / f"seed_{number}").write_bytes(seed)

    def one_input(data: bytes) -> None:
        parsers.parse(file_format, data)

    atheris.Setup([sys.argv[0], folder, f"-max_total_time={seconds}", "-max_len=4096", "-timeout=20"], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in parsers.PARSERS:
        sys.exit(__doc__)
    kept = sys.argv[3] if len(sys.argv) == 4 else tempfile.mkdtemp(prefix="fuzz_")
    os.makedirs(kept, exist_ok=True)
    main(sys.argv[1], int(sys.argv[2]), kept)
