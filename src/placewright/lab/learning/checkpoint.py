"""The checkpoint of any training: its state in a file, from which an interrupted training resumes."""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from placewright.support.errors import InputError, shown
from placewright.support.files import read_bytes, write_atomically

_DIGEST_BYTES = 32
#: Errors when a state is not valid: something is missing, or has another type or shape.
_NO_STATE = (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError, EOFError)

S = TypeVar("S")


class Checkpoint:
    """A file of a training's state, preceded by a digest: many a damaged file would otherwise pass for a state.

    path: None where nothing is kept. settings: everything that determines the training.
    """

    def __init__(self, path: Path | None, settings: Mapping[str, Any]) -> None:
        self._path, self._settings = path, dict(settings)

    def write(self, state: Mapping[str, Any]) -> None:
        """Write the state: numbers, texts, tensors and arrays, and lists and dictionaries of them."""
        if self._path is None:
            return
        content = io.BytesIO()
        torch.save({"settings": self._settings, "state": _packed(state)}, content)
        written = content.getvalue()
        write_atomically(self._path, hashlib.sha256(written).digest() + written)

    def read(self, take: Callable[[dict[str, Any]], S]) -> S | None:
        """Return `take` of the state; None where there is no file yet. Raises InputError where the file, or what `take`
        finds in it, is not valid, and where it belongs to another training, naming the first setting that differs."""
        if self._path is None or not self._path.exists():
            return None
        data = read_bytes(self._path)
        content = data[_DIGEST_BYTES:]
        if hashlib.sha256(content).digest() != data[:_DIGEST_BYTES]:
            raise self._damaged()
        try:
            # Only numbers, texts and lists of them are unpickled; a pickle that asks for anything else is refused.
            found = torch.load(io.BytesIO(content), weights_only=True)
            self._check(found["settings"])
            return take(_unpacked(found["state"]))
        except (pickle.UnpicklingError, *_NO_STATE) as error:
            raise self._damaged() from error

    def _check(self, settings: dict[str, Any]) -> None:
        own = self._settings
        if settings != own:
            other = next(key for key in (*own, *settings) if settings.get(key, ...) != own.get(key, ...))
            raise InputError(
                f"'{shown(self._path)}' is of a training with another {other}: "
                f"{shown(settings.get(other))}, not {shown(own.get(other))}"
            )

    def _damaged(self) -> InputError:
        return InputError(f"'{shown(self._path)}' is not a checkpoint, or damaged: delete it to begin anew")


def _packed(value: Any) -> Any:
    """Convert arrays to tensors, which a file of weights may hold."""
    if isinstance(value, np.ndarray):
        return {"array": torch.from_numpy(value)}
    if isinstance(value, Mapping):
        return {key: _packed(each) for key, each in value.items()}
    return [_packed(each) for each in value] if isinstance(value, list) else value


def _unpacked(value: Any) -> Any:
    """Invert `_packed`."""
    if isinstance(value, dict):
        return value["array"].numpy() if set(value) == {"array"} else {key: _unpacked(e) for key, e in value.items()}
    return [_unpacked(each) for each in value] if isinstance(value, list) else value
