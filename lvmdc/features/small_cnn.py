"""A small convolutional network to train from scratch, for small grey pictures such as the embedded digits."""

from torch import Tensor, nn

CHANNELS = (32, 64, 128)  # after each halving of the sides
MEAN, STD = (0.25,) * 3, (0.25,) * 3  # about those of the embedded digits


class SmallCNN(nn.Module):
    """Three stages of two convolutions, each at half the side of the one before: maps of one cell to 2, 4 and 8 pixels.

    Group normalisation depends on no other picture, so that learning and use see the same numbers.

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
