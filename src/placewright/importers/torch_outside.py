"""Where a tensor that a module reads stands outside of it: a global, a closure, a container.

Imported only where torch is known to be present.
"""

from __future__ import annotations

import gc
import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Outside:
    """The references to a tensor when a plan was made. name: what the first of them calls it, or nothing."""

    name: str
    tensor: Any
    references: Sequence[tuple[Any, Any]]

    @property
    def is_there(self) -> bool:
        """Whether all of them are still to this tensor; one that is not may be the one that forward reads."""
        return all(_at(container, key) is self.tensor for container, key in self.references)


def outside_of(tensor: Any) -> Outside:
    """The dictionaries, lists and closures that refer to a tensor."""
    found: list[tuple[Any, Any]] = []
    for holder in gc.get_referrers(tensor):
        if isinstance(holder, dict):
            found += [(holder, key) for key, value in list(holder.items()) if value is tensor]
        elif isinstance(holder, list):
            found += [(holder, place) for place, value in enumerate(holder) if value is tensor]
        elif isinstance(holder, types.CellType):
            found.append((holder, None))
    names = [key for _, key in found if isinstance(key, str)]
    return Outside(name=names[0] if names else "", tensor=tensor, references=found)


def _at(container: Any, key: Any) -> Any:
    try:
        return container.cell_contents if isinstance(container, types.CellType) else container[key]
    except (KeyError, IndexError, ValueError):
        return None
