"""Chooses the importer for a graph file by its name and content."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from pathlib import Path

from placewright.graph import Graph
from placewright.importers.formats import Contents, format_of, known_suffixes
from placewright.support.errors import InputError, shown
from placewright.support.files import read_bytes

#: Files of PyTorch by suffix. Loading one runs what it holds: torch.export.load unpickles weights, constants and
#: inputs, loads compiled code, evaluates sizes as Python and calls any function of torch that the file names.
_WEIGHTS = "holds weights and no graph; plan the module they belong to: placewright.plan(module, devices, args=...)"
_PYTORCH_FILES = {
    ".pt2": "is a program that PyTorch can only load by running code from the file; if you trust it, load it yourself: "
    "placewright.plan(torch.export.load(path), devices)",
    **dict.fromkeys((".pt", ".pth", ".ckpt", ".safetensors"), _WEIGHTS),
}


def load_file(location: Path, *, dims: Mapping[str, int] | None = None, dims_are_shared: bool = False) -> Graph:
    """The graph in a file of one of `formats.FORMATS`, by its suffix or, if that is unknown, by its content. dims: as
    `load_graph` takes them; where they are shared with other files, those that this one lacks are ignored.

    Raises InputError naming the file and what is wrong with it; MissingExtraError when ONNX is not installed.
    """
    if (suffix := location.suffix.lower()) in _PYTORCH_FILES:
        raise InputError(f"'{location}' {_PYTORCH_FILES[suffix]}")
    # No format begins with the bytes of a byte order mark, so it is removed before the format is determined.
    data = read_bytes(location).removeprefix(codecs.BOM_UTF8)
    if not data:
        raise InputError(f"'{location}' is empty")
    # A name that is not UTF-8 holds halves of surrogate pairs, which no graph or plan file could hold.
    name = location.name.encode(errors="backslashreplace").decode()
    contents = Contents(data, name, dims or {}, dims_are_shared)
    try:
        file_format = format_of(location, contents)
        if file_format is None:
            raise InputError(f"'{location}' has a format placewright does not know (known: {known_suffixes()})")
        if dims and not dims_are_shared and not file_format.has_dims:
            strange = shown(next(iter(dims)))
            raise InputError(f"'{location}' is no ONNX model, so it has no open dimension '{strange}' to set")
        return file_format.parse(contents)
    except InputError as error:
        if str(error).startswith((f"'{name}'", f"'{location}'", f"graph '{shown(name)}'")):
            raise
        raise InputError(f"'{shown(location)}': {error}") from error
