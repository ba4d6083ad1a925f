"""Plans of real ONNX models, run by ONNX Runtime: `python benchmarks/run_onnx.py [NAME ...]`.

Takes the models without weights that the onnx package carries (backend/test/data/light), gives them seeded random
weights, and prints two tables in Markdown. Memory: one device, planned for the least peak; the most that ops make and
need at once, without weights and inputs, by ONNX Runtime's own count. Time: two devices, planned for the least step
time; medians of steps taken in turn. "as planned" says whether ONNX Runtime's profile shows every op of every session
on its device and in the plan's order; "same" whether outputs are bit by bit those without a plan.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

import placewright
from placewright.execution.comparison import OnnxComparison

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def light_models() -> list[str]:
    return sorted(path.stem.removeprefix("light_") for path in LIGHT.glob("*.onnx"))


def with_random_weights(name: str, folder: Path) -> Path:
    """The light model, its weights random instead of all alike: what a ConstantOfShape fills from a stored shape."""
    model = onnx.load(LIGHT / f"light_{name}.onnx")
    shapes = {weight.name: numpy_helper.to_array(weight) for weight in model.graph.initializer}
    generator = np.random.default_rng(0)
    kept = []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape" or node.input[0] not in shapes:
            kept.append(node)
            continue
        weight = random_weight(node, shapes[node.input[0]], generator)
        model.graph.initializer.append(numpy_helper.from_array(weight, node.output[0]))
    del model.graph.node[:]
    model.graph.node.extend(kept)
    model.ir_version = max(4, model.ir_version)
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    return path


def random_weight(node: onnx.NodeProto, shape: np.ndarray, generator: np.random.Generator) -> Any:
    """Of a size that keeps activations in bounds; positive where it may be a variance."""
    fill = numpy_helper.to_array(node.attribute[0].t)
    if fill.dtype != np.float32:
        return np.full(shape, fill[0], fill.dtype)
    if len(shape) < 2:
        return generator.uniform(0.5, 1.5, shape).astype(np.float32)
    return (generator.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def measured(path: Path, devices: str, objective: str, steps: int) -> OnnxComparison:
    with placewright.compile_onnx(path, devices=devices, objective=objective) as compiled:
        return compiled.compare(steps=steps).facts


def memory_row(name: str, found: OnnxComparison) -> str:
    peaks = (
        found.usual_peak_bytes,
        found.usual_order_peak_bytes,
        found.one_device_measured_peak_bytes,
        found.measured_peak_bytes,
        found.planned_peak_bytes,
    )
    cells = " | ".join("?" if peak is None else f"{peak / 1e6:.2f}" for peak in peaks)
    return f"| {name} | {yes(found.ran_as_planned)} | {yes(found.same_outputs)} | {cells} |"


def time_row(name: str, found: OnnxComparison) -> str:
    times = (found.usual_one_device_ns, found.usual_ns, found.one_device_measured_ns, found.measured_ns)
    cells = " | ".join(f"{time_ns / 1e6:.1f}" for time_ns in (*times, found.planned_ns))
    return (
        f"| {name} | {yes(found.ran_as_planned)} | {yes(found.same_outputs)} | {found.num_parts} | {cells} | "
        f"{found.measured_speedup:.2f} | {found.planned_speedup:.2f} |"
    )


def yes(fact: bool) -> str:
    return "yes" if fact else "no"


MEMORY_HEAD = (
    "Peak memory on one device, MB",
    "",
    "| model | as planned | same | default | default order, as needed | file's order | plan | planned |",
    "|---|---|---|---|---|---|---|---|",
)
TIME_HEAD = (
    "",
    "Step time on two devices, ms",
    "",
    "| model | as planned | same | sessions | default, one core | default, all cores | one device | plan | planned | "
    "speed-up | planned |",
    "|---|---|---|---|---|---|---|---|---|---|---|",
)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="*", metavar="NAME", help=f"by default all: {', '.join(light_models())}")
    options.add_argument("--steps", type=int, default=15, help="of each sort to measure (default: 15)")
    return options


def main() -> None:
    options = parser().parse_args()
    names = options.names or light_models()
    times = []
    print(*MEMORY_HEAD, sep="\n")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            path = with_random_weights(name, Path(folder))
            print(memory_row(name, measured(path, "cpu:0", "peak-memory", 1)), flush=True)
            times.append(time_row(name, measured(path, "cpu:0,cpu:1", "step-time", options.steps)))
    print(*TIME_HEAD, *times, sep="\n")


if __name__ == "__main__":
    main()
