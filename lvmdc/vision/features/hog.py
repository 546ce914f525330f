"""Histograms of oriented gradients.

Dalal, Triggs: Histograms of oriented gradients for human detection. CVPR 2005.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from lvmdc.vision.features.base import Features, pixel_corners


class HOG(Features):
    """Each window is cropped, resized to `size` if it has another, and described by OpenCV's HOG.

    Features depend on the window's pixels alone. (One call of OpenCV for many windows takes as long as one call for each.)

    Args:
        size: width and height in pixels that every window is resized to.
        cell: pixels along the side of a cell, which has one histogram.
        block: cells along the side of a block, over which histograms are normalised; blocks are one cell apart.
        orientations: bins of a histogram, over half a turn, or, if `signed`, a whole one.
        colour: take each gradient from the channel where it is strongest; otherwise from the grey image.
        signed: distinguish dark on light from light on dark; useful, with twice the orientations, where objects have a typical brightness
            against the background.

    >>> window = Image.linear_gradient("L").resize((32, 32)).convert("RGB")
    >>> HOG().describe(window, torch.tensor([[0.0, 0.0, 32.0, 32.0]])).shape
    torch.Size([1, 324])
    """

    def __init__(
        self,
        size: tuple[int, int] = (32, 32),
        cell: int = 8,
        block: int = 2,
        orientations: int = 9,
        colour: bool = True,
        signed: bool = False,
    ):
        if cell < 1 or block < 1 or orientations < 1:
            raise ValueError(f"cell, block and orientations must be at least 1, but they are {cell}, {block} and {orientations}")
        if len(size) != 2 or any(side % cell or side < block * cell for side in size):
            raise ValueError(
                f"size must be (width, height), multiples of cell = {cell} and at least {block * cell}, but it is {tuple(size)}"
            )
        self.size, self.cell, self.block = (size[0], size[1]), cell, block
        self.orientations, self.colour, self.signed = orientations, colour, signed

    @property
    def n_features(self) -> int:
        """d: blocks × cells of a block × orientations.

        >>> HOG(size=(48, 64)).n_features
        1260
        """
        across, down = (side // self.cell - self.block + 1 for side in self.size)
        return across * down * self.block**2 * self.orientations

    def describe(self, image: Image.Image, boxes: Tensor) -> Tensor:
        import cv2

        pixels = np.asarray(image.convert("RGB" if self.colour else "L"))
        corners = pixel_corners(image, boxes)
        out = np.empty((len(corners), self.n_features), np.float32)
        # One descriptor per image: OpenCV's objects cannot be pickled or copied, and this one takes microseconds.
        reach, cell = (self.block * self.cell,) * 2, (self.cell,) * 2
        descriptor = cv2.HOGDescriptor(self.size, reach, cell, cell, self.orientations, _signedGradient=self.signed)
        with one_opencv_thread():
            for i, (x1, y1, x2, y2) in enumerate(corners):
                out[i] = np.ravel(descriptor.compute(self._resized(pixels[y1:y2, x1:x2])))
        return torch.from_numpy(out)

    def settings(self) -> dict[str, Any]:
        import cv2

        names = ("size", "cell", "block", "orientations", "colour", "signed")
        return {name: getattr(self, name) for name in names} | {"opencv": cv2.__version__}

    def _resized(self, window: np.ndarray) -> np.ndarray:
        import cv2

        height, width = window.shape[:2]
        if (width, height) == self.size:
            return np.ascontiguousarray(window)
        # Averaging prevents aliasing of a shrunk window; it does not help an enlarged one.
        shrinks = width > self.size[0] and height > self.size[1]
        return cv2.resize(window, self.size, interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)


@contextmanager
def one_opencv_thread() -> Iterator[None]:
    """OpenCV on one thread inside, restored afterwards: windows are too small to share, and runs share the machine.

    >>> import cv2
    >>> with one_opencv_thread():
    ...     cv2.getNumThreads()
    1
    """
    import cv2

    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(before)
