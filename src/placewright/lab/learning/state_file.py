"""The state of a training on disk: with a digest before it, since many a damaged file would otherwise pass for one."""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from placewright.support.errors import InputError, shown
from placewright.support.files import read_bytes, write_atomically

_DIGEST_BYTES = 32
#: What goes wrong where a state is none of ours: it lacks something, or has it in another type or shape.
_NO_STATE = (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError, EOFError)


def write_state(path: Path, state: dict[str, Any]) -> None:
    """state: numbers, texts, tensors, and lists and dictionaries of them."""
    content = io.BytesIO()
    torch.save(state, content)
    written = content.getvalue()
    write_atomically(path, hashlib.sha256(written).digest() + written)


def read_state(path: Path, take: Callable[[dict[str, Any]], None]) -> None:
    """Gives the state to `take`. Raises InputError where the file, or what `take` finds in it, is none of ours."""
    data = read_bytes(path)
    content = data[_DIGEST_BYTES:]
    if hashlib.sha256(content).digest() != data[:_DIGEST_BYTES]:
        raise _damaged(path)
    try:
        # Of a pickle only numbers, texts and lists of them are made, whatever else it asks for; then it is refused.
        take(torch.load(io.BytesIO(content), weights_only=True))
    except (pickle.UnpicklingError, *_NO_STATE) as error:
        raise _damaged(path) from error


def check_settings(path: Path, settings: dict[str, Any], own: dict[str, Any]) -> None:
    """Raises InputError naming the first setting of a state that is not this training's."""
    if settings != own:
        other = next(key for key in (*own, *settings) if settings.get(key, ...) != own.get(key, ...))
        raise InputError(
            f"'{shown(path)}' is of a training with another {other}: "
            f"{shown(settings.get(other))}, not {shown(own.get(other))}"
        )


def _damaged(path: Path) -> InputError:
    return InputError(f"'{shown(path)}' is not a checkpoint, or damaged: delete it to begin anew")
