"""Graph policies as individuals: the weights of a network, changed and crossed as in the authors' code."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from placewright.methods.policies import Weights

Float32 = NDArray[np.float32]

#: The largest share of a matrix's entries that change at a time, and of its rows that are crossed.
_MOST_ENTRIES, _MOST_ROWS = 0.05, 0.3
#: The shares of changed entries that change a lot and that start anew; the relative size of changes.
_MUCH, _ANEW = 0.05, 0.02
_LITTLE_NOISE, _MUCH_NOISE, _FRESH = 0.1, 10.0, 0.1
#: How much rarer a row of numbers, such as biases, changes than a matrix; the probability that it is crossed.
_ROW_RARER, _ROW_CROSSED = 0.04, 0.2


class Actor(Protocol):
    """A network on one problem."""

    def probabilities(self, weights: Weights) -> NDArray[np.float64]:
        """Return the probabilities of the levels of each decision, [ops, 2, levels]."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class GraphGenome:
    """A graph policy. weights: of the actor's network, by name."""

    weights: Weights
    actor: Actor

    def probabilities(self) -> NDArray[np.float64]:
        return self.actor.probabilities(self.weights)

    def likeliest(self) -> NDArray[np.uint8]:
        """Return the likeliest levels, [ops, 2]."""
        return self.probabilities().argmax(axis=-1).astype(np.uint8)

    def arrays(self) -> Weights:
        return self.weights


def mutated_weights(genome: GraphGenome, random: np.random.Generator, *, all_arrays: bool) -> GraphGenome:
    """Change a few entries of some arrays. all_arrays: also those with more than two dimensions, such as the attention
    of a GAT, which the authors' code leaves unchanged."""
    changed: dict[str, Float32] = {}
    for name, array in genome.weights.items():
        rarer = _ROW_RARER if array.ndim == 1 else 1.0
        is_changed = random.random() < random.uniform(0, 2) * rarer
        changed[name] = _mutated(array, random) if is_changed and (array.ndim <= 2 or all_arrays) else array
    return replace(genome, weights=changed)


def _mutated(array: Float32, random: np.random.Generator) -> Float32:
    result = array.copy()
    flat = result.reshape(-1)
    count = int(random.integers(1, max(2, int(_MOST_ENTRIES * flat.size) + 1)))
    entries = random.integers(0, flat.size, count)
    kind, noise = random.random(count), random.standard_normal(count)
    relative = np.where(kind < _MUCH, _MUCH_NOISE, _LITTLE_NOISE) * np.abs(flat[entries])
    fresh = noise * (1.0 if array.ndim == 1 else _FRESH)
    flat[entries] = np.where(kind >= 1 - _ANEW, fresh, flat[entries] + noise * relative)
    return result


def crossed_rows(one: GraphGenome, other: GraphGenome, random: np.random.Generator) -> GraphGenome:
    """Return the other with some rows of the one in every matrix, and with one number of it in some rows of numbers."""
    changed: dict[str, Float32] = {}
    for name, array in other.weights.items():
        rows = array.copy()
        if array.ndim == 1:
            taken = random.integers(0, len(rows), 1) if random.random() < _ROW_CROSSED else np.zeros(0, np.int64)
        else:
            taken = random.integers(0, len(rows), int(random.integers(0, max(1, int(_MOST_ROWS * len(rows))) + 1)))
        rows[taken] = one.weights[name][taken]
        changed[name] = rows
    return replace(other, weights=changed)
