"""A small convolutional network to train from scratch, for small grey images such as the embedded digits."""

import difflib
import hashlib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, fx, nn

from lvmdc.storage.arrays import check_parts
from lvmdc.vision.features.efficientnet_lite import MEAN, STD, EfficientNetLite0, own_names, pretrained_weights
from lvmdc.vision.features.trunk import feature_trunk

CHANNELS = (32, 64, 128)  # after each halving of the sides
SMALL_MEAN, SMALL_STD = (0.25,) * 3, (0.25,) * 3  # about those of the embedded digits


class SmallCNN(nn.Module):
    """Three stages of two convolutions, each at half the side of the one before: maps of one cell to 2, 4 and 8 pixels.

    Group normalisation depends on no other image, so that learning and use see the same numbers.

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


# Pretrained networks by name, and their weights from pip, from torchvision or from a file.
#
# torchvision takes as long to load as torch itself, so it is loaded where it is needed.

OFFLINE = "efficientnet_lite0"
SCRATCH = "small_cnn"  # has no weights but those that it learns
# These two were trained on colours in −1..1, and turn those of torchvision's other networks into them by themselves, if told so; the
# classifiers on their sides were there to train them.
OWN_COLOURS = ("googlenet", "inception_v3")
SIDE_CLASSIFIERS = ("aux1.", "aux2.", "AuxLogits.")


@dataclass(frozen=True)
class Backbone:
    """A network that turns normalised images (n, 3, height, width) into maps (n, channels, height / stride, width / stride).

    `mean` and `std` are what its training took off the colours, in 0..1, and divided them by. `digest` is the SHA-256 of all its weights.
    """

    trunk: fx.GraphModule
    channels: int
    stride: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    digest: str


def backbone_names() -> list[str]:
    """What `load_backbone` knows: the network whose weights come by pip, the one to train from scratch, and the classifiers of torchvision.

    >>> backbone_names()[0], "resnet18" in backbone_names()
    ('efficientnet_lite0', True)
    """
    from torchvision import models

    return [OFFLINE, SCRATCH, *models.list_models(module=models)]


def load_backbone(name: str = OFFLINE, weights: str | Path | None = "default", stride: int = 32) -> Backbone:
    """A network by name, cut behind its last map of `stride`.

    Args:
        name: efficientnet_lite0, small_cnn, which has no trained weights, or a classifier of torchvision.
        weights: "default", those trained on ImageNet: from pip for efficientnet_lite0, otherwise torchvision downloads them; the path
            of a state dict; or None, random ones, the same at every call.
        stride: pixels of the image to one cell of the map.

    >>> load_backbone("resnet18", weights=None).channels
    512
    """
    if name not in (OFFLINE, SCRATCH) and name not in backbone_names():
        near = difflib.get_close_matches(name, backbone_names(), n=1, cutoff=0.0)
        raise ValueError(
            f"backbone must be {OFFLINE}, {SCRATCH} or a classifier of torchvision, but it is {name!r}: did you mean {near[0]!r}?"
        )
    network, mean, std = _untrained(name)
    if weights is not None:
        state = _default_weights(name) if weights == "default" else _read_weights(Path(weights))
        try:
            network.load_state_dict(own_names(state) if name == OFFLINE else _without_side_classifiers(name, state))
        except RuntimeError as error:
            what = str(error).splitlines()[1].strip() if len(str(error).splitlines()) > 1 else str(error)
            raise ValueError(f"weights must be those of {name}, but those of {weights} do not fit: {what[:200]}") from None
    digest = _digest(network.state_dict())
    trunk, channels = feature_trunk(network, stride, name)
    return Backbone(trunk, channels, stride, mean, std, digest)


def _untrained(name: str) -> tuple[nn.Module, tuple[float, ...], tuple[float, ...]]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if name == OFFLINE:
            return EfficientNetLite0(), MEAN, STD
        if name == SCRATCH:
            return SmallCNN(), SMALL_MEAN, SMALL_STD
        from torchvision import models

        own = {"transform_input": True, "aux_logits": False, "init_weights": True} if name in OWN_COLOURS else {}
        network = models.get_model(name, weights=None, **own)
    transforms = models.get_model_weights(name).DEFAULT.transforms()
    return network, tuple(transforms.mean), tuple(transforms.std)


def _without_side_classifiers(name: str, state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key: value for key, value in state.items() if name not in OWN_COLOURS or not key.startswith(SIDE_CLASSIFIERS)}


def _default_weights(name: str) -> dict[str, Tensor]:
    if name == OFFLINE:
        return _read_weights(pretrained_weights())
    if name == SCRATCH:
        raise ValueError(f"weights of {SCRATCH} must be null or a file, since it is trained from scratch, but they are 'default'")
    from torchvision import models

    try:
        return models.get_model_weights(name).DEFAULT.get_state_dict(progress=True, check_hash=True, weights_only=True)
    except (OSError, RuntimeError) as error:  # no network, or a download that does not have the hash that it should
        raise OSError(
            f"the weights of {name} could not be downloaded ({error}): give a file that has them by weights=…, "
            f"or take {OFFLINE}, whose weights come by pip"
        ) from None


def _read_weights(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise FileNotFoundError(f"weights must be 'default', None or a file, but {path} does not exist")
    try:
        if zipfile.is_zipfile(path):  # which torch does not verify
            check_parts(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises a dozen kinds for a file that is something else
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"weights: {path} is not a file of weights that can be read: {reason}") from None
    if not isinstance(state, dict) or not all(isinstance(name, str) and isinstance(value, Tensor) for name, value in state.items()):
        raise ValueError(f"weights: {path} must hold a state dict, names and tensors, but it holds something else")
    return state


def _digest(state: dict[str, Tensor]) -> str:
    found = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        found.update(tensor.contiguous().numpy().tobytes())
    return found.hexdigest()
