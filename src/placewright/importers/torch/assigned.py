"""What forward assigns to attributes of the module: tensors, plain values, and lists, tuples and dictionaries of them.

Imported only where torch is known to be present.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from placewright.importers.torch.calls import BACKEND
from placewright.importers.torch.held import GONE, Slot
from placewright.importers.torch.returned import PLAIN, Returned
from placewright.support.errors import InputError, shown

#: Where something is assigned, what was there before, and what is there then.
Change = tuple[Slot, Any, Any]


@dataclass(kw_only=True)
class Assigned:
    """An attribute that holds another value after the call. value: as it was traced, without its tensors.
    differentiable: of each of them, whether it would have a gradient where gradients are on."""

    slot: Slot
    differentiable: tuple[bool, ...]
    value: Returned = field(default_factory=Returned)

    def read(self, value: Any, detached: dict[int, Any], own: Collection[int]) -> list[Any]:
        """Keeps the value, and returns its tensors. The loss does not depend on them; one without a gradient stays what
        it is, which may be the module's own or an argument.

        detached: what was returned for tensors that other attributes hold, too; by identity, as are own: the tensors of
        the module and the arguments.
        """
        tensors = self.value.read(value, ())
        for tensor in tensors:
            is_own = id(tensor) in own
            # Without gradients only what forward made where it switched them on is no leaf.
            is_cut = tensor.requires_grad and (torch.is_grad_enabled() or not (is_own or tensor.is_leaf))
            if is_cut and is_own:
                raise InputError(
                    "forward puts a parameter, or an argument that requires a gradient, into the attribute "
                    f"'{shown(self.slot.name)}', where a planned step could only put a copy; {BACKEND}"
                )
            detached.setdefault(id(tensor), tensor.detach() if is_cut else tensor)
        return [detached[id(tensor)] for tensor in tensors]


def check_steady(changes: Sequence[Change], later: Sequence[Change]) -> None:
    """Raises InputError for an assignment that a plan could not make in the same way at every call.

    later: what a second call changes. It may find more in the attributes than the first and make less; what it assigns
    is as what it has found.
    """
    for slot, old, new in changes:
        leaves = pytree.tree_leaves(new)
        if slot.key in (None, "training") or not all(isinstance(leaf, (torch.Tensor, *PLAIN)) for leaf in leaves):
            raise InputError(f"{_told_of(slot, old, new)}, which a plan would not do; {BACKEND}")
    for slot, old, new in later:
        if not _is_alike(old, new):
            first = next((each for each in changes if each[0].name == slot.name), changes[0])
            raise InputError(f"{_told_of(*first)}, and another time at the next call; {BACKEND}")


def _is_alike(old: Any, new: Any) -> bool:
    """Whether two values differ by the numbers in their tensors alone."""
    (one, structure), (other, same) = pytree.tree_flatten(old), pytree.tree_flatten(new)
    return structure == same and all(map(_is_one_sort, one, other))


def _is_one_sort(old: Any, new: Any) -> bool:
    if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor):
        return (old.shape, old.dtype, old.device) == (new.shape, new.dtype, new.device)
    return type(old) is type(new) and isinstance(old, PLAIN) and bool(old == new)


def _told_of(slot: Slot, old: Any, new: Any) -> str:
    return f"forward changes the attribute '{shown(slot.name)}' from {_told(old)} to {_told(new)}"


def _told(value: Any) -> str:
    """A value in a sentence."""
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if value is GONE:
        return "nothing"
    is_short = value is None or (type(value) in (int, float, str, bool) and len(repr(value)) < 40)
    return shown(repr(value)) if is_short else f"a {type(value).__name__}"
