"""Boxes around regions that differ from their surroundings.

Uijlings, van de Sande, Gevers, Smeulders: Selective search for object recognition. IJCV 2013.
"""

from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from lvmdc.boxes import distinct
from lvmdc.vision.features.hog import one_opencv_thread
from lvmdc.vision.proposals.base import Proposals, resized

MODES = {"single": "switchToSingleStrategy", "fast": "switchToSelectiveSearchFast", "quality": "switchToSelectiveSearchQuality"}


class SelectiveSearch(Proposals):
    """OpenCV's selective search: regions of similar colour and texture are merged step by step, and the box of each is a candidate.

    The boxes come largest first, without those that a larger one overlaps by more than `overlap`: subjects of photographs are large, and
    twenty such boxes contain more of them than twenty of all. (OpenCV's order is random at every call and is not used.)

    Args:
        max_boxes: boxes per image, at most.
        min_size: least width and height of a box, as a share of the image's shorter side.
        overlap: intersection over union above which the smaller of two boxes is left out.
        size: pixels of the image's longer side for the search; the time grows with their square.
        mode: single, fast or quality, in rising number of boxes and time.

    >>> image = np.full((60, 80, 3), 255, np.uint8)
    >>> image[20:50, 10:40] = (200, 30, 30)
    >>> SelectiveSearch(size=80).boxes(Image.fromarray(image), "a").tolist()
    [[0.0, 0.0, 80.0, 60.0], [8.0, 18.0, 42.0, 52.0], [11.0, 21.0, 39.0, 49.0]]
    """

    def __init__(self, max_boxes: int = 100, min_size: float = 0.1, overlap: float = 0.7, size: int = 200, mode: str = "fast"):
        if max_boxes < 1:
            raise ValueError(f"max_boxes must be at least 1, but it is {max_boxes}")
        if not 0 <= min_size < 1:
            raise ValueError(f"min_size must lie in [0, 1), a share of the image's shorter side, but it is {min_size}")
        if not 0 < overlap <= 1:
            raise ValueError(f"overlap must lie in (0, 1], but it is {overlap}")
        if size < 16:
            raise ValueError(f"size must be at least 16 pixels, but it is {size}")
        if mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, but it is {mode!r}")
        self.max_boxes, self.min_size, self.overlap, self.size, self.mode = max_boxes, min_size, overlap, size, mode

    def boxes(self, image: Image.Image, name: str) -> Tensor:
        small, back = resized(image, self.size)
        found = self._regions(np.ascontiguousarray(np.asarray(small)[:, :, ::-1]))  # (m, 4) x, y, width, height
        corners = np.concatenate([found[:, :2], found[:, :2] + found[:, 2:]], axis=1) * back
        whole = [[0.0, 0.0, image.width, image.height]]
        corners = np.concatenate([whole, corners])
        side = corners[:, 2:] - corners[:, :2]
        large = side.min(axis=1) >= max(1.0, self.min_size * min(image.size))
        large[0] = True
        corners, area = corners[large], side[large].prod(axis=1)
        # By area, and by position where areas tie: OpenCV's order is random.
        order = np.lexsort((*corners.T, -area))
        ordered = torch.from_numpy(corners[order].astype(np.float32))
        return ordered[distinct(ordered, self.overlap, self.max_boxes)]

    def _regions(self, pixels: np.ndarray) -> np.ndarray:
        import cv2

        with one_opencv_thread():
            search = cv2.ximgproc.segmentation.createSelectiveSearchSegmentation()
            search.setBaseImage(pixels)
            getattr(search, MODES[self.mode])()
            return np.asarray(search.process(), np.float64).reshape(-1, 4)

    def settings(self) -> dict[str, Any]:
        import cv2

        names = ("max_boxes", "min_size", "overlap", "size", "mode")
        return {name: getattr(self, name) for name in names} | {"opencv": cv2.__version__}
