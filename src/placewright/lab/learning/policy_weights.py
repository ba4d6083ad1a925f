"""What all policies do with their weights: see that they are those of the network, and make a title of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from placewright.methods.policies import Weights
from placewright.support.errors import InputError, shown


def check_weights(policy: str, weights: Weights, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raises InputError unless the weights of the policy of that name have these names and shapes."""
    if set(weights) != set(shapes):
        strange = min(set(weights) ^ set(shapes))
        raise InputError(f"policy '{shown(policy)}' has not the weights of its network: see '{shown(strange)}'")
    for name, shape in shapes.items():
        array = weights[name]
        if array.shape != shape or array.dtype != np.float32 or not np.isfinite(array).all():
            raise InputError(
                f"policy '{shown(policy)}': '{name}' is not {' x '.join(map(str, shape))} finite float32 numbers"
            )


def title_of(policy: str, settings: str, weights: Weights) -> str:
    """Its name and eight digits of all that decides its guides: two trainings may give one name."""
    digest = hashlib.sha256(settings.encode())
    for name in sorted(weights):
        digest.update(np.ascontiguousarray(weights[name], "<f4").tobytes())
    return f"{policy} {digest.hexdigest()[:8]}"
