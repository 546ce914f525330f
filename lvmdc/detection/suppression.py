"""Non-maximum suppression of predicted boxes, within a picture and a class."""

import torch
from torchvision.ops import nms

from lvmdc.labelled_boxes import LabelledBoxes


def suppressed(found: LabelledBoxes, overlap: float = 0.3, max_boxes: int | None = None) -> LabelledBoxes:
    """The predicted boxes without those that overlap a better one of the same picture and class by more than `overlap`; best first in each.

    Args:
        found: boxes with scores.
        overlap: intersection over union.
        max_boxes: of a picture and a class, at most; all where not given.

    >>> found = LabelledBoxes([0, 0, 0], [0, 0, 1], [[0, 0, 4, 4], [0, 0, 4, 3], [0, 0, 4, 4]], score=[0.1, 0.9, 0.5])
    >>> suppressed(found).score.tolist()
    [0.9, 0.5]
    """
    if found.score is None:
        raise ValueError("found must have scores, but found.score is None")
    if not 0 <= overlap <= 1:
        raise ValueError(f"overlap must lie in [0, 1], but it is {overlap}")
    if len(found) == 0:
        return found
    # torchvision's own batched_nms looks through all boxes once for every group, which is slow for thousands of pictures.
    group = found.picture * (int(found.label.max()) + 1) + found.label
    order = group.argsort(stable=True)
    sizes = group.unique(return_counts=True)[1].tolist()
    kept = [rows[nms(found.box[rows], found.score[rows].to(found.box.dtype), overlap)[:max_boxes]] for rows in order.split(sizes)]
    return found[torch.cat(kept)]
