"""The part that this process holds of a module spread over processes by DistributedDataParallel or FSDP2.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


def local(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a tensor that this process holds."""
    if not hasattr(tensor, "to_local"):
        return tensor
    with torch.no_grad():
        part: torch.Tensor = tensor.to_local()
    return part


def local_bytes(tensor: torch.Tensor) -> int:
    """Bytes that this process holds of a tensor; 0 of one whose memory FSDP2 has given back."""
    part = local(tensor)
    return part.nbytes if part.untyped_storage().nbytes() else 0


def wrappers(model: nn.Module) -> set[Any]:
    """The DistributedDataParallel wrappers around a module that is called now, and within it."""
    distributed = sys.modules.get("torch.nn.parallel.distributed")
    if distributed is None:
        return set()
    kind: Any = distributed.DistributedDataParallel
    return {each for each in (kind._get_active_ddp_module(), *model.modules()) if isinstance(each, kind)}


def bucket_bytes(found: Iterable[Any]) -> int:
    """Bytes of the buckets in which wrappers reduce gradients, which stay from step to step."""
    return sum(each.nbytes for wrapper in found for each in _reduced(wrapper))


def gradients_in_buckets(found: Iterable[Any]) -> set[int]:
    """Identities of parameters whose gradients lie in the buckets."""
    return {id(each) for wrapper in found if wrapper.gradient_as_bucket_view for each in _reduced(wrapper)}


def _reduced(wrapper: Any) -> Iterator[nn.Parameter]:
    for name, parameter in wrapper.module.named_parameters():
        if parameter.requires_grad and name not in wrapper.parameters_to_ignore:
            yield parameter


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """One group of FSDP2's parameters, which it gathers and reduces together.

    shards: for each gathered parameter the parameter itself, as identities. whole_bytes: of the gathered parameters.
    reduced_bytes: of the buffers in which their gradients are reduced.
    """

    shards: dict[int, int]
    whole_bytes: int
    reduced_bytes: int


class Sharded:
    """The groups of FSDP2 in a module; none in any other."""

    def __init__(self, model: nn.Module) -> None:
        self.groups = [_gathered(group) for group in _groups(model)]
        self._shard_of = {whole: shard for group in self.groups for whole, shard in group.shards.items()}
        self._bytes_of = {
            id(each._unsharded_param): local_bytes(each.sharded_param)
            for group in _groups(model)
            for each in group.fsdp_params
            if hasattr(each, "_unsharded_param")
        }

    def identity(self, tensor: Any) -> int:
        """One identity for a parameter and for its gathered form."""
        return self._shard_of.get(id(tensor), id(tensor))

    def shard_bytes(self, tensor: Any) -> int:
        """Bytes of the shard of a parameter that is gathered now; 0 of any other tensor."""
        return self._bytes_of.get(id(tensor), 0)

    @property
    def bytes_beside(self) -> int:
        """The most memory in use besides the forward or backward of one group: the parameters of the next are gathered
        meanwhile, and the gradients of the one before are still being reduced."""
        if len(self.groups) < 2:
            return 0
        return max(group.whole_bytes for group in self.groups) + max(group.reduced_bytes for group in self.groups)


def _groups(model: nn.Module) -> Iterator[Any]:
    fsdp = sys.modules.get("torch.distributed.fsdp")
    for module in model.modules() if fsdp is not None else ():
        if isinstance(module, fsdp.FSDPModule):  # type: ignore[union-attr]
            yield from module._get_fsdp_state()._fsdp_param_groups


def _gathered(group: Any) -> Gathered:
    parameters: list[Any] = group.fsdp_params
    whole = reduced = 0
    for each in parameters:
        count = each._orig_size.numel()
        kept, lower = each.sharded_param.dtype, getattr(each, "param_dtype", None)
        whole += count * (lower or kept).itemsize
        if each.sharded_param.requires_grad:
            reduced += count * (getattr(each, "reduce_dtype", None) or lower or kept).itemsize
    shards = {
        id(each._unsharded_param): id(each.sharded_param) for each in parameters if hasattr(each, "_unsharded_param")
    }
    return Gathered(shards=shards, whole_bytes=whole, reduced_bytes=reduced)
