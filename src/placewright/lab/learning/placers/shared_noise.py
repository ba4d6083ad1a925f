"""Noise that units share, the more bytes pass between them the more: placements drawn with it cut a graph where few
bytes pass. If each op is drawn independently, any placement on several devices sends nearly every tensor, the single
device is better than all draws, and a learner soon draws nothing else."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

#: How often noise is averaged over neighbours, log-uniform: from a few ops that go together to whole layers.
ROUNDS = (16, 1024)
#: Added to the bytes of every edge, so that an edge without bytes, such as a control dependency, counts too.
LEAST_BYTES = 1e4


class SharedNoise:
    """Averages over neighbours, weighted by bytes, in which each unit weighs as much as all of its neighbours.

    edges: [2, num edges] from unit to unit. bytes_on: [num edges].
    """

    def __init__(self, edges: NDArray[np.int64], bytes_on: NDArray[np.float64], count: int) -> None:
        source, target = torch.from_numpy(edges)
        weight = torch.from_numpy(bytes_on + LEAST_BYTES)
        whole = torch.zeros(count, dtype=torch.float64).index_add_(0, source, weight).index_add_(0, target, weight)
        alone = torch.where(whole > 0, whole, 1.0)
        unit = torch.arange(count)
        rows, columns = torch.cat([source, target, unit]), torch.cat([target, source, unit])
        share = torch.cat([weight, weight, alone]) / (alone + whole)[rows]
        self._count = count
        places = torch.stack([rows, columns])
        with warnings.catch_warnings():  # the warning that sparse rows are new in PyTorch and not checked
            warnings.simplefilter("ignore", UserWarning)
            self._mean = torch.sparse_coo_tensor(places, share.float(), (count, count)).to_sparse_csr()

    def draw(self, number: int, generator: torch.Generator) -> Tensor:
        """Draw noise, [number, units], each row with mean 0 and standard deviation 1 over all units."""
        least, most = np.log(ROUNDS)
        rounds = int(np.exp(least + (most - least) * float(torch.rand((), generator=generator))))
        found = torch.randn(self._count, number, generator=generator)
        for _ in range(rounds):
            found = self._mean @ found
        found = (found - found.mean(0)).T
        deviation = found.std(1, correction=0, keepdim=True)
        return torch.where(deviation > 0, found / deviation.clamp(min=1e-30), found)


def choices(
    logits: Tensor, noise: SharedNoise, scale: float, count: int, generator: torch.Generator, fixed: int | None = None
) -> Tensor:
    """Return the likeliest choices with noise of that deviation added to the logits: [units, choices] -> [count,
    units].

    fixed: a unit whose choice is the first: where noise gives it another, the two choices swap their names. Otherwise
    half of the draws would repeat the other half under swapped names, from which nothing can be learned.
    """
    units, number = logits.shape
    fields = noise.draw(count * number, generator).view(count, number, units)
    if fixed is not None:
        row, wished = torch.arange(count), fields[:, :, fixed].argmax(1)
        first = fields[:, 0].clone()
        fields[:, 0] = fields[row, wished]
        fields[row, wished] = first
    return (logits + scale * fields.transpose(1, 2)).argmax(2)
