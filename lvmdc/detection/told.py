"""Where objects are, as candidates: for the fully supervised detector that weak supervision is measured by."""

import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.labelled_boxes import LabelledBoxes
from lvmdc.losses.overlap import box_area, box_iou


def told_candidates(candidates: Candidates, truth: LabelledBoxes, n_classes: int) -> Tensor:
    """(n, K) the candidate that overlaps the largest object of each class best, −1 where a picture has none that is not difficult.

    >>> candidates = Candidates(torch.zeros(2, 1), [2], boxes=[[0, 0, 2, 2], [4, 0, 8, 4]])
    >>> told_candidates(candidates, LabelledBoxes([0, 0], [1, 1], [[0, 0, 2, 2], [4, 0, 8, 3]]), n_classes=2)
    tensor([[-1,  1]])
    """
    if candidates.boxes is None:
        raise ValueError("candidates must have boxes, but candidates.boxes is None")
    h = torch.full((len(candidates), n_classes), -1, device=candidates.device)
    easy = truth[~truth.difficult].to(candidates.device)
    easy = easy[box_area(easy.box).argsort(stable=True)]  # the largest of a class comes last, and stays
    first, count = candidates.offsets.tolist(), candidates.counts.tolist()
    for i, k, box in zip(easy.picture.tolist(), easy.label.tolist(), easy.box, strict=True):
        h[i, k] = box_iou(candidates.boxes[first[i] : first[i] + count[i]], box.to(candidates.boxes)).argmax()
    return h
