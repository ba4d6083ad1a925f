"""Attention and top-k pooling of torch_geometric on copies of one graph side by side, computed by the core.

Weights, their names and results are those of `GATConv` and `TopKPooling`, the base classes. Those spend most of their
time on indexing and on building edges for graphs as small as a network of ops; the core visits the neighbours of each
node once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from placewright._core import Neighbours
from placewright.support.errors import MissingExtraError

try:
    from torch_geometric.nn import GATConv, TopKPooling
except ImportError as error:
    raise MissingExtraError("torch_geometric", "train", "a graph policy of memory maps") from error

_POOLED = 0.5


class Attention(GATConv):
    """Attention with `heads` heads, concatenated in the result, and a ReLU."""

    def __init__(self, num_inputs: int, width: int, heads: int) -> None:
        super().__init__(num_inputs, width // heads, heads=heads)

    def forward(self, nodes: Tensor, neighbours: Neighbours) -> Tensor:
        """Map [nodes, inputs] to [nodes, width]."""
        return self.attended(self.lin(nodes), neighbours)

    def attended(self, states: Tensor, neighbours: Neighbours) -> Tensor:
        """Return the attention over nodes that are already multiplied by its matrix."""
        result: Tensor = _Attended.apply(states, self.att_src, self.att_dst, self.bias, neighbours, self.heads)
        return result


class HalfPooling(TopKPooling):
    """Pooling that keeps the half of each copy's nodes that score highest."""

    def __init__(self, width: int) -> None:
        super().__init__(width, _POOLED)

    def forward(self, nodes: Tensor, neighbours: Neighbours) -> tuple[Tensor, Tensor, Neighbours]:
        """Return the kept nodes times their scores; their numbers; and their neighbours: those one or two edges
        away."""
        weight = self.select.weight[0]
        scores = torch.tanh(nodes @ (weight / weight.norm()))
        numbers, fewer = neighbours.pooled(scores.detach().numpy())
        kept = torch.from_numpy(numbers)
        return nodes.index_select(0, kept) * scores.index_select(0, kept)[:, None], kept, fewer


class _Attended(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, states: Tensor, of_source: Tensor, of_target: Tensor, bias: Tensor, of: Neighbours, heads: int
    ) -> Tensor:
        result, shares = of.attend(_flat(states), _flat(of_source), _flat(of_target), _flat(bias), heads)
        attended = torch.from_numpy(result).view_as(states)
        context.save_for_backward(states, of_source, of_target, bias, attended)
        context.rest = of, heads, shares
        return attended

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(context: Any, by_result: Tensor) -> Any:
        *inputs, attended = context.saved_tensors
        states, of_source, of_target, bias = map(_flat, inputs)
        of, heads, shares = context.rest
        gradients = of.attend_back(states, of_source, of_target, bias, heads, _flat(attended), shares, _flat(by_result))
        shaped = [torch.from_numpy(each).view_as(one) for each, one in zip(gradients, inputs, strict=True)]
        return *shaped, None, None


def _flat(tensor: Tensor) -> NDArray[np.float32]:
    found: NDArray[np.float32] = tensor.detach().reshape(-1).numpy()
    return found
