"""What a module returns: its tensors, and all else that they stand in.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

#: Stands for a tensor.
_TENSOR = object()
#: Values that are as good as others equal to them.
PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size)


class Returned:
    """Containers, values and objects as the model returned them when it was traced, and where the tensors stand in
    them."""

    def __init__(self) -> None:
        self.read(torch.empty(0), ())

    def read(self, output: Any, known: Collection[Any]) -> list[Any]:
        """The tensors that the model returned, those in objects such as the caches of language models last.

        known: objects that outlive the call, which are returned as they are.
        """
        leaves, self._structure = pytree.tree_flatten(output)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        self._leaves = [_TENSOR if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self._count, self._objects = len(tensors), b""
        objects = [leaf for leaf in self._leaves if leaf is not _TENSOR]
        if all(isinstance(leaf, PLAIN) for leaf in objects):
            return tensors
        file = io.BytesIO()
        pickler = _Pickler(file, {id(each) for each in known})
        try:
            pickler.dump(objects)
        except Exception:
            return tensors  # What cannot be made anew stays as it is.
        if pickler.tensors:
            self._objects, self._known = file.getvalue(), pickler.kept
            self._leaves = [_TENSOR if leaf is _TENSOR else None for leaf in self._leaves]
        return [*tensors, *pickler.tensors]

    def filled(self, tensors: Sequence[Any]) -> Any:
        """The same with these tensors, in order."""
        each = iter(tensors[: self._count])
        others = iter([leaf for leaf in self._leaves if leaf is not _TENSOR])
        if self._objects:
            others = iter(_Unpickler(io.BytesIO(self._objects), tensors[self._count :], self._known).load())
        leaves = [next(each if leaf is _TENSOR else others) for leaf in self._leaves]
        return pytree.tree_unflatten(leaves, self._structure)


class _Pickler(pickle.Pickler):
    """Writes objects without their tensors, and without what is returned as it is."""

    def __init__(self, file: io.BytesIO, known: Collection[int]) -> None:
        super().__init__(file)
        self.tensors: list[Any] = []
        self.kept: list[Any] = []
        self._known = known

    def persistent_id(self, value: Any) -> tuple[str, int] | None:
        """Where the value stands instead; None for what is written."""
        if isinstance(value, torch.Tensor):
            held = self.tensors
        elif isinstance(value, nn.Module) or (id(value) in self._known and not isinstance(value, PLAIN)):
            held = self.kept
        else:
            return None
        place = next((place for place, other in enumerate(held) if other is value), len(held))
        if place == len(held):
            held.append(value)
        return ("tensor" if held is self.tensors else "kept", place)


class _Unpickler(pickle.Unpickler):
    """Reads what a `_Pickler` of this process has written."""

    def __init__(self, file: io.BytesIO, tensors: Sequence[Any], kept: Sequence[Any]) -> None:
        super().__init__(file)
        self._values = {"tensor": tensors, "kept": kept}

    def persistent_load(self, place: tuple[str, int]) -> Any:
        """What stands there."""
        kind, number = place
        return self._values[kind][number]
