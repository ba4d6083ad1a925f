"""What a training loop leaves behind after a step, and the first place where two such records differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import torch

Record = dict[str, Any]
PLAIN = (int, float, bool, str, type(None))


def flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The leaves of nested dictionaries and sequences, each with its path."""
    if isinstance(value, Mapping):
        # In what order an optimizer made the states of its parameters tells nothing.
        yield f"{name} keys", str(sorted(str(key) for key in value))
        for key, each in value.items():
            yield from flat(f"{name}[{key}]", each)
    elif isinstance(value, list | tuple):
        yield f"{name} length", len(value)
        for number, each in enumerate(value):
            yield from flat(f"{name}[{number}]", each)
    elif isinstance(value, torch.Tensor):
        yield name, kept(value)
    elif isinstance(value, PLAIN):
        yield name, value
    else:
        yield name, type(value).__name__


def kept(tensor: Any) -> Any:
    """A copy with the same strides, made without drawing, hooks or gradients."""
    if tensor.layout != torch.strided:
        return tensor.detach().clone()
    with torch.no_grad():
        detached = tensor.detach()
        copy = torch.empty_strided(detached.shape, detached.stride(), dtype=detached.dtype)
        return copy.copy_(detached)


def of_module(name: str, model: Any) -> Iterator[tuple[str, Any]]:
    """Parameters, gradients, buffers, and attributes that are plain or tensors."""
    for path, parameter in model.named_parameters():
        yield f"{name} parameter {path}", kept(parameter)
        yield f"{name} {path} requires_grad", parameter.requires_grad
        yield f"{name} gradient {path}", None if parameter.grad is None else kept(parameter.grad)
    for path, buffer in model.named_buffers():
        yield f"{name} buffer {path}", kept(buffer)
    for path, module in model.named_modules():
        for key, value in vars(module).items():
            if not key.startswith("_") and isinstance(value, (*PLAIN, torch.Tensor, list)):
                yield from flat(f"{name} attribute {path}.{key}", value)


def same_bits(one: Any, other: Any) -> bool:
    """Whether values are the same bit by bit, any NaN like another."""
    if one.numel() == 0:
        return True
    dense_one, dense_other = one.contiguous(), other.contiguous()
    if bool((dense_one.view(-1).view(torch.uint8) == dense_other.view(-1).view(torch.uint8)).all()):
        return True
    if not one.is_floating_point():
        return False
    signs = torch.signbit(dense_one) == torch.signbit(dense_other)
    return bool(((dense_one == dense_other) & signs | dense_one.isnan() & dense_other.isnan()).all())


def strides_of(tensor: Any) -> list[int]:
    """Strides of the dimensions that have more than one element."""
    if tensor.numel() == 0:
        return []
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]


def difference(expected: Any, found: Any) -> tuple[str, float] | None:
    """In what two leaves differ, and by how much: the largest difference over the largest expected value."""
    if not isinstance(expected, torch.Tensor) or not isinstance(found, torch.Tensor):
        equal = type(expected) is type(found) and (expected == found or (expected != expected and found != found))
        if equal:
            return None
        texts = [type(each).__name__ if isinstance(each, torch.Tensor) else repr(each) for each in (expected, found)]
        return f"{texts[0][:200]} became {texts[1][:200]}", float("inf")
    if (expected.dtype, expected.shape, expected.layout) != (found.dtype, found.shape, found.layout):
        kinds = [f"{each.dtype}{list(each.shape)} {each.layout}" for each in (expected, found)]
        return f"{kinds[0]} became {kinds[1]}", float("inf")
    if expected.layout != torch.strided:
        return difference(expected.to_dense(), found.to_dense())
    if not same_bits(expected, found):
        one, other = expected.double(), found.double()
        gap = float((one - other).abs().max()) / max(float(one.abs().max()), 1e-300)
        return "values", gap
    if strides_of(expected) != strides_of(found):
        return f"strides {strides_of(expected)} became {strides_of(found)}", 0.0
    return None


def first_difference(expected: Record, found: Record) -> tuple[str, str, float] | None:
    """The first leaf that differs: its name, in what, and by how much."""
    for name, value in expected.items():
        if name not in found:
            return name, "is missing", float("inf")
        if (differs := difference(value, found[name])) is not None:
            return name, *differs
    for name in found:
        if name not in expected:
            return name, "is there as well", float("inf")
    return None


def shared_memory(named: Mapping[str, Any]) -> list[list[str]]:
    """Names of tensors that share memory with others, in groups."""
    groups: defaultdict[int, list[str]] = defaultdict(list)
    for name, tensor in named.items():
        if tensor is not None and tensor.layout == torch.strided and tensor.untyped_storage().nbytes() > 0:
            groups[tensor.untyped_storage().data_ptr()].append(name)
    return sorted(sorted(group) for group in groups.values() if len(group) > 1)


def states_of(optimizer: Any) -> dict[str, Any]:
    """The tensors that an optimizer keeps for its parameters, in the order of these."""
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    return {
        f"state {number} {key}": value
        for number, parameter in enumerate(parameters)
        for key, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, torch.Tensor)
    }
