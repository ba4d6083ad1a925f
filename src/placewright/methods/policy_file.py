"""Policies on disk: safetensors (an 8-byte length, a JSON header of that length, arrays), with configuration and record
in the header. The format is read and written here, since an installed package depends only on numpy."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placewright.methods.policies import NAMED_POLICIES, Policy, family_of
from placewright.support.errors import InputError, did_you_mean, other_version, shown
from placewright.support.files import read_bytes, write_atomically
from placewright.support.modules import lacking, load_extensions

SUFFIX = ".safetensors"
SCHEMA_VERSION = 2
#: The key of the policy in the header's metadata, whose values are strings: JSON in our case.
_KEY = "placewright"
_ALIGNMENT = 8
_LONGEST_NAME = 100


def find_policy(name: str, folder: Path | None = None) -> Policy:
    """Load a policy by its name in the package, or from a file, whose path is relative to `folder`.

    Raises InputError when there is none or the file is no policy.
    """
    load_extensions()
    if name in NAMED_POLICIES:
        return NAMED_POLICIES[name]()
    path = (folder or Path()) / name
    if path.suffix != SUFFIX and not os.path.exists(path):
        raise InputError(f"there is no policy '{shown(name)}'{did_you_mean(name, NAMED_POLICIES)}{lacking()}")
    return read_policy(path)


def write_policy(policy: Policy, path: str | Path) -> None:
    """Write a policy to a file. Raises InputError naming the path when it cannot be written."""
    about = {
        "schema_version": SCHEMA_VERSION,
        "family": policy.family,
        "name": policy.name,
        "configuration": asdict(policy.configuration),
        "record": dict(policy.record),
    }
    header: dict[str, Any] = {"__metadata__": {_KEY: json.dumps(about)}}
    end, arrays = 0, []
    for name, array in sorted(policy.weights.items()):
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [begin, end]}
        arrays.append(np.ascontiguousarray(array, "<f4").tobytes())
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    write_atomically(path, len(text).to_bytes(8, "little") + text + b"".join(arrays))


def read_policy(path: str | Path) -> Policy:
    """Read a policy from a file. Raises InputError naming the file when it is no policy, or none that this version
    reads."""
    data = read_bytes(path)
    try:
        header, content = _parts(data)
        about = _about(header)
        weights = {name: _array(name, entry, content) for name, entry in header.items() if name != "__metadata__"}
        name, record, configuration = about["name"], about["record"], about["configuration"]
        if not (isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and name.isprintable()):
            raise InputError(f"a policy whose name is {shown(name)}")
        if not isinstance(record, dict):
            raise InputError("a policy whose record is no JSON object")
        if not isinstance(configuration, dict):
            raise InputError("a policy whose configuration is no JSON object")
        family = family_of(about["family"])
        return family.read(name=name, configuration=configuration, weights=weights, record=record)
    except InputError as error:
        raise InputError(f"'{shown(path)}': {error}") from None
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(f"'{shown(path)}' is not a policy: {shown(error)}") from None


def _parts(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Split a file into the header and the bytes of all arrays."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise InputError("not a policy, or cut short: it ends before its header does")
    header = json.loads(data[8 : 8 + length])
    if not isinstance(header, dict):
        raise InputError("not a policy: its header is no JSON object")
    return header, data[8 + length :]


def _about(header: Mapping[str, Any]) -> dict[str, Any]:
    """Read placewright's own data from the header."""
    metadata = header.get("__metadata__")
    if not isinstance(metadata, dict) or _KEY not in metadata:
        raise InputError("a safetensors file, but not a policy of placewright")
    about = json.loads(metadata[_KEY])
    if not isinstance(about, dict) or about.get("schema_version") != SCHEMA_VERSION:
        version = about.get("schema_version") if isinstance(about, dict) else None
        raise InputError(f"a policy that {other_version(version, SCHEMA_VERSION, 'placewright train')}")
    return about


def _array(name: str, entry: Mapping[str, Any], content: bytes) -> NDArray[np.float32]:
    begin, end = entry["data_offsets"]
    shape = tuple(entry["shape"])
    if entry["dtype"] != "F32" or not all(type(number) is int and number >= 0 for number in (begin, end, *shape)):
        raise InputError(f"'{shown(name)}' is not an array of float32")
    if end > len(content):
        raise InputError(f"cut short: it ends before '{shown(name)}' does")
    if end - begin != 4 * prod(shape):
        raise InputError(f"'{shown(name)}' has {end - begin} bytes, not those of its shape")
    return np.frombuffer(content, "<f4", prod(shape), begin).reshape(shape)
