"""Networks of the zoo with random weights and inputs, to be run; other scripts of this folder import this.

Some of them are functions that `placewright run benchmarks/zoo_modules.py:googlenet` takes.
"""

from __future__ import annotations

import torch

from placewright.lab.datasets.zoo.catalogue import all_networks

#: Every vocabulary of the zoo has so many words.
WORDS = 8


def module_of(name: str, batch: int) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """A network and its arguments: the zoo's shapes with another batch, the same values every time."""
    torch.manual_seed(1)
    model, arguments = next(network for network in all_networks() if network.name == name).build()
    given = arguments[0].shape[0]
    shapes = [
        (batch, *argument.shape[1:]) if argument.dim() and argument.shape[0] == given else tuple(argument.shape)
        for argument in arguments
    ]
    return model, tuple(
        torch.randn(shape) if argument.is_floating_point() else torch.randint(0, WORDS, shape)
        for shape, argument in zip(shapes, arguments, strict=True)
    )


def nasnet() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """NASNet-A mobile for one picture."""
    return module_of("nasnet_a_mobile", 1)


def googlenet() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """GoogLeNet for two pictures."""
    return module_of("googlenet", 2)


def bert() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """BERT-tiny for two texts."""
    return module_of("bert_tiny", 2)


def mmoe() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """A mixture of experts that takes a millisecond."""
    return module_of("mmoe", 1)
