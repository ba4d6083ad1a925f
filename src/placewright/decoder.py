"""Decoders by name: what a search's keys mean.

Keys are uint32, random numbers in [0, 1) times 2^32. A proposal gives a distribution to each key a decoder has.

- paper: REGAL's (A.5). Keys: op x device affinities, op priorities, tensor x device transfer priorities. Devices by
  affinity; one queue of ops and transfers.
- lazy: the same keys, those of transfers without effect; a queue of ops; transfers right before their first use.
- early-free: as lazy, but a transfer leaves as soon as sending frees its tensor at home.
- evict: as lazy, but a tensor that only other devices still read leaves when its device would exceed a memory target:
  the limits, and where memory is the objective also 85% of the peak with late transfers.
- segment-fill: one priority per op, from which the list scheduler chooses devices, order and barriers.
- earliest-finish: one priority per op; a queue of ops; each goes where it finishes first, or where the peak stays least
  when memory is the objective. Transfers as in lazy.

docs/algorithms.md says what speaks for each.
"""

from __future__ import annotations

from typing import Literal, get_args

from placewright.support.errors import InputError, did_you_mean

DecoderName = Literal["paper", "lazy", "early-free", "evict", "segment-fill", "earliest-finish"]
DECODERS: tuple[DecoderName, ...] = get_args(DecoderName)
#: Those whose keys are in the paper's layout; the others have a priority per op and choose devices themselves.
WITH_AFFINITIES: tuple[DecoderName, ...] = ("paper", "lazy", "early-free", "evict")


def check_decoder(name: str) -> None:
    """Raises InputError when there is no decoder of that name."""
    if name not in DECODERS:
        raise InputError(f"there is no decoder '{name}'{did_you_mean(name, DECODERS)}")
