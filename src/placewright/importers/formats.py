"""The graph files that can be read, one record per format; a new importer adds a record."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path

from placewright.graph import Graph
from placewright.importers.json_graph import GZIP_MAGIC, parse_json_graph, unpack


@dataclass(frozen=True)
class Contents:
    """The contents of a file, and the sizes of its open dimensions.

    name: of the file, as errors call it. dims_are_shared: they are for several files, so that this one need not have
    all of them.
    """

    data: bytes
    name: str
    dims: Mapping[str, int] = field(default_factory=dict)
    dims_are_shared: bool = False

    @cached_property
    def text(self) -> bytes:
        """The data, unpacked where it is compressed. Raises InputError for data that cannot be unpacked."""
        return unpack(self.data, self.name)

    @property
    def may_be_json(self) -> bool:
        return self.data.startswith(GZIP_MAGIC) or self.data.lstrip()[:1] == b"{"


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format: how its files are recognised and read.

    title: its name. suffixes: of its files, in lower case. recognised: whether contents are of this format, asked where
    no suffix decides. parse: from contents to the graph. has_dims: whether there can be open dimensions.
    """

    title: str
    suffixes: tuple[str, ...]
    recognised: Callable[[Contents], bool]
    parse: Callable[[Contents], Graph]
    has_dims: bool = False


def _parsed_by(module: str, function: str) -> Callable[[Contents], Graph]:
    """A parser whose module is imported when the first file of its format is read."""

    def parse(contents: Contents) -> Graph:
        graph: Graph = getattr(import_module(f"placewright.importers.{module}"), function)(contents.data, contents.name)
        return graph

    return parse


def _parse_onnx(contents: Contents) -> Graph:
    from placewright.importers.onnx.model import parse_onnx

    return parse_onnx(contents.data, contents.name, dims=contents.dims, dims_are_shared=contents.dims_are_shared)


#: Among formats that share a suffix, the first that recognises the contents is taken, or else the last.
FORMATS = (
    Format(title="ONNX", suffixes=(".onnx",), recognised=lambda contents: False, parse=_parse_onnx, has_dims=True),
    Format(
        title="HLO text",
        suffixes=(".hlo",),
        recognised=lambda contents: re.match(rb"(\s|//.*\n)*HloModule\s", contents.data) is not None,
        parse=_parsed_by("hlo.program", "parse_hlo"),
    ),
    Format(
        title="StableHLO text",
        suffixes=(".mlir",),
        recognised=lambda contents: contents.data.startswith(b"ML\xefR") or b"stablehlo." in contents.data[:1_000_000],
        parse=_parsed_by("stablehlo.program", "parse_stablehlo"),
    ),
    Format(
        title="Graph JSON",
        suffixes=(".json", ".json.gz"),
        recognised=lambda contents: contents.may_be_json,
        parse=lambda contents: parse_json_graph(contents.text, contents.name),
    ),
    Format(
        title="CostGraphDef",
        suffixes=(".pbtxt", ".pb", ".costgraph"),
        recognised=lambda contents: re.match(rb"(\s|#.*\n)*node\s*:?\s*[{<]", contents.data) is not None,
        parse=_parsed_by("costgraph", "parse_costgraph"),
    ),
    Format(
        title="Standard Task Graph",
        suffixes=(".stg",),
        recognised=lambda contents: False,
        parse=_parsed_by("stg", "parse_stg"),
    ),
)


def known_suffixes() -> str:
    """All suffixes, as sentences list them."""
    return ", ".join(dict.fromkeys(suffix for each in FORMATS for suffix in each.suffixes))


def format_of(location: Path, contents: Contents) -> Format | None:
    """The format of a file, by suffix where one decides, by content otherwise; None where neither does."""
    name = location.name.lower()
    by_suffix = [each for each in FORMATS if name.endswith(each.suffixes)]
    found = next((each for each in by_suffix or FORMATS if each.recognised(contents)), None)
    return found or (by_suffix[-1] if by_suffix else None)
