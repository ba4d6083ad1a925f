"""Which parameters of a module are weights, where only their names can tell."""

from __future__ import annotations

import re
from collections.abc import Sequence

from placewright.importers.xla.program import Array
from placewright.support.quantities import counted

#: An array inside an argument, as JAX writes it: "weights['dense'][0]", "state.params.kernel".
_PART = re.compile(r"([A-Za-z_]\w*)(?:\[|\.[A-Za-z_])")


def named_weights(labels: Sequence[str], kinds: Sequence[Array]) -> tuple[set[int], str]:
    """Positions of the floating parameters that are parts of the first of several arguments, and that assumption in
    words; empty where the first parameter is not such a part."""
    first = _PART.match(labels[0]) if labels else None
    if first is None:
        return set(), ""
    own = [place for place, label in enumerate(labels) if (part := _PART.match(label)) and part[1] == first[1]]
    if len(own) == len(labels):
        return set(), ""
    floating = {place for place in own if "float" in kinds[place].dtype}
    named = counted(len(floating), "parameter")
    return floating, f"taken for weights: {named} of the module, as parts of its argument '{first[1]}'"
