"""How well predicted candidates lie on the true boxes.

Deselaers, Alexe, Ferrari: Localizing objects while learning their appearance. ECCV 2010 (CorLoc).
"""

from torch import Tensor

from lvmdc.candidates import ArrayLike, Candidates, as_tensor
from lvmdc.losses.overlap import box_iou
from lvmdc.segments import segment_max


def overlaps(candidates: Candidates, h_hat: ArrayLike, truth_boxes: ArrayLike) -> Tensor:
    """(n,) intersection over union of each sample's predicted candidate with its true box.

    >>> import torch
    >>> candidates = Candidates(torch.zeros(3, 1), [2, 1], boxes=[[0, 0, 2, 2], [1, 0, 3, 2], [0, 0, 4, 4]])
    >>> overlaps(candidates, [1, 0], [[1, 0, 3, 2], [0, 0, 4, 2]])
    tensor([1.0000, 0.5000])
    """
    boxes, truth = _placed(candidates, truth_boxes)
    return box_iou(boxes[candidates.rows(h_hat)], truth)


def mean_overlap(candidates: Candidates, h_hat: ArrayLike, truth_boxes: ArrayLike) -> float:
    """The mean of `overlaps`, whatever the predicted classes.

    >>> import torch
    >>> candidates = Candidates(torch.zeros(3, 1), [2, 1], boxes=[[0, 0, 2, 2], [1, 0, 3, 2], [0, 0, 4, 4]])
    >>> mean_overlap(candidates, [1, 0], [[1, 0, 3, 2], [0, 0, 4, 2]])
    0.75
    """
    return float(overlaps(candidates, h_hat, truth_boxes).double().mean())


def corloc(candidates: Candidates, h_hat: ArrayLike, truth_boxes: ArrayLike, iou: float = 0.5) -> float:
    """Correct localisation: the share of samples whose predicted candidate overlaps the true box by at least `iou`.

    CorLoc as PASCAL VOC papers report it is for pictures whose class is known: give it the h that is best for the true class. With
    the h of a free prediction it counts well-placed boxes of a wrong class too.

    >>> import torch
    >>> candidates = Candidates(torch.zeros(3, 1), [2, 1], boxes=[[0, 0, 2, 2], [1, 0, 3, 2], [0, 0, 4, 4]])
    >>> corloc(candidates, [0, 0], [[1, 0, 3, 2], [0, 0, 4, 2]])
    0.5
    """
    return float((overlaps(candidates, h_hat, truth_boxes) >= iou).double().mean())


def recall(candidates: Candidates, truth_boxes: ArrayLike, iou: float = 0.5) -> float:
    """The share of samples that have any candidate which overlaps the true box by at least `iou`: the most that CorLoc can reach.

    >>> import torch
    >>> candidates = Candidates(torch.zeros(3, 1), [2, 1], boxes=[[0, 0, 2, 2], [1, 0, 3, 2], [0, 0, 4, 4]])
    >>> recall(candidates, [[1, 0, 3, 2], [0, 0, 4, 2]], iou=0.7)
    0.5
    """
    boxes, truth = _placed(candidates, truth_boxes)
    best = segment_max(box_iou(boxes, truth[candidates.sample]), candidates.counts)
    return float((best >= iou).double().mean())


def _placed(candidates: Candidates, truth_boxes: ArrayLike) -> tuple[Tensor, Tensor]:
    """(T, 4) the candidates' boxes and (n, 4) the true ones, alike in type and device."""
    if candidates.boxes is None:
        raise ValueError("candidates must have boxes, but candidates.boxes is None")
    truth = as_tensor(truth_boxes).to(candidates.boxes)
    if truth.shape != (len(candidates), 4):
        raise ValueError(f"truth_boxes must have shape ({len(candidates)}, 4), one a sample, but it has shape {tuple(truth.shape)}")
    return candidates.boxes, truth
