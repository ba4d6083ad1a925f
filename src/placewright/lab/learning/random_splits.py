"""The control of every policy: a search that starts from random splits of the graph and knows nothing else of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

import placewright._core as _core
from placewright.decoder import WITH_AFFINITIES
from placewright.lab.learning.regal.features import edges_of
from placewright.lab.learning.regal.smoothed_affinity import NUM_KINDS, smoothed_affinities
from placewright.lab.peers.brkga import Brkga
from placewright.problem import Problem
from placewright.search.run.drive import drive
from placewright.search.run.result import Result, Solution
from placewright.search.run.search_run import SearchRun, settings_of
from placewright.support.errors import InputError

#: Keeps the splits and the search after them from drawing the same numbers.
_OWN_SEED = 0x5EED_5B117
_MOST = np.iinfo(np.uint32).max


@dataclass(frozen=True, kw_only=True)
class RandomSplits:
    """BRKGA whose first individuals are smooth random splits. Each op has a random share of each device, which is
    smoothed over the graph's edges as a policy's features are; the op is on the device with the largest share. Ops run
    in the order in which they become ready. What a policy or a rule gains beyond this is its knowledge of the graph.

    search: evolves the splits, as many as its population, with its decoder.
    """

    name: str = "random-splits"
    search: Brkga = field(default_factory=Brkga)

    def __post_init__(self) -> None:
        if self.search.decoder not in WITH_AFFINITIES:
            raise InputError(
                f"decoder '{self.search.decoder}' chooses devices itself, so '{self.name}' has nothing to split; "
                f"use one of {', '.join(WITH_AFFINITIES)}"
            )

    def solve(self, problem: Problem, run: SearchRun) -> Result:
        """Solve as `Method.solve` does."""
        splits = random_splits(problem, self.search.population, run.seed ^ _OWN_SEED)
        search = self.search.start(problem, run.seed, chromosomes=splits, threads=run.threads)
        reason = drive(run, search, self.name, first_batch=run.threads)
        device_of, order = search.best()
        solution = Solution(device_of=device_of, order=order)
        return run.result(problem, self.name, solution, stopped_because=reason, configuration=settings_of(self))


def random_splits(problem: Problem, count: int, seed: int) -> list[NDArray[np.uint32]]:
    """Return that many chromosomes in the layout of the paper's decoder, with all kinds of smoothing equally often.
    Affinities are certain, ops lose priority in the order in which they become ready, and transfers leave at once."""
    core = problem.core
    ready = np.empty(core.num_ops)
    ready[_core.bfs_order(core)] = np.arange(core.num_ops)
    source, target, _ = edges_of(problem)
    draws = -(-count // NUM_KINDS)
    shares = np.random.default_rng(seed).random((core.num_ops, draws * core.num_devices))
    smooth = smoothed_affinities(source, target, shares, ready).reshape(core.num_ops, -1, core.num_devices)
    device_of = smooth.argmax(axis=2)
    priority = (_MOST * (1 - ready / core.num_ops)).astype(np.uint32)
    transfers = np.full(core.num_tensors * core.num_devices, _MOST, np.uint32)
    devices = np.arange(core.num_devices)
    affinities = np.where(device_of[:, :, None] == devices, _MOST, 0).astype(np.uint32)
    return [np.concatenate([affinities[:, split].ravel(), priority, transfers]) for split in range(count)]


#: With the other decoder that shipped policies use.
RANDOM_SPLITS_LAZY = RandomSplits(name="random-splits-lazy", search=Brkga(decoder="lazy"))
