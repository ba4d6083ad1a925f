"""What a module and its optimizer leave behind after a step, and how two such records differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from placewright.importers.torch.held import Held
from placewright.lab.datasets.libraries.listing import LIBRARIES

#: Other last bits: no tensor is further off than this share of its largest value.
_LAST_BITS = 1e-5
#: What torch.compile notes in a module.
_OF_TORCH_COMPILE = "_is_torch_compile"


class DifferenceError(Exception):
    """What differs, first of all; `is_small` where only last bits do."""

    def __init__(self, what: str, *, is_small: bool = False) -> None:
        super().__init__(what)
        self.is_small = is_small


@dataclass(frozen=True, kw_only=True)
class Record:
    """What is compared after a step: named tensors, by what sort of thing they are, and all else by name."""

    tensors: dict[str, Any]
    values: dict[str, Any]


def record(module: Any, output: Any, gradients: dict[str, Any]) -> Record:
    leaves, structure = tree_flatten(output)
    tensors = (
        dict(found for number, leaf in enumerate(leaves) for found in inside(f"output {number}", leaf)) | gradients
    )
    values: dict[str, Any] = {"structure of the output": str(structure)}
    for slot, value in Held(module).values:
        if slot.key == _OF_TORCH_COMPILE:
            continue
        if isinstance(value, torch.Tensor):
            tensors[slot.name] = value
        elif isinstance(value, int | float | str | bool | None):
            values[slot.name] = value
    tensors["generator of random numbers"] = torch.get_rng_state()
    kept = {name: each.detach().clone() if isinstance(each, torch.Tensor) else each for name, each in tensors.items()}
    return Record(tensors=kept, values=values)


def inside(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Tensors and plain values in a result, such as a cache of keys; of other objects the type."""
    if isinstance(value, torch.Tensor | int | float | str | bool | None):
        yield name, value
        return
    yield name, type(value)
    parts = value if isinstance(value, dict) else dict(enumerate(value)) if isinstance(value, list | tuple) else {}
    if type(value).__module__.partition(".")[0] in LIBRARIES and not isinstance(value, torch.nn.Module):
        parts = parts or getattr(value, "__dict__", {})
    for key, part in parts.items():
        if not str(key).startswith("_"):
            yield from inside(f"{name}.{key}", part)


def check(found: Record, expected: Record, where: str) -> None:
    """Raises Difference naming the first thing that differs, of tensors that with the largest difference."""
    for names, others in ((found.tensors, expected.tensors), (found.values, expected.values)):
        if odd := [name for name in [*others, *names] if (name in others) != (name in names)]:
            raise DifferenceError(f"{where}{odd[0]} is {'missing' if odd[0] in others else 'additional'}")
    for name, value in expected.values.items():
        if found.values[name] != value and value == value:
            raise DifferenceError(f"{where}{name} is {found.values[name]!r:.100} and not {value!r:.100}")
    off: list[tuple[float, str]] = []
    for name, tensor in expected.tensors.items():
        other = found.tensors[name]
        if not isinstance(tensor, torch.Tensor):
            if type(other) is not type(tensor) or (other != tensor and tensor == tensor):
                raise DifferenceError(f"{where}{name} is {other!r:.100} and not {tensor!r:.100}")
        elif not is_equal(other, tensor):
            off.append((distance(other, tensor), name))
    if off:
        first, (most, name) = off[0], max(off)
        what = f"{where}{first[1]} is off by {first[0]:.2g} of its largest value"
        what += f"; {len(off)} of {len(expected.tensors)} tensors differ, {name} most, by {most:.2g}"
        raise DifferenceError(what, is_small=most <= _LAST_BITS)


def is_equal(one: Any, other: Any) -> bool:
    """Bit by bit, but for what stands in a NaN."""
    if not isinstance(one, torch.Tensor) or (one.shape, one.dtype) != (other.shape, other.dtype):
        return False
    return torch.equal(one, other) or bool(((one == other) | ((one != one) & (other != other))).all())


def distance(one: Any, other: Any) -> float:
    """The largest difference, as a share of the largest value."""
    if not isinstance(one, torch.Tensor) or (one.shape, one.dtype) != (other.shape, other.dtype):
        return float("inf")
    one, other = (each.to(torch.complex128 if each.is_complex() else torch.float64) for each in (one, other))
    off = float((one - other).abs().max() / other.abs().max().clamp(min=1e-30))
    return off if off == off else float("inf")
