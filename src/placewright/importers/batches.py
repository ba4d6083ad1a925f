"""A captured pass for any batch, derived from one of a batch whose size is recognisable wherever it occurs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from placewright.graph import Graph, Op, Tensor
from placewright.importers.builder import tensor_bytes
from placewright.importers.forward_backward import ForwardBackward
from placewright.support.errors import InputError

#: A number that no other extent of a network is a multiple of: a prime, and larger than what networks have.
_PRIME = 1_000_003
#: The most equal parts of a batch whose size still contains the prime.
_MOST_PARTS = 16
#: The batch that is captured for all others.
TRACED_BATCH = _MOST_PARTS * _PRIME
#: A number this near to a multiple of the square of the prime is not a plain multiple of it.
_NEAR = 1000


def of_batch(traced: ForwardBackward, batch: int) -> ForwardBackward:
    """The pass of `TRACED_BATCH` samples as one of `batch` samples.

    Raises InputError where an extent depends on the batch otherwise than as a multiple of it or of its parts.
    """
    graph = traced.graph
    tensors = tuple(_tensor(tensor, batch) for tensor in graph.tensors)
    ops = tuple(_op(op, batch) for op in graph.ops)
    return replace(traced, graph=Graph(name=graph.name, ops=ops, tensors=tensors, metadata=graph.metadata))


def _tensor(tensor: Tensor, batch: int) -> Tensor:
    shape = tensor.shape or ()
    if not any(extent >= _PRIME // 2 for extent in shape):
        return tensor
    now = tuple(_extent(extent, batch, tensor.name) for extent in shape)
    dtype = tensor.dtype or "float32"
    if tensor.size_bytes == tensor_bytes(shape, dtype):
        return replace(tensor, shape=now, size_bytes=tensor_bytes(now, dtype))
    # Axes that repeat elements have no bytes of their own.
    size = tensor.size_bytes
    return replace(tensor, shape=now, size_bytes=_multiple(size, batch) if size % _PRIME == 0 else size)


def _op(op: Op, batch: int) -> Op:
    attributes: Mapping[str, Any] = {name: _value(value, batch) for name, value in op.attributes.items()}
    size = op.attributes.get("bytes_moved", 0)
    if isinstance(size, int) and size >= _PRIME // 2 and size % _PRIME >= _NEAR:
        raise InputError(f"what '{op.name}' moves is of the batch and of something else")
    return op if attributes == op.attributes else replace(op, attributes=attributes)


def _value(value: Any, batch: int) -> Any:
    if isinstance(value, list):
        return [_value(each, batch) for each in value]
    if isinstance(value, bool) or not isinstance(value, int) or value < _PRIME // 2:
        return value
    count, rest = divmod(value, _PRIME)
    return _multiple(count * _PRIME, batch) + rest


def _extent(extent: int, batch: int, name: str) -> int:
    if extent < _PRIME // 2:
        return extent
    count, rest = divmod(extent, _PRIME)
    if rest or (count > _NEAR and min(count % _PRIME, -count % _PRIME) in range(1, _NEAR)):
        raise InputError(f"'{name}' depends on the batch, and is no multiple of it")
    return _multiple(extent, batch)


def _multiple(value: int, batch: int) -> int:
    """The value with each factor that is the traced batch replaced by another batch."""
    powers = 0
    while value and value % _PRIME == 0:
        value, powers = value // _PRIME, powers + 1
    now, rest = divmod(value * math.prod([batch] * powers), math.prod([_MOST_PARTS] * powers))
    if rest:
        raise InputError(f"a batch of {batch} has no such parts")
    return now
