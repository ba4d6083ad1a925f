"""AmoebaNet-D (Real et al., Regularized Evolution for Image Classifier Architecture Search, AAAI 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from placewright.lab.datasets.zoo.layers import padding_of


@dataclass(frozen=True, kw_only=True)
class Genotype:
    """A cell as found by the architecture search: blocks that add two results, each of an operation on an earlier
    state.

    States 0 and 1 are the outputs of the cell before the last and of the last; block i makes state i + 2.
    blocks: ((operation, state), (operation, state)). joined: states whose channels are the cell's output.
    """

    blocks: Sequence[tuple[tuple[str, int], tuple[str, int]]]
    joined: Sequence[int]


AMOEBANET_NORMAL = Genotype(
    blocks=(
        (("pointwise", 1), ("maximum", 1)),
        (("identity", 1), ("bottleneck7", 0)),
        (("pointwise", 0), ("bottleneck7", 0)),
        (("maximum", 2), ("identity", 2)),
        (("average", 1), ("pointwise", 5)),
    ),
    joined=(0, 3, 4, 6),
)
AMOEBANET_REDUCTION = Genotype(
    blocks=(
        (("maximum", 0), ("maximum", 0)),
        (("identity", 2), ("full3", 1)),
        (("bottleneck7", 2), ("maximum", 2)),
        (("identity", 3), ("maximum", 1)),
        (("average", 2), ("pointwise", 3)),
    ),
    joined=(4, 5, 6),
)


class Halved(nn.Module):
    """Two projections that halve an image, the second of the image moved by one pixel (NASNet, appendix A.4)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.even = nn.Conv2d(inputs, outputs // 2, 1, 2, bias=False)
        self.odd = nn.Conv2d(inputs, outputs - outputs // 2, 1, 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, image: Tensor) -> Tensor:  # [batch, inputs, height, width] -> [batch, outputs, h / 2, w / 2]
        active = functional.relu(image)
        moved = functional.pad(active, (0, 1, 0, 1))[:, :, 1:, 1:]
        return self.norm(torch.cat([self.even(active), self.odd(moved)], dim=1))


def _active(inputs: int, outputs: int, kernel: int | tuple[int, int] = 1, stride: int = 1) -> list[nn.Module]:
    """ReLU, convolution, normalisation."""
    made = nn.Conv2d(inputs, outputs, kernel, stride, padding_of(kernel), bias=False)
    return [nn.ReLU(), made, nn.BatchNorm2d(outputs)]


def operation(name: str, width: int, stride: int) -> nn.Module:
    """One operation of a genotype, by name; a digit at the end is the size of its kernel."""
    if name == "identity":
        return nn.Identity() if stride == 1 else Halved(width, width)
    if name == "average":
        return nn.AvgPool2d(3, stride, 1, count_include_pad=False)
    if name == "maximum":
        return nn.MaxPool2d(3, stride, 1)
    if name == "pointwise":
        return nn.Sequential(*_active(width, width, 1, stride))
    if name == "full3":
        return nn.Sequential(*_active(width, width, 3, stride))
    inner = width // 4
    crossed = *_active(inner, inner, (1, 7), stride), *_active(inner, inner, (7, 1))
    return nn.Sequential(*_active(width, inner), *crossed, *_active(inner, width))


class Cell(nn.Module):
    """A genotype at a width. Its two inputs are first projected to that width, the older one also to the newer's
    size."""

    def __init__(self, genotype: Genotype, inputs: tuple[int, int], width: int, *, stride: int, halve: bool) -> None:
        super().__init__()
        self.genotype = genotype
        older, newer = inputs
        self.newer = nn.Sequential(*_active(newer, width))
        self.older: nn.Module = nn.Identity()
        if halve:
            self.older = Halved(older, width)
        elif older != width:
            self.older = nn.Sequential(*_active(older, width))
        self.operations = nn.ModuleList(
            operation(name, width, stride if state < 2 else 1) for block in genotype.blocks for name, state in block
        )
        self.outputs = len(genotype.joined) * width

    def forward(self, older: Tensor, newer: Tensor) -> Tensor:  # two images -> [batch, outputs, height, width]
        states = [self.older(older), self.newer(newer)]
        for number, ((_, left), (_, right)) in enumerate(self.genotype.blocks):
            first, second = self.operations[2 * number], self.operations[2 * number + 1]
            states.append(first(states[left]) + second(states[right]))
        return torch.cat([states[state] for state in self.genotype.joined], dim=1)


class AmoebaNet(nn.Module):
    """A chain of cells, each reading the two before it: two reductions, then three times four cells with a reduction
    between them."""

    def __init__(self, width: int = 128, normals: int = 4, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 3, 2, bias=False), nn.BatchNorm2d(64))
        reductions = [width // 4, width // 2, 2 * width, 4 * width]
        plan = [(AMOEBANET_REDUCTION, reduced) for reduced in reductions[:2]]
        for stage in range(3):
            plan += [(AMOEBANET_REDUCTION, reductions[1 + stage])] * (stage > 0)
            plan += [(AMOEBANET_NORMAL, width * 2**stage)] * normals
        self.cells = nn.ModuleList()
        channels, halve = (64, 64), False
        for genotype, cell_width in plan:
            stride = 2 if genotype is AMOEBANET_REDUCTION else 1
            cell = Cell(genotype, channels, cell_width, stride=stride, halve=halve)
            self.cells.append(cell)
            channels, halve = (channels[1], cell.outputs), stride == 2
        self.end = nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.classifier = nn.Linear(channels[1], classes)

    def forward(self, image: Tensor) -> Tensor:  # [batch, 3, height, width] -> [batch, classes]
        older = newer = self.stem(image)
        for cell in self.cells:
            older, newer = newer, cell(older, newer)
        return self.classifier(self.end(newer))
