"""The pixels of a box."""

from PIL import Image
from torch import Tensor


def pixel_corners(image: Image.Image, boxes: Tensor) -> list[tuple[int, int, int, int]]:
    """The boxes in whole pixels; one that is not inside the picture, or is less than a pixel, is refused.

    >>> pixel_corners(Image.new("RGB", (6, 4)), torch.tensor([[0.4, 1.0, 5.6, 4.2]]))
    [(0, 1, 6, 4)]
    """
    corners = [(x1, y1, x2, y2) for x1, y1, x2, y2 in boxes.round().long().tolist()]
    for i, (x1, y1, x2, y2) in enumerate(corners):
        if x1 < 0 or y1 < 0 or x2 > image.width or y2 > image.height or x2 <= x1 or y2 <= y1:
            inside = f"the picture, {image.width} by {image.height} pixels"
            raise ValueError(f"boxes must lie inside {inside}, and be at least one pixel, but boxes[{i}] is {boxes[i].tolist()}")
    return corners
