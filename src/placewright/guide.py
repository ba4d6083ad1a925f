"""The guide: what a policy tells a search. A search says which kinds it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.proposal import Proposal


@dataclass(frozen=True, kw_only=True, eq=False)
class Placement:
    """A device for each op; where it disagrees with the problem's groups, the first op of each group decides.

    device_of: int32 [num scheduled ops].
    """

    device_of: NDArray[np.int32]


#: Distributions of the keys that a search draws, or devices to begin with.
Guide: TypeAlias = Proposal | Placement
