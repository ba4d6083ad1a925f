"""Sets of graphs in one file or one folder, for benchmarks and for training policies.

The file is gzipped text: a header, then one graph per line in the JSON of a graph file (docs/formats.md).
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from placewright.graph import Graph
from placewright.importers.json_graph import GZIP_MAGIC, parse_json_graph, serialize_graph, unpack
from placewright.importers.load import load_file
from placewright.support.errors import InputError, other_version, shown
from placewright.support.files import read_bytes, write_atomically
from placewright.support.quantities import counted

SCHEMA_VERSION = 1
SUFFIX = ".graphs.gz"
#: The longest possible header, in bytes.
_MAX_HEADER = 2**20


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class GraphSet:
    """A set of graphs that are parsed when they are requested.

    name: of the file or folder. digest: of the content. metadata: where the graphs came from. labels: a name per graph,
    without repeats. files: for a folder, the file of each graph; for a set file, none.
    """

    name: str
    digest: str
    metadata: Mapping[str, Any]
    labels: tuple[str, ...]
    load: Callable[[int], Graph]
    files: tuple[Path, ...] = ()

    def __repr__(self) -> str:
        return f"GraphSet({self.name!r}: {counted(len(self.labels), 'graph')})"

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Graph:
        """The graph at that index. Raises InputError naming file and line when it is none, IndexError past the end."""
        return self.load(range(len(self))[index])

    def __iter__(self) -> Iterator[Graph]:
        return (self.load(index) for index in range(len(self)))

    def only(self, index: int) -> GraphSet:
        """A set with one of the graphs."""
        label = self.labels[index]
        digest = hashlib.sha256(f"{self.digest} {label}".encode(errors="surrogateescape")).hexdigest()
        files = self.files[index : index + 1]
        return replace(self, name=label, digest=digest, labels=(label,), load=lambda _: self.load(index), files=files)


def joined(sets: Sequence[GraphSet]) -> GraphSet:
    """The graphs of several sets, one set after the other. Raises InputError where two share a label."""
    places = [(own, index) for own in sets for index in range(len(own))]
    labels = tuple(own.labels[index] for own, index in places)
    if repeated := next((label for label in labels if labels.count(label) > 1), None):
        raise InputError(f"two graphs are named '{shown(repeated)}'")
    return GraphSet(
        name=" ".join(own.name for own in sets),
        digest=hashlib.sha256(" ".join(own.digest for own in sets).encode()).hexdigest(),
        metadata={},
        labels=labels,
        load=lambda index: places[index][0].load(places[index][1]),
        files=tuple(file for own in sets for file in own.files),
    )


def write_graph_set(path: str | Path, graphs: Iterable[Graph], metadata: Mapping[str, Any]) -> int:
    """Writes the graphs, equal ones as equal bytes, and returns the number of bytes. metadata: JSON values only.

    Raises InputError when two graphs share a name or the file cannot be written.
    """
    lines = [json.dumps({"schema_version": SCHEMA_VERSION, "metadata": dict(metadata)}).encode("ascii") + b"\n"]
    names: set[str] = set()
    for graph in graphs:
        if graph.name in names:
            raise InputError(f"'{shown(path)}' would hold two graphs named '{shown(graph.name)}'")
        names.add(graph.name)
        lines.append(serialize_graph(graph))
    data = gzip.compress(b"".join(lines), compresslevel=9, mtime=0)
    write_atomically(path, data)
    return len(data)


def is_graph_set(path: Path) -> bool:
    """True if the file is a graph set by its name or its first line; False for a file that cannot be read."""
    if path.name.endswith(SUFFIX):
        return True
    if not os.path.isfile(path):  # a pipe or device, which might never end, is not opened
        return False
    try:
        with open(path, "rb") as file:
            packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        with gzip.open(path, "rb") if packed else open(path, "rb") as file:
            header = json.loads(file.readline(_MAX_HEADER))
    except (OSError, EOFError, ValueError, zlib.error, RecursionError):
        return False
    return isinstance(header, dict) and header.keys() == {"schema_version", "metadata"}


def read_graph_set(path: str | Path) -> GraphSet:
    """The set in a file written by `write_graph_set`.

    Raises InputError naming the path and what is wrong; a damaged graph raises it only when it is requested.
    """
    return _read_file(Path(path))


def one_graph(name: str, file: Path, dims: Mapping[str, int] | None = None) -> GraphSet:
    """A set of the one graph in a file; dims: of its open dimensions. Raises InputError when it cannot be read."""
    digest = hashlib.sha256(read_bytes(file) + _of_dims(dims)).hexdigest()
    return GraphSet(
        name=name, digest=digest, metadata={}, labels=(name,), load=lambda _: load_file(file, dims=dims), files=(file,)
    )


def _of_dims(dims: Mapping[str, int] | None) -> bytes:
    """The bytes for sizes of dimensions in a digest; empty without any."""
    return json.dumps(sorted(dims.items())).encode() if dims else b""


def read_folder(path: Path, dims: Mapping[str, int] | None = None) -> GraphSet:
    """The graph files of a folder in the order of their names; dims: for those that have them. Raises InputError if
    there are none."""
    try:
        files = tuple(sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith(".")))
    except OSError as error:
        raise InputError(f"cannot read folder '{shown(path)}': {error.strerror}") from error
    if not files:
        raise InputError(f"folder '{shown(path)}' holds no graph files")
    content = hashlib.sha256()
    for file in files:
        content.update(file.name.encode(errors="surrogateescape") + b"\0" + _content(file))
    content.update(_of_dims(dims))
    return GraphSet(
        name=path.name,
        digest=content.hexdigest(),
        metadata={},
        labels=tuple(file.name for file in files),
        load=lambda index: load_file(files[index], dims=dims, dims_are_shared=True),
        files=files,
    )


def _content(file: Path) -> bytes:
    """The content of a file; empty if it cannot be read, which is reported when its graph is requested."""
    try:
        return read_bytes(file)
    except InputError:
        return b""


def _read_file(path: Path) -> GraphSet:
    data = unpack(read_bytes(path), str(path))
    header, *lines = data.splitlines() or [b""]
    metadata = _metadata(header, path)
    if not lines:
        raise InputError(f"'{shown(path)}' holds no graphs")

    def load(index: int) -> Graph:
        return parse_json_graph(lines[index], f"{path.name}, line {index + 2}")

    labels: dict[str, None] = {}
    for number, line in enumerate(lines, start=2):
        label = _label(line, number)
        if label in labels:
            raise InputError(f"'{shown(path)}', line {number}: an earlier graph is named '{shown(label)}' too")
        labels[label] = None
    return GraphSet(
        name=path.name.removesuffix(SUFFIX),
        digest=hashlib.sha256(data).hexdigest(),
        metadata=metadata,
        labels=tuple(labels),
        load=load,
    )


def _metadata(header: bytes, path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(header)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
        raise InputError(f"'{shown(path)}' is not a set of graphs: its first line is not the header of one")
    if document.get("schema_version") != SCHEMA_VERSION:
        raise InputError(f"'{shown(path)}' {other_version(document.get('schema_version'), SCHEMA_VERSION)}")
    metadata: dict[str, Any] = document["metadata"]
    return metadata


def _label(line: bytes, number: int) -> str:
    """The name of a graph; for a line that is no graph, its number."""
    try:
        name = json.loads(line)["name"]
    except (ValueError, RecursionError, KeyError, TypeError):
        name = None
    return name if isinstance(name, str) else f"line {number}"
