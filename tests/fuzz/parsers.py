"""The parsers under test and small valid files to start from, for property tests and the coverage-guided fuzzer."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from placewright.graph import Graph
from placewright.importers.costgraph import parse_costgraph
from placewright.importers.hlo.program import parse_hlo
from placewright.importers.json_graph import parse_json_graph
from placewright.importers.onnx.model import parse_onnx
from placewright.importers.stablehlo.program import parse_stablehlo
from placewright.importers.stg import parse_stg
from placewright.support.errors import InputError

JSON_SEED = {
    "schema_version": 1,
    "name": "g",
    "metadata": {"framework": "none", "x": [1.5, None]},
    "tensors": [
        {"name": "t", "size_bytes": 8, "shape": [2], "dtype": "float32"},
        {"name": "v", "size_bytes": 8, "alias_of": "t", "is_output": True},
        {"name": "w", "size_bytes": 4, "role": "parameter"},
    ],
    "ops": [
        {"name": "a", "kind": "fill", "outputs": ["t"], "time_ns": 3, "module": "m"},
        {"name": "b", "kind": "view", "inputs": ["t", "w"], "outputs": ["v"], "controls": ["a"]},
        {"name": "c", "kind": "matmul", "inputs": ["v"], "attributes": {"m": 2}, "workspace_bytes": 5},
    ],
}
COSTGRAPH_TEXT = b"""# a comment
node { name: "a/x" device: "/GPU:0" output_info { size: 70 alias_input_port: -1 dtype: DT_FLOAT
  shape { dim { size: 2 } unknown_rank: false } } compute_cost: 58 temporary_memory_size: 3 }
node { name: 'b' "\\142" id: 3 input_info { preceding_node: 0 preceding_port: 0 } output_info < size: 0x37 >
  control_input: [0] is_final: true persistent_memory_size: 9 }
cost { cost: 1.5 dimension: "memory" }
"""
#: The same graph as the protobuf package writes it.
COSTGRAPH_BINARY = bytes.fromhex(
    "0a280a03612f7812062f4750553a302a15084610ffffffffffffffffff011a041202080220013003483a0a130a026262180322002a02083738"
    "014201006009120d0d0000c03f12066d656d6f7279"
)
STG = b"2\n 0 0 0\n 1 5 1 0\n 2 7 2 0 1\n 3 0 2 1 2\n# the end\n"
ONNX_MODELS = (
    """<ir_version: 8, opset_import: ["": 17, "own": 1]>
    g (float[2, 3] x, bool c) => (float[n] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}> {
      ["/a/b/MatMul"] h = MatMul (x, w)  s = Shape (h)  minus = Constant <value_ints = [-1]> ()
      f = Reshape (h, minus)  z = own.f (f)  d, m = Dropout (z)
      y = If (c) <then_branch = t () => (float[4] a) { a = Add (d, d) },
          else_branch = e () => (float[4] b) { b = Neg (f) }> }
    <domain: "own", opset_import: ["": 17]> f (a) => (b) { b = Relu (a) }""",
    """<ir_version: 3, opset_import: ["": 9]>
    g (float[1, 3, 8, 8] x) => (float[1, 4] y) <float[4, 3, 3, 3] w, float[4] b> {
      shape = Constant <value = int64[4] {4, 3, 3, 3}> ()  w = ConstantOfShape (shape)
      a = Conv <auto_pad = "SAME_UPPER", strides = [2, 2], kernel_shape = [3, 3]> (x, w)
      p, i = MaxPool <kernel_shape = [2, 2]> (a)  q = GlobalAveragePool (p)  r = Flatten (q)
      y = Softmax <axis = -1> (r) }""",
)


def _parse_onnx(data: bytes, name: str) -> Graph:
    return parse_onnx(data, name, dims=None)


PARSERS: dict[str, Callable[[bytes, str], Graph]] = {
    "json": parse_json_graph,
    "costgraph": parse_costgraph,
    "stg": parse_stg,
    "hlo": parse_hlo,
    "stablehlo": parse_stablehlo,
    "onnx": _parse_onnx,
}


#: Formats whose seeds are files, by their suffix.
SEEDS = Path(__file__).parent / "seeds"
SUFFIXES = {"hlo": ".hlo", "stablehlo": ".mlir"}


def seeds(file_format: str) -> list[bytes]:
    """Return valid files of the format, as small as still shows what it can hold."""
    if file_format == "json":
        text = json.dumps(JSON_SEED).encode()
        return [text, gzip.compress(text, mtime=0)]
    if file_format == "costgraph":
        return [COSTGRAPH_TEXT, COSTGRAPH_BINARY]
    if file_format == "onnx":
        return [_model(text).SerializeToString() for text in ONNX_MODELS]
    if file_format in SUFFIXES:
        return [path.read_bytes() for path in sorted(SEEDS.glob(f"*{SUFFIXES[file_format]}"))]
    return [STG]


def _model(text: str) -> Any:
    import onnx

    return onnx.parser.parse_model(text)


def parse(file_format: str, data: bytes) -> Graph | None:
    """Return the graph, or None for bad input; anything else that happens is a defect."""
    try:
        return PARSERS[file_format](data, "file")
    except InputError:
        return None
