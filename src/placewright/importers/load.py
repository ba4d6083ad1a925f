"""Chooses the importer for a graph file by its name and content."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from placewright.graph import Graph
from placewright.importers.json_graph import GZIP_MAGIC, parse_json_graph, unpack
from placewright.importers.msr_layer import is_layer_graph, parse_msr_layer
from placewright.support.errors import InputError, shown
from placewright.support.files import read_bytes

_KNOWN_SUFFIXES = ".onnx, .json, .json.gz, .pbtxt, .pb, .costgraph, .stg"
#: Files of PyTorch by suffix. Loading one runs what it holds: torch.export.load unpickles weights, constants and
#: inputs, loads compiled code, evaluates sizes as Python and calls any function of torch that the file names.
_WEIGHTS = "holds weights and no graph; plan the module they belong to: placewright.plan(module, devices, args=...)"
_PYTORCH_FILES = {
    ".pt2": "is a program that PyTorch can only load by running code from the file; if you trust it, load it yourself: "
    "placewright.plan(torch.export.load(path), devices)",
    **dict.fromkeys((".pt", ".pth", ".ckpt", ".safetensors"), _WEIGHTS),
}


def load_file(location: Path, *, dims: Mapping[str, int] | None = None) -> Graph:
    """The graph in a file: .onnx, .json, .json.gz, .pbtxt, .pb, .costgraph or .stg; another name is judged by its
    content. dims: as `load_graph` takes them.

    Raises InputError naming the file and what is wrong with it; MissingExtraError when ONNX is not installed.
    """
    if (suffix := location.suffix.lower()) in _PYTORCH_FILES:
        raise InputError(f"'{location}' {_PYTORCH_FILES[suffix]}")
    data = read_bytes(location)
    if not data:
        raise InputError(f"'{location}' is empty")
    file_format = _format_of(location, data)
    if dims and file_format != "onnx":
        raise InputError(
            f"'{location}' is no ONNX model, so it has no open dimension '{shown(next(iter(dims)))}' to set"
        )
    # A name that is not UTF-8 holds halves of surrogate pairs, which no graph or plan file could hold.
    name = location.name.encode(errors="backslashreplace").decode()
    try:
        return _parse(file_format, data, name, dims or {})
    except InputError as error:
        if str(error).startswith((f"'{name}'", f"graph '{shown(name)}'")):
            raise
        raise InputError(f"'{shown(location)}': {error}") from error


def _format_of(location: Path, data: bytes) -> str:
    """Name of the format: by suffix where it decides, by content otherwise."""
    by_suffix = {".onnx": "onnx", ".stg": "stg", ".pbtxt": "costgraph", ".pb": "costgraph", ".costgraph": "costgraph"}
    if location.suffix.lower() in by_suffix:
        return by_suffix[location.suffix.lower()]
    if location.suffix.lower() in (".json", ".gz") or data.startswith(GZIP_MAGIC) or data.lstrip()[:1] == b"{":
        return "json"
    if re.match(rb"(\s|#.*\n)*node\s*:?\s*[{<]", data):
        return "costgraph"
    raise InputError(f"'{location}' has a format placewright does not know (known: {_KNOWN_SUFFIXES})")


def _parse(file_format: str, data: bytes, name: str, dims: Mapping[str, int]) -> Graph:
    if file_format == "onnx":
        from placewright.importers.onnx_model import parse_onnx

        return parse_onnx(data, name, dims=dims)
    if file_format == "costgraph":
        from placewright.importers.costgraph import parse_costgraph

        return parse_costgraph(data, name)
    if file_format == "stg":
        from placewright.importers.stg import parse_stg

        return parse_stg(data, name)
    if is_layer_graph(text := unpack(data, name)):
        return parse_msr_layer(text, name)
    return parse_json_graph(text, name)
