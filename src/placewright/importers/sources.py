"""Graphs from whatever a user names: a model or graph file, a folder, a graph set, an example."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from placewright import examples
from placewright.graph import Graph
from placewright.importers.graph_set import SUFFIX, GraphSet, is_graph_set, one_graph, read_folder, read_graph_set
from placewright.importers.load import load_file
from placewright.support.errors import InputError, did_you_mean, shown

_EXAMPLE = "example:"
#: The parts of a split set; measurements are made on the last.
PARTS = ("train", "valid", "test")
#: The most names of a set that a sentence lists.
_MAX_NAMES = 8


def load_graph(source: str | Path, *, dims: Mapping[str, int] | None = None, training: bool = False) -> Graph:
    """Read one graph.

    Parameters
    ----------
    source
        A file (its suffix determines which of the formats in docs/formats.md it has; with another suffix its content
        does), "example:NAME", or one graph of a set or folder: "set.graphs.gz:NAME", or the set alone where it holds
        one. "net.py:build" runs that file; its function returns a PyTorch module or a JAX function, its arguments, and
        a dictionary of its keyword arguments if there are any.
    dims
        Sizes of dimensions that an ONNX model leaves open, by the dimension's name ("batch") or by tensor and axis
        ("input_ids:1").
    training
        Whether a training step of the module or function that such code returns is captured, as `from_torch` and
        `from_jax` do.

    Raises
    ------
    InputError
        For a bad source: names the file and what is wrong with it, and lists the names of a set where one must be
        chosen.
    MissingExtraError
        For an ONNX file when ONNX is not installed.
    """
    place, _ = _place_and_name(source)
    if place.suffix == ".py" and os.path.isfile(place):
        return _of_python(str(source), dims, training)
    return read_graph(source, dims=dims)


def read_graph(source: str | Path, *, dims: Mapping[str, int] | None = None) -> Graph:
    """Read one graph as `load_graph` does, from data only: a Python file is read as a graph file, and not run."""
    place, name = _place_and_name(source)
    if name is None and not os.path.isdir(place) and not is_graph_set(place):
        return load_file(place, dims=dims)
    graphs = _many(place)
    index = _chosen(graphs, name, source)
    if graphs.files:
        return load_file(graphs.files[index], dims=dims)
    if dims:
        raise InputError(f"'{shown(source)}' is no ONNX model, so it has no open dimension to set")
    return graphs[index]


def load_graphs(source: str | Path, *, dims: Mapping[str, int] | None = None) -> GraphSet:
    """Read all graphs of a source.

    Parameters
    ----------
    source
        A set (.graphs.gz), or a folder of graph files; of a folder with train, valid and test parts, the test part is
        read. Otherwise the one graph that `load_graph` takes.
    dims
        As in `load_graph`; each file in a folder takes those that it has.

    Raises
    ------
    InputError
        For a bad source: names the path and what is wrong; for a damaged graph only when it is requested.
    """
    place, name = _place_and_name(source)
    if name is None and (os.path.isdir(place) or is_graph_set(place)):
        return _many(place, dims)
    if name is None:
        text = str(source)
        return one_graph(text.removeprefix(_EXAMPLE) if text.startswith(_EXAMPLE) else place.name, place, dims)
    graphs = _many(place, dims)
    return graphs.only(_chosen(graphs, name, source))


def names_code(source: str | Path) -> bool:
    """True if the source is a Python file, or is written like "net.py:build" and there is no such file."""
    place, name = _place_and_name(source)
    written = [place, Path(str(source).rpartition(":")[0])] if name is None else [place]
    return any(path.suffix == ".py" for path in written) and not os.path.isdir(place)


def place_of(source: str | Path) -> Path:
    """The file or folder of a source. Raises InputError for an unknown example."""
    return _place_and_name(source)[0]


def test_part(source: str | Path) -> Path | None:
    """The test file of a folder of train, valid and test parts; None for any other source."""
    path = Path(source) / f"{PARTS[-1]}{SUFFIX}"
    return path if os.path.isfile(path) else None


def _place_and_name(source: str | Path) -> tuple[Path, str | None]:
    """The file or folder, and after a colon the name of the graph in it; names may also hold colons."""
    text = str(source)
    if text.startswith(_EXAMPLE):
        return examples.path_of(text.removeprefix(_EXAMPLE)), None
    if ":" not in text or os.path.exists(text):
        return Path(source), None
    pieces = text.split(":")
    for count in range(1, len(pieces)):
        place = ":".join(pieces[:count])
        if place and os.path.exists(place):
            return Path(place), ":".join(pieces[count:])
    return Path(source), None


def _of_python(source: str, dims: Mapping[str, int] | None, training: bool) -> Graph:
    """The graph of what a function in a Python file makes."""
    from placewright.importers.python_source import captured, made_by

    if dims:
        raise InputError(f"'{shown(source)}' is no ONNX model, so it has no open dimension to set")
    return captured(*made_by(source), training=training)


def _many(place: Path, dims: Mapping[str, int] | None = None) -> GraphSet:
    """The graphs of a folder or a set. Raises InputError for sizes of dimensions that a set cannot have."""
    part = test_part(place)
    if dims and (part is not None or not os.path.isdir(place)):
        raise InputError(f"'{shown(place)}' holds graphs whose dimensions are set, so there is none to set")
    if not os.path.isdir(place):
        return read_graph_set(place)
    if part is not None:
        return replace(read_graph_set(part), name=f"{place.name}-{PARTS[-1]}")
    graphs = read_folder(place, dims)
    if sets := [file.name for file in graphs.files if file.name.endswith(SUFFIX)]:
        raise InputError(f"folder '{shown(place)}' holds graph sets, not graphs; name one of them: {_listed(sets)}")
    return graphs


def _chosen(graphs: GraphSet, name: str | None, source: str | Path) -> int:
    """The index of the graph of that name; without a name, that of the only graph."""
    if name is None:
        if len(graphs) == 1:
            return 0
        raise InputError(
            f"'{shown(source)}' holds {len(graphs):,} graphs; name one, as in {source}:{graphs.labels[0]} "
            f"(known: {_listed(graphs.labels)})"
        )
    if name not in graphs.labels:
        hint = did_you_mean(name, graphs.labels, [_listed(graphs.labels)])
        raise InputError(f"'{shown(graphs.name)}' holds no graph '{shown(name)}'{hint}")
    return graphs.labels.index(name)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join(map(shown, names[:_MAX_NAMES])) + (f" and {more:,} more" if more > 0 else "")
