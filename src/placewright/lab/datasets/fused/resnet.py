"""Residual networks (He et al. 2015): each convolution is one op with its normalisation, activation and residual sum.

ResNet-50 thus has 53 convolutions, two poolings, a matrix product and a softmax: the 57 nodes of the EGRL paper.
"""

from __future__ import annotations

from placewright.graph import Graph
from placewright.lab.datasets.fused.layers import FusedBuilder

#: Blocks per stage, and whether a block is a bottleneck of three convolutions.
_DEPTHS = {
    18: ((2, 2, 2, 2), False),
    34: ((3, 4, 6, 3), False),
    50: ((3, 4, 6, 3), True),
    101: ((3, 4, 23, 3), True),
    152: ((3, 8, 36, 3), True),
}


def resnet(depth: int) -> Graph:
    """Build the network of 18, 34, 50, 101 or 152 layers for an image of 224 x 224."""
    stages, is_bottleneck = _DEPTHS[depth]
    net = FusedBuilder(f"resnet{depth}-int8")
    block = _bottleneck if is_bottleneck else _basic
    tensor = net.conv("conv1", [net.input("image", (1, 3, 224, 224))], 64, 7, 2)
    tensor = _pool(net, "maxpool", tensor)
    for stage, blocks in enumerate(stages):
        for number in range(blocks):
            stride = 2 if stage > 0 and number == 0 else 1
            tensor = block(net, f"layer{stage + 1}.{number}", tensor, 64 * 2**stage, stride)
    channels = net.shape(tensor)[1]
    attributes = {"function": "average", "global": True}
    tensor = net.op("avgpool", "pooling", [tensor], (1, channels), attributes=attributes)
    tensor = net.linear("fc", tensor, 1000, bias=True)
    tensor = net.op("softmax", "softmax", [tensor], (1, 1000))
    return net.build(tensor, "He et al., Deep Residual Learning for Image Recognition, CVPR 2016")


def _pool(net: FusedBuilder, name: str, tensor: int) -> int:
    _, channels, height, width = net.shape(tensor)
    attributes = {"function": "max", "kernel": [3, 3], "stride": [2, 2], "padding": [1, 1]}
    return net.op(name, "pooling", [tensor], (1, channels, height // 2, width // 2), attributes=attributes)


def _bottleneck(net: FusedBuilder, name: str, tensor: int, width: int, stride: int) -> int:
    hidden = net.conv(f"{name}.conv1", [tensor], width, 1)
    hidden = net.conv(f"{name}.conv2", [hidden], width, 3, stride)
    shortcut = _shortcut(net, name, tensor, 4 * width, stride)
    return net.conv(f"{name}.conv3", [hidden, shortcut], 4 * width, 1)


def _basic(net: FusedBuilder, name: str, tensor: int, width: int, stride: int) -> int:
    hidden = net.conv(f"{name}.conv1", [tensor], width, 3, stride)
    shortcut = _shortcut(net, name, tensor, width, stride)
    return net.conv(f"{name}.conv2", [hidden, shortcut], width, 3)


def _shortcut(net: FusedBuilder, name: str, tensor: int, channels: int, stride: int) -> int:
    """Return the term that is added to the block's result: its input, projected where the shapes differ."""
    if stride == 1 and net.shape(tensor)[1] == channels:
        return tensor
    return net.conv(f"{name}.downsample", [tensor], channels, 1, stride)
