"""Where people may be: a trained detector, and the usual places of people in images.

Dalal, Triggs: Histograms of oriented gradients for human detection. CVPR 2005.
"""

import hashlib
import logging
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from lvmdc.boxes import distinct
from lvmdc.vision.datasets.images import ImageSet
from lvmdc.vision.features.hog import one_opencv_thread
from lvmdc.vision.proposals.base import Proposals, digest, resized

log = logging.getLogger(__name__)

WINDOW = (64, 128)  # width and height that the detector was trained at
MARGIN = (0.15, 0.08)  # of a detection around the person, as shares of its width and height, on each side
WIDER = 0.3  # added on each side, as a share of the width: arms, handlebars, another pose

# Where people are in images, x1 y1 x2 y2 in tenths of width and height, the most useful first. They cover the 600 people in those 408
# images of VOC 2011 action trainval that `voc_action` leaves out, so that no image of the evaluation was used: greedily, the box with
# corners on tenths that most raises Σ clip((o − 0.35) / 0.3, 0, 1) over these people and their mirror images, o being the best overlap
# with a chosen box. tests/vision/proposals/test_people.py derives them again.
PLACES = (
    *((2, 2, 8, 10), (1, 3, 5, 10), (5, 3, 9, 10), (4, 3, 6, 9), (2, 3, 4, 9), (6, 3, 8, 9)),
    *((0, 3, 3, 10), (7, 3, 10, 10), (0, 1, 10, 10), (3, 2, 6, 8), (5, 3, 7, 9), (3, 4, 5, 10)),
    *((4, 2, 7, 8), (4, 2, 6, 6), (1, 1, 5, 10), (5, 1, 9, 10), (1, 4, 3, 8), (7, 4, 9, 8)),
    *((4, 4, 7, 10), (3, 3, 5, 8), (5, 3, 6, 7), (5, 2, 8, 6), (1, 2, 4, 6), (1, 3, 8, 7)),
    *((4, 3, 5, 7), (0, 3, 2, 9), (8, 3, 10, 9), (6, 5, 9, 10), (1, 5, 4, 10), (5, 5, 7, 9)),
)
WHOLE = ((0, 0, 10, 10),)


class PeopleBoxes(Proposals):
    """Up to `count` boxes where people may be, in whole pixels.

    First the best distinct detections of OpenCV's people detector at all sizes; then the best of these made wider; then `PLACES` where
    people often are, whatever the image: the detector knows whole, upright people, and many are neither. With `include_truth` the true box
    of each image is one more candidate, as in section 6.2 of the paper, at a position that depends on the image's name.

    Args:
        images: the data set with the true boxes; only needed with `include_truth`.
        include_truth: whether the true box is among the candidates; the log says which.
        count: boxes per image; a few less if the image is so small that boxes coincide.
        detections: the largest number from the detector; 0: none.
        widened: the number of best detections that are added a second time, wider.
        threshold: least score of a detection. The detector's default is 0; a lower one finds more, and worse.
        size: pixels of the image's longer side for the detector, which finds people from about 100 pixels on.
        places: whether `PLACES` fill up to `count`; without them, an image without detections has one box, the whole image.

    >>> PeopleBoxes().boxes(Image.new("RGB", (320, 240)), "a").shape
    torch.Size([20, 4])
    """

    def __init__(
        self,
        images: ImageSet | None = None,
        include_truth: bool = False,
        count: int = 20,
        detections: int = 5,
        widened: int = 2,
        threshold: float = -1.0,
        size: int = 640,
        places: bool = True,
    ):
        if not 1 <= count <= len(PLACES):
            raise ValueError(f"count must lie in 1..{len(PLACES)}, the number of known places, but it is {count}")
        if not 0 <= widened <= detections:
            raise ValueError(f"detections and widened must be 0 ≤ widened ≤ detections, but they are {detections} and {widened}")
        if size < max(WINDOW):
            raise ValueError(f"size must be at least {max(WINDOW)} pixels, the height of the detector's window, but it is {size}")
        self.count, self.detections, self.widened, self.threshold = count, detections, widened, threshold
        self.size, self.places = size, places
        self._truth = _true_boxes(images) if include_truth else None
        included = "is among its candidates, as in the paper; include_truth=false leaves it out"
        log.info("the ground-truth box of each image %s", included if include_truth else "is not added to its candidates")

    def boxes(self, image: Image.Image, name: str) -> Tensor:
        found = self._detections(image)
        wider = found[: self.widened] + (found[: self.widened, 2:3] - found[: self.widened, :1]) * np.array([-WIDER, 0, WIDER, 0])
        fixed = PLACES if self.places else WHOLE[len(found) :]
        places = np.array(fixed).reshape(-1, 4) / 10 * np.tile(image.size, 2)
        boxes = torch.from_numpy(_whole_pixels(np.concatenate([found, wider, places]), image))
        boxes = boxes[distinct(boxes, 0.8, self.count)]
        return boxes if self._truth is None else _inserted(boxes, self._truth, name)

    def _detections(self, image: Image.Image) -> np.ndarray:
        """(m, 4) the best distinct detections, best first, as boxes around the people."""
        if self.detections == 0:
            return np.zeros((0, 4))
        small, back = resized(image, self.size)
        boxes, scores = detect_people(np.asarray(small), self.threshold)
        boxes = boxes * back
        margin = np.tile((boxes[:, 2:] - boxes[:, :2]) * MARGIN, 2)
        boxes = boxes + margin * [1, 1, -1, -1]
        # Equal scores are ordered by position, since OpenCV's order depends on its threads.
        boxes = boxes[np.lexsort((*boxes.T, -scores))]
        return boxes[distinct(torch.from_numpy(boxes), 0.5, self.detections).numpy()]

    def settings(self) -> dict[str, Any]:
        import cv2

        places = hashlib.sha256(repr(PLACES).encode()).hexdigest()[:16] if self.places else None
        own = {name: getattr(self, name) for name in ("count", "detections", "widened", "threshold", "size")}
        truth = None if self._truth is None else digest(self._truth)
        return own | {"truth": truth, "places": places, "opencv": cv2.__version__}


def detect_people(pixels: np.ndarray, threshold: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """(m, 4) windows x1, y1, x2, y2 of all sizes where OpenCV's trained HOG detector sees an upright person, and (m,) their scores.

    >>> boxes, scores = detect_people(np.zeros((100, 50, 3), np.uint8))
    >>> boxes.shape, scores.shape
    ((0, 4), (0,))
    """
    # OpenCV ends the process, without an error, on an image that is smaller than the window.
    import cv2

    below, right = (max(0, side - have) for side, have in zip(WINDOW[::-1], pixels.shape[:2], strict=True))
    padded = cv2.copyMakeBorder(np.ascontiguousarray(pixels[:, :, ::-1]), 0, below, 0, right, cv2.BORDER_REPLICATE)
    with one_opencv_thread():
        detector = cv2.HOGDescriptor()
        detector.setSVMDetector(np.asarray(cv2.HOGDescriptor.getDefaultPeopleDetector()))
        # groupThreshold 0: windows are not merged.
        found, scores = detector.detectMultiScale(padded, threshold, winStride=(8, 8), padding=(16, 16), scale=1.1, groupThreshold=0)
    corners = np.asarray(found, np.float64).reshape(-1, 4)
    corners[:, 2:] += corners[:, :2]
    return corners, np.asarray(scores, np.float64).reshape(-1)


def _whole_pixels(boxes: np.ndarray, image: Image.Image) -> np.ndarray:
    """Boxes grown to whole pixels and cut at the edge of the image; boxes outside it are left out."""
    grown = np.concatenate([np.floor(boxes[:, :2] + 1e-6), np.ceil(boxes[:, 2:] - 1e-6)], axis=1)
    inside = np.clip(grown, 0, np.tile(image.size, 2))
    return inside[(inside[:, 2:] > inside[:, :2]).all(axis=1)].astype(np.float32)


def _true_boxes(images: ImageSet | None) -> dict[str, Tensor]:
    if images is None or images.boxes is None:
        raise ValueError("include_truth needs images whose ground-truth boxes are known, but there are none; or set include_truth=false")
    truth = dict(zip(images.names, images.boxes, strict=True))
    if len(truth) < len(images):
        raise ValueError("include_truth needs images with names that differ, but two have the same")
    return truth


def _inserted(boxes: Tensor, truth: dict[str, Tensor], name: str) -> Tensor:
    """The boxes with the true one among them, at a position that does not reveal it."""
    if name not in truth:
        raise ValueError(f"images must have the ground-truth box of every image, but there is none for {name!r}")
    at = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) % (len(boxes) + 1)
    return torch.cat([boxes[:at], truth[name][None], boxes[at:]])
