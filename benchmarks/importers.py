"""Seconds that each importer takes for a network of any size, and how they grow with it.

python benchmarks/importers.py 50000 prints one line per format: ops of the graph, processor seconds, what another
library spends of them on tracing, and growth: the seconds over four times those of a quarter of the size, so
that 1.0 is linear.
`--formats torch` traces with PyTorch, which takes minutes at that size.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from placewright.graph import Graph
from placewright.importers.costgraph import parse_costgraph
from placewright.importers.hlo.program import parse_hlo
from placewright.importers.json_graph import parse_json_graph, serialize_graph
from placewright.importers.stablehlo.program import parse_stablehlo
from placewright.importers.stg import parse_stg

#: A job: the graph, and the seconds of it that are another library's.
Job = Callable[[], tuple[Graph, float]]
WIDTH = 64


def _timed(parse: Callable[[bytes, str], Graph], data: bytes) -> Job:
    return lambda: (parse(data, "network"), 0.0)


def hlo(num_ops: int) -> Job:
    """A scheduled module of products, fusions and tuples, as long-winded as XLA prints it."""
    kind = f"f32[{WIDTH},{WIDTH}]{{1,0}}"
    lines = [
        "HloModule network, is_scheduled=true",
        f"%body (p: {kind}, q: {kind}) -> {kind} {{",
        f"  %p = {kind} parameter(0)",
        f"  %q = {kind} parameter(1)",
        f"  ROOT %sum = {kind} add(%p, %q)",
        "}",
        f"ENTRY %main (w: {kind}, x0: {kind}) -> {kind} {{",
        f"  %w = {kind} parameter(0)",
        f"  %x0 = {kind} parameter(1)",
    ]
    for number in range(1, num_ops // 2 + 1):
        scope = (
            f'metadata={{op_name="jit(step)/jvp(Net)/layer_{number}/dot_general" source_file="net.py" source_line=7}}'
        )
        axes = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
        lines.append(f"  %d{number} = {kind} dot(%x{number - 1}, %w), {axes}, {scope}")
        called = f"kind=kLoop, calls=%body, {scope}"
        lines.append(f"  %x{number} = {kind} fusion(%d{number}, %x{number - 1}), {called}")
    lines += [f"  ROOT %out = {kind} copy(%x{num_ops // 2})", "}"]
    return _timed(parse_hlo, "\n".join(lines).encode())


def stablehlo(num_ops: int) -> Job:
    """A function of products, sums and calls, with locations."""
    kind = f"tensor<{WIDTH}x{WIDTH}xf32>"
    lines = ["module @network {", f"  func.func public @main(%w: {kind}, %x0: {kind}) -> ({kind}) {{"]
    for number in range(1, num_ops // 2 + 1):
        axes = "contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT]"
        before, signature = f"%x{number - 1}", f"({kind}, {kind}) -> {kind} loc(#loc{number})"
        lines.append(f"    %d{number} = stablehlo.dot_general {before}, %w, {axes} : {signature}")
        lines.append(f"    %x{number} = func.call @f(%d{number}, {before}) : {signature}")
    lines += [f"    return %x{num_ops // 2} : {kind}", "  }"]
    lines.append(f"  func.func private @f(%p: {kind}, %q: {kind}) -> {kind} {{")
    lines += [f"    %0 = stablehlo.add %p, %q : {kind}", f"    return %0 : {kind}", "  }", "}"]
    lines += [f'#loc{number} = loc("jit(f)/layer_{number}/dot"("net.py":7:8))' for number in range(1, num_ops // 2 + 1)]
    return _timed(parse_stablehlo, "\n".join(lines).encode())


def costgraph(num_ops: int) -> Job:
    """Nodes that each read the two before them, as text."""
    nodes = []
    for number in range(num_ops):
        inputs = "".join(f" input_info {{ preceding_node: {number - back} }}" for back in (1, 2) if number >= back)
        output = "output_info { size: 4096 alias_input_port: -1 shape { dim { size: 1024 } } dtype: DT_FLOAT }"
        nodes.append(f'node {{ name: "a/b/op{number}" id: {number}{inputs} {output} compute_cost: 5 }}')
    return _timed(parse_costgraph, "\n".join(nodes).encode())


def stg(num_ops: int) -> Job:
    """Tasks that each follow the two before them."""
    rows = [str(num_ops), "0 0 0"]
    for number in range(1, num_ops + 2):
        before = [number - back for back in (1, 2) if number >= back]
        rows.append(" ".join(map(str, [number, 5, len(before), *before])))
    return _timed(parse_stg, "\n".join(rows).encode())


def json(num_ops: int) -> Job:
    """The graph of the HLO module, as Graph JSON."""
    return _timed(parse_json_graph, serialize_graph(hlo(num_ops)()[0]))


def onnx(num_ops: int) -> Job:
    """Products and sums, written by onnx."""
    from onnx import TensorProto, helper

    from placewright.importers.onnx.model import parse_onnx

    nodes = []
    for number in range(1, num_ops // 2 + 1):
        nodes.append(helper.make_node("MatMul", [f"x{number - 1}", "w"], [f"d{number}"], name=f"/net/{number}/MatMul"))
        nodes.append(
            helper.make_node("Add", [f"d{number}", f"x{number - 1}"], [f"x{number}"], name=f"/net/{number}/Add")
        )
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [WIDTH, WIDTH]) for name in ("x0", "w")]
    result = helper.make_tensor_value_info(f"x{num_ops // 2}", TensorProto.FLOAT, [WIDTH, WIDTH])
    model = helper.make_model(helper.make_graph(nodes, "g", values, [result]))
    data = model.SerializeToString()
    return lambda: (parse_onnx(data, "network", dims=None), 0.0)


def jax(num_ops: int) -> Job:
    """A function of products and sums; tracing is JAX's."""
    import jax as library

    from placewright.importers.jax.function import from_jax

    def function(w: Any, x: Any) -> Any:
        for _ in range(num_ops // 2):
            x = x @ w + x
        return x

    array = library.ShapeDtypeStruct((WIDTH, WIDTH), "float32")

    def job() -> tuple[Graph, float]:
        began = time.process_time()
        library.make_jaxpr(function)(array, array)
        tracing = time.process_time() - began
        library.clear_caches()
        return from_jax(function, (array, array)), tracing

    return job


def torch(num_ops: int) -> Job:
    """A module of products and sums; tracing is PyTorch's."""
    import torch as library

    from placewright.importers.torch.module import from_torch

    class Network(library.nn.Module):
        def forward(self, x: Any, w: Any) -> Any:
            for _ in range(num_ops // 2):
                x = x @ w + x
            return x

    inputs = (library.zeros(WIDTH, WIDTH), library.zeros(WIDTH, WIDTH))
    return lambda: (from_torch(Network(), inputs), 0.0)


FORMATS: dict[str, Callable[[int], Job]] = {
    "json": json,
    "costgraph": costgraph,
    "stg": stg,
    "onnx": onnx,
    "hlo": hlo,
    "stablehlo": stablehlo,
    "jax": jax,
    "torch": torch,
}


def seconds(job: Job, rounds: int) -> tuple[Graph, float, float]:
    """The graph, the least processor seconds of some rounds, and those that are another library's."""
    best = None
    for _ in range(rounds):
        began = time.process_time()
        graph, others = job()
        taken = time.process_time() - began
        # What JAX traces is traced twice, once to be timed.
        taken -= others
        if best is None or taken < best[1]:
            best = graph, taken, others
    assert best is not None
    return best


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("num_ops", type=int)
    options.add_argument("--formats", default="json,costgraph,stg,onnx,hlo,stablehlo,jax")
    options.add_argument("--rounds", type=int, default=2)
    return options


def main() -> None:
    arguments = parser().parse_args()
    for name in arguments.formats.split(","):
        _, quarter, _ = seconds(FORMATS[name](arguments.num_ops // 4), arguments.rounds)
        graph, whole, others = seconds(FORMATS[name](arguments.num_ops), arguments.rounds)
        tracing = f"tracing {others:6.2f} s" if others else ""
        growth = whole / max(1e-9, 4 * quarter)
        print(f"{name:10} {len(graph.ops):8,} ops {whole:8.2f} s  growth {growth:5.2f}  {tracing}", flush=True)


if __name__ == "__main__":
    main()
