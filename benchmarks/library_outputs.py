"""Any network as one that can be captured: what it returns is tensors, in training one loss of them all.

`library_listing.py` and `library_transformers.py` import this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from placewright.lab.datasets.zoo.objectives import cross_entropy, squared_error


class Whole(nn.Module):
    """The module with every floating-point tensor it returns, in training with the sum of their losses: cross entropy
    of [batch, classes], squared error of all others.

    names: of the inputs, where the module takes them by name. first: whether only the first tensor counts, as where the
    others are states and caches.
    """

    def __init__(self, model: nn.Module, names: Sequence[str] = (), *, first: bool = False) -> None:
        super().__init__()
        self.model, self.names, self.first = model, tuple(names), first

    def forward(self, *inputs: Tensor) -> Any:  # what the model takes -> its tensors, or []
        named = dict(zip(self.names, inputs, strict=True)) if self.names else {}
        output = self.model(**named) if named else self.model(*inputs)
        tensors = [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
        tensors = tensors[:1] if self.first else tensors
        if not self.training:
            return tuple(tensors)
        losses = [cross_entropy(each) if each.dim() == 2 else squared_error(each) for each in tensors]
        return sum(losses[1:], losses[0])
