"""Tensors from rank to rank: a head that says what follows, and what follows.

Strides travel with a tensor, since an op may compute other last bits for another layout. The stream between two ranks
is the same list of messages on both sides, in the order of the sender; a rank that stops sends that word instead of
the rest, so that no message is left behind for the next step.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from placewright.execution.pytorch.layout import extent_of, packed
from placewright.support.errors import InputError, RankError, shown

_MAX_DIMENSIONS = 32
_HEAD = 4 + 2 * _MAX_DIMENSIONS
_AGAIN = "start all ranks again to run on"
_NOTHING, _TENSOR, _STOPPED = range(3)
_DTYPES = tuple(
    getattr(torch, name)
    for name in (
        *("float32", "float64", "float16", "bfloat16", "complex64", "complex128", "complex32"),
        *("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "bool"),
        *("float8_e4m3fn", "float8_e5m2"),
    )
)


class Wire:
    """Both directions between this rank and another one.

    Two threads may use it at once, one to send and one to receive. timeout_s: how long either waits for the other.
    """

    def __init__(self, group: Any, peer: int, timeout_s: float) -> None:
        self.peer = peer
        self._group = group
        self.timeout_s = timeout_s

    def send(self, tensor: torch.Tensor | None) -> None:
        """Sends a tensor, or that nothing follows; returns when the other rank has it. Raises RankError."""
        if tensor is None:
            return self._send([_NOTHING, 0, 0, 0], None)
        if tensor.layout != torch.strided or tensor.dtype not in _DTYPES or tensor.dim() > _MAX_DIMENSIONS:
            raise InputError(f"a tensor of {shown(tensor.dtype)} in the layout {tensor.layout} cannot go to a rank")
        tensor = tensor.detach().resolve_conj().resolve_neg()
        head = [_TENSOR, _DTYPES.index(tensor.dtype), tensor.dim(), extent_of(tensor), *tensor.shape, *tensor.stride()]
        return self._send(head, packed(tensor))

    def send_stop(self, why: str) -> None:
        """Tells the other rank that no more messages of this step come. Raises RankError."""
        text = torch.frombuffer(bytearray(why.encode()), dtype=torch.uint8)
        self._send([_STOPPED, 0, 0, text.numel()], text)

    def receive(self) -> torch.Tensor | None:
        """The next message. Raises RankError, with the reason of the other rank where it stopped."""
        head = torch.empty(_HEAD, dtype=torch.int64)
        self._receive(head)
        kind, dtype, dim, extent, *layout = head.tolist()
        if kind == _NOTHING:
            return None
        if kind == _STOPPED:
            text = torch.empty(extent, dtype=torch.uint8)
            self._receive(text)
            raise RankError(f"rank {self.peer} stopped: {bytes(text.tolist()).decode()}")
        return self._unpacked(_DTYPES[dtype], extent, tuple(layout[:dim]), tuple(layout[dim : 2 * dim]))

    def _unpacked(
        self, dtype: torch.dtype, extent: int, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> torch.Tensor:
        try:
            memory = torch.empty(extent, dtype=dtype)
            tensor = memory.as_strided(shape, strides)
            row = memory if extent <= tensor.numel() else torch.empty(tensor.numel(), dtype=dtype)
        except RuntimeError as error:
            raise RankError(f"no memory for {list(shape)} from rank {self.peer}; {_AGAIN}") from error
        self._receive(row)
        return tensor if row is memory else tensor.copy_(row.view(shape))

    def _send(self, head: list[int], body: torch.Tensor | None) -> None:
        whole = torch.tensor(head + [0] * (_HEAD - len(head)), dtype=torch.int64)
        parts = [whole] if body is None or body.numel() == 0 else [whole, _bytes(body)]
        # All are on their way before the first is waited for.
        self._wait([(dist.isend, part) for part in parts])

    def _receive(self, flat: torch.Tensor) -> None:
        if flat.numel():
            self._wait([(dist.irecv, _bytes(flat))])

    def _wait(self, transfers: list[Any]) -> None:
        try:
            works = [transfer(part, group=self._group, **self._named(transfer)) for transfer, part in transfers]
            for work in works:
                work.wait(timedelta(seconds=self.timeout_s))
        except RuntimeError as error:
            raise RankError(self._what_happened(str(error))) from error

    def _named(self, transfer: Any) -> dict[str, int]:
        return {"group_dst" if transfer is dist.isend else "group_src": self.peer}

    def _what_happened(self, error: str) -> str:
        if "Timed out" in error or "timed out" in error:
            return f"rank {self.peer} did not answer within {self.timeout_s:g} s; {_AGAIN}"
        return f"rank {self.peer} is gone, its connection closed; {_AGAIN}"


def _bytes(row: torch.Tensor) -> torch.Tensor:
    return row.view(torch.uint8)
