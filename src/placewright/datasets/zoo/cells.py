"""Networks of searched cells: NASNet-A, PNASNet-5, AmoebaNet-D, DARTS."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from placewright.datasets.zoo.genotypes import (
    AMOEBANET_NORMAL,
    AMOEBANET_REDUCTION,
    DARTS_NORMAL,
    DARTS_REDUCTION,
    NASNET_NORMAL,
    NASNET_REDUCTION,
    PNASNET,
    Genotype,
)
from placewright.datasets.zoo.layers import padding_of
from placewright.datasets.zoo.objectives import entry


class Halved(nn.Module):
    """Halves an image by two projections, the second of the image moved by one pixel (NASNet, appendix A.4)."""

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


def _separable(inputs: int, outputs: int, kernel: int, stride: int, dilation: int = 1) -> list[nn.Module]:
    """ReLU, one filter per channel, projection, normalisation."""
    padding = padding_of(kernel, dilation)
    filters = nn.Conv2d(inputs, inputs, kernel, stride, padding, dilation, groups=inputs, bias=False)
    return [nn.ReLU(), filters, nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]


def operation(name: str, inputs: int, outputs: int, stride: int) -> nn.Module:
    """One operation of a genotype, by name; a digit at the end is the size of its kernel."""
    if name == "identity":
        return nn.Identity() if stride == 1 else Halved(inputs, outputs)
    if name == "average":
        return nn.AvgPool2d(3, stride, 1, count_include_pad=False)
    if name == "maximum":
        return nn.MaxPool2d(3, stride, 1)
    if name == "pointwise":
        return nn.Sequential(*_active(inputs, outputs, 1, stride))
    if name == "full3":
        return nn.Sequential(*_active(inputs, outputs, 3, stride))
    if name == "dilated3":
        return nn.Sequential(*_separable(inputs, outputs, 3, stride, 2))
    if name == "bottleneck7":
        inner = inputs // 4
        crossed = *_active(inner, inner, (1, 7), stride), *_active(inner, inner, (7, 1))
        return nn.Sequential(*_active(inputs, inner), *crossed, *_active(inner, outputs))
    kernel = int(name.removeprefix("separable"))
    return nn.Sequential(*_separable(inputs, outputs, kernel, stride), *_separable(outputs, outputs, kernel, 1))


class Cell(nn.Module):
    """A genotype at a width. Its two inputs are first brought to that width, the older one also to the newer's size."""

    def __init__(
        self, genotype: Genotype, inputs: tuple[int, int], width: int, *, stride: int, halve: bool, adjust: bool = True
    ) -> None:
        super().__init__()
        self.genotype = genotype
        older, newer = inputs
        self.newer = nn.Sequential(*_active(newer, width))
        self.older: nn.Module = nn.Identity()
        if halve:
            self.older = Halved(older, width)
        elif adjust and older != width:
            self.older = nn.Sequential(*_active(older, width))
        widths = [width if adjust else older] + [width] * (len(genotype.blocks) + 1)
        self.operations = nn.ModuleList(
            operation(name, widths[state], width, stride if state < 2 else 1)
            for block in genotype.blocks
            for name, state in block
        )
        self.outputs = len(genotype.joined) * width

    def forward(self, older: Tensor, newer: Tensor) -> Tensor:  # two images -> [batch, outputs, height, width]
        states = [self.older(older), self.newer(newer)]
        for number, ((_, left), (_, right)) in enumerate(self.genotype.blocks):
            first, second = self.operations[2 * number], self.operations[2 * number + 1]
            states.append(first(states[left]) + second(states[right]))
        return torch.cat([states[state] for state in self.genotype.joined], dim=1)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where the cells of a network stand.

    stem: channels and stride of its first convolution. stem_cells: reductions right after it. width: of the first
    normal cells. normals: normal cells before, between and after the two reductions. skip: whether the cell after a
    reduction reads past it to the state two before it (NASNet-A large). adjust: whether the very first cell brings
    both of its inputs to its width.
    """

    normal: Genotype
    reduction: Genotype
    stem: tuple[int, int]
    stem_cells: int
    width: int
    normals: tuple[int, int, int]
    classes: int
    skip: bool = False
    adjust: bool = True


class CellNetwork(nn.Module):
    """A chain of cells, each reading the two before it."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        channels, stride = layout.stem
        padding = 1 if stride == 1 else 0
        self.stem = nn.Sequential(nn.Conv2d(3, channels, 3, stride, padding, bias=False), nn.BatchNorm2d(channels))
        self.cells = nn.ModuleList()
        self.skips: list[bool] = []
        self.channels, self.halve = (channels, channels), False
        for place in range(layout.stem_cells):
            self._add(
                layout.reduction, layout.width // 2 ** (layout.stem_cells - place), 2, adjust=place > 0 or layout.adjust
            )
        for place, count in enumerate(layout.normals):
            width = layout.width * 2**place
            if place:
                self._add(layout.reduction, width, 2, skip=layout.skip)
            for _ in range(count):
                self._add(layout.normal, width, 1)
        self.end = nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.classifier = nn.Linear(self.channels[1], layout.classes)

    def _add(self, genotype: Genotype, width: int, stride: int, *, adjust: bool = True, skip: bool = False) -> None:
        cell = Cell(genotype, self.channels, width, stride=stride, halve=self.halve, adjust=adjust)
        self.cells.append(cell)
        self.skips.append(skip)
        self.channels, self.halve = (self.channels[0 if skip else 1], cell.outputs), stride == 2

    def forward(self, image: Tensor) -> Tensor:  # [batch, 3, height, width] -> [batch, classes]
        older = newer = self.stem(image)
        for cell, skip in zip(self.cells, self.skips, strict=True):
            older, newer = older if skip else newer, cell(older, newer)
        return self.classifier(self.end(newer))


NASNET = partial(Layout, normal=NASNET_NORMAL, reduction=NASNET_REDUCTION, stem_cells=2, classes=1000, adjust=False)
#: Zoph et al., Learning Transferable Architectures, CVPR 2018: (6 @ 4032) and (4 @ 1056), without auxiliary heads.
NASNET_LARGE = NASNET(stem=(96, 2), width=168, normals=(6, 6, 6), skip=True)
NASNET_MOBILE = NASNET(stem=(32, 2), width=44, normals=(4, 4, 4))
#: Liu et al., Progressive Neural Architecture Search, ECCV 2018: PNASNet-5 (3, 54).
PNASNET_MOBILE = Layout(
    normal=PNASNET, reduction=PNASNET, stem=(32, 2), stem_cells=2, width=54, normals=(3, 3, 3), classes=1000
)
#: Real et al., Regularized Evolution for Image Classifier Architecture Search, AAAI 2019: AmoebaNet-D.
AMOEBANET = Layout(
    normal=AMOEBANET_NORMAL,
    reduction=AMOEBANET_REDUCTION,
    stem=(64, 2),
    stem_cells=2,
    width=128,
    normals=(4, 4, 4),
    classes=1000,
)
#: Liu et al., DARTS, ICLR 2019, second order, on CIFAR-10 without the auxiliary head.
DARTS = Layout(
    normal=DARTS_NORMAL, reduction=DARTS_REDUCTION, stem=(108, 1), stem_cells=0, width=36, normals=(6, 6, 6), classes=10
)

NETWORKS = (
    entry("nasnet_a_large", "cells", partial(CellNetwork, NASNET_LARGE), (16, 3, 331, 331)),
    entry("nasnet_a_mobile", "cells", partial(CellNetwork, NASNET_MOBILE), (32, 3, 224, 224)),
    entry("pnasnet5_mobile", "cells", partial(CellNetwork, PNASNET_MOBILE), (32, 3, 224, 224)),
    entry("amoebanet_d", "cells", partial(CellNetwork, AMOEBANET), (32, 3, 224, 224)),
    entry("darts_cifar", "cells", partial(CellNetwork, DARTS), (96, 3, 32, 32)),
)
