"""Blocks of parallel convolutions: GoogLeNet, Inception-v3, Inception-v4, Inception-ResNet-v2."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from placewright.datasets.zoo.inception_v3 import InceptionV3, chain, convolution, pooled
from placewright.datasets.zoo.layers import Parallel, Sum
from placewright.datasets.zoo.objectives import cross_entropy, entry

ROW, COLUMN = (1, 7), (7, 1)
halving = partial(convolution, kernel=3, stride=2, valid=True)


def with_auxiliary(weight: float, outputs: tuple[Tensor, ...]) -> Tensor:  # ([batch, classes], ...) -> []
    """Cross entropy of the classifier and, weighted, of the auxiliary ones that training adds."""
    loss = cross_entropy(outputs[0])
    for auxiliary in outputs[1:]:
        loss = loss + weight * cross_entropy(auxiliary)
    return loss


def _plain(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2), nn.ReLU())


def _inception(inputs: int, direct: int, before_3: int, of_3: int, before_5: int, of_5: int, pool: int) -> Parallel:
    """Figure 2b."""
    return Parallel(
        [
            _plain(inputs, direct, 1),
            nn.Sequential(_plain(inputs, before_3, 1), _plain(before_3, of_3, 3)),
            nn.Sequential(_plain(inputs, before_5, 1), _plain(before_5, of_5, 5)),
            nn.Sequential(nn.MaxPool2d(3, 1, 1), _plain(inputs, pool, 1)),
        ]
    )


def _auxiliary(inputs: int) -> nn.Sequential:
    layers = (nn.AvgPool2d(5, 3), _plain(inputs, 128, 1), nn.Flatten(), nn.Linear(2048, 1024), nn.ReLU())
    return nn.Sequential(*layers, nn.Dropout(0.7), nn.Linear(1024, 1000))


class GoogLeNet(nn.Module):
    """Szegedy et al., Going Deeper with Convolutions, CVPR 2015, table 1; training adds two auxiliary classifiers."""

    def __init__(self) -> None:
        super().__init__()
        pool = partial(nn.MaxPool2d, 3, 2, ceil_mode=True)
        self.to_4a = nn.Sequential(
            *(_plain(3, 64, 7, 2), pool(), nn.LocalResponseNorm(5), _plain(64, 64, 1), _plain(64, 192, 3)),
            *(nn.LocalResponseNorm(5), pool(), _inception(192, 64, 96, 128, 16, 32, 32)),
            *(_inception(256, 128, 128, 192, 32, 96, 64), pool(), _inception(480, 192, 96, 208, 16, 48, 64)),
        )
        self.to_4d = nn.Sequential(
            _inception(512, 160, 112, 224, 24, 64, 64),
            _inception(512, 128, 128, 256, 24, 64, 64),
            _inception(512, 112, 144, 288, 32, 64, 64),
        )
        self.to_end = nn.Sequential(
            *(_inception(528, 256, 160, 320, 32, 128, 128), pool(), _inception(832, 256, 160, 320, 32, 128, 128)),
            *(_inception(832, 384, 192, 384, 48, 128, 128), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.4)),
            nn.Linear(1024, 1000),
        )
        self.auxiliary = nn.ModuleList([_auxiliary(512), _auxiliary(528)])

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:  # [batch, 3, 224, 224] -> ([batch, 1000], ...)
        at_4a = self.to_4a(image)  # [batch, 512, 14, 14]
        at_4d = self.to_4d(at_4a)  # [batch, 528, 14, 14]
        logits = self.to_end(at_4d)
        return (logits, self.auxiliary[0](at_4a), self.auxiliary[1](at_4d)) if self.training else (logits,)


def inception_v4() -> nn.Sequential:
    """Szegedy et al., Inception-v4, Inception-ResNet and the Impact of Residual Connections, AAAI 2017, figures 3-9."""

    def valid(*before: nn.Module, inputs: int) -> nn.Sequential:
        return nn.Sequential(*before, convolution(inputs, 96, 3, valid=True))

    def grid_35() -> Parallel:
        branches = [chain(384, (96, 1)), chain(384, (64, 1), (96, 3)), chain(384, (64, 1), (96, 3), (96, 3))]
        return Parallel([*branches, pooled(384, 96)])

    def grid_17() -> Parallel:
        single = chain(1024, (192, 1), (224, ROW), (256, COLUMN))
        double = chain(1024, (192, 1), (192, COLUMN), (224, ROW), (224, COLUMN), (256, ROW))
        return Parallel([chain(1024, (384, 1)), single, double, pooled(1024, 128)])

    def grid_8() -> Parallel:
        def spread(inputs: int) -> Parallel:
            return Parallel([convolution(inputs, 256, (1, 3)), convolution(inputs, 256, (3, 1))])

        single = nn.Sequential(chain(1536, (384, 1)), spread(384))
        double = nn.Sequential(chain(1536, (384, 1), (448, (3, 1)), (512, (1, 3))), spread(512))
        return Parallel([chain(1536, (256, 1)), single, double, pooled(1536, 256)])

    to_17 = [halving(384, 384), nn.Sequential(chain(384, (192, 1), (224, 3)), halving(224, 256)), nn.MaxPool2d(3, 2)]
    single = nn.Sequential(chain(1024, (192, 1)), halving(192, 192))
    double = nn.Sequential(chain(1024, (256, 1), (256, ROW), (320, COLUMN)), halving(320, 320))
    return nn.Sequential(
        *(halving(3, 32), convolution(32, 32, 3, valid=True), convolution(32, 64, 3)),
        Parallel([nn.MaxPool2d(3, 2), halving(64, 96)]),
        Parallel(
            [valid(chain(160, (64, 1)), inputs=64), valid(chain(160, (64, 1), (64, ROW), (64, COLUMN)), inputs=64)]
        ),
        Parallel([halving(192, 192), nn.MaxPool2d(3, 2)]),
        *(*(grid_35() for _ in range(4)), Parallel(to_17), *(grid_17() for _ in range(7))),
        *(Parallel([single, double, nn.MaxPool2d(3, 2)]), *(grid_8() for _ in range(3))),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1536, 1000)),
    )


class Scale(nn.Module):
    """Multiplies by a constant, which keeps deep residual training stable (section 3.3)."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, image: Tensor) -> Tensor:  # [batch, channels, height, width] -> the same
        return image * self.factor


def _scaled(channels: int, joined: int, factor: float, *branches: nn.Module, last: bool = False) -> nn.Sequential:
    """Branches joined, projected, scaled and added to their input."""
    body = nn.Sequential(Parallel(branches), nn.Conv2d(joined, channels, 1), Scale(factor))
    return nn.Sequential(Sum(nn.Identity(), body), *([] if last else [nn.ReLU()]))


def inception_resnet_v2() -> nn.Sequential:
    """Szegedy et al. 2017, figures 15-19, with the stem of Inception-v3 as in the TensorFlow reference."""

    def grid_35() -> nn.Sequential:
        branches = chain(320, (32, 1)), chain(320, (32, 1), (32, 3)), chain(320, (32, 1), (48, 3), (64, 3))
        return _scaled(320, 128, 0.17, *branches)

    def grid_17() -> nn.Sequential:
        return _scaled(1088, 384, 0.1, chain(1088, (192, 1)), chain(1088, (128, 1), (160, ROW), (192, COLUMN)))

    def grid_8(last: bool) -> nn.Sequential:
        branches = chain(2080, (192, 1)), chain(2080, (192, 1), (224, (1, 3)), (256, (3, 1)))
        return _scaled(2080, 448, 0.2, *branches, last=last)

    def halved(inputs: int, *layers: int, outputs: int) -> nn.Sequential:
        kernels = [1] + [3] * (len(layers) - 1)
        return nn.Sequential(chain(inputs, *zip(layers, kernels, strict=True)), halving(layers[-1], outputs))

    mixed = [chain(192, (96, 1)), chain(192, (48, 1), (64, 5)), chain(192, (64, 1), (96, 3), (96, 3)), pooled(192, 64)]
    to_17 = [halving(320, 384), halved(320, 256, 256, outputs=384), nn.MaxPool2d(3, 2)]
    to_8 = [halved(1088, 256, outputs=384), halved(1088, 256, outputs=288), halved(1088, 256, 288, outputs=320)]
    return nn.Sequential(
        *(halving(3, 32), convolution(32, 32, 3, valid=True), convolution(32, 64, 3), nn.MaxPool2d(3, 2)),
        *(convolution(64, 80), convolution(80, 192, 3, valid=True), nn.MaxPool2d(3, 2), Parallel(mixed)),
        *(*(grid_35() for _ in range(10)), Parallel(to_17), *(grid_17() for _ in range(20))),
        *(Parallel([*to_8, nn.MaxPool2d(3, 2)]), *(grid_8(last=place == 9) for place in range(10))),
        *(convolution(2080, 1536), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1536, 1000)),
    )


class InceptionV3Tuple(InceptionV3):
    """Inception-v3 whose result is a tuple in both modes."""

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:  # [batch, 3, 299, 299] -> ([batch, 1000], ...)
        output = super().forward(image)
        return output if self.training else (output,)


#: GoogLeNet with 224x224 images, the others with 299x299, in batches of 32 as each replica's.
NETWORKS = (
    entry("googlenet", "inception", GoogLeNet, (32, 3, 224, 224), loss=partial(with_auxiliary, 0.3)),
    entry("inception_v3", "inception", InceptionV3Tuple, (32, 3, 299, 299), loss=partial(with_auxiliary, 0.4)),
    entry("inception_v4", "inception", inception_v4, (32, 3, 299, 299)),
    entry("inception_resnet_v2", "inception", inception_resnet_v2, (32, 3, 299, 299)),
)
