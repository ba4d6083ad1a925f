"""A Perfetto trace of a plan and of its run."""

from __future__ import annotations

import gzip
from pathlib import Path

from placewright.execution.run_rows import AnyRun
from placewright.export import perfetto
from placewright.plans.record import Plan
from placewright.support.files import write_atomically


def write_run_trace(plan: Plan, path: str | Path, run: AnyRun) -> None:
    """Writes a trace of a plan and of what was measured when it ran, compressed when its name ends in .gz.

    run: what `compare` of a compiled module or ONNX model found of this plan. Raises InputError when the file cannot be
    written.
    """
    data = perfetto.to_bytes(plan, run=run)
    write_atomically(path, gzip.compress(data, compresslevel=6, mtime=0) if str(path).endswith(".gz") else data)
