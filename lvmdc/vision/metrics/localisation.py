"""Measures of predicted classes and candidates: class error, test loss, CorLoc, overlap, recall.

Deselaers, Alexe, Ferrari: Localizing objects while learning their appearance. ECCV 2010 (CorLoc).
"""

from torch import Tensor

from lvmdc.arrays import ArrayLike, as_tensor
from lvmdc.boxes import box_iou
from lvmdc.candidates import Candidates
from lvmdc.losses.base import Loss
from lvmdc.segments import segment_argmax


def class_error(y: ArrayLike, y_hat: ArrayLike) -> float:
    """The share of samples whose predicted class is not the true one.

    >>> class_error([0, 1, 2, 2], [0, 1, 1, 2])
    0.25
    """
    truth, predicted = as_tensor(y), as_tensor(y_hat)
    if truth.dim() != 1 or truth.shape != predicted.shape or len(truth) == 0:
        raise ValueError(f"y and y_hat must have one shape (n,), but they have shapes {tuple(truth.shape)} and {tuple(predicted.shape)}")
    return float((truth != predicted.to(truth.device)).double().mean())


def test_loss(loss: Loss, candidates: Candidates, y: ArrayLike, h: ArrayLike, y_hat: ArrayLike, h_hat: ArrayLike) -> float:
    """The mean of Δ(y, h, y_hat, h_hat) over the samples: what the paper's figures show.

    >>> import torch
    >>> from lvmdc.losses import ZeroOneLoss
    >>> candidates = Candidates(torch.zeros(4, 1), [2, 2])
    >>> test_loss(ZeroOneLoss(), candidates, y=[0, 1], h=[0, 1], y_hat=[0, 1], h_hat=[0, 0])
    0.5
    """
    return float(loss.between(candidates, y, h, y_hat, h_hat).mean())


def overlaps(candidates: Candidates, h_hat: ArrayLike, truth_boxes: ArrayLike) -> Tensor:
    """(n,) intersection over union of each sample's predicted candidate with its true box.

    >>> import torch
    >>> candidates = Candidates(torch.zeros(3, 1), [2, 1], boxes=[[0, 0, 2, 2], [1, 0, 3, 2], [0, 0, 4, 4]])
    >>> overlaps(candidates, [1, 0], [[1, 0, 3, 2], [0, 0, 4, 2]])
    tensor([1.0000, 0.5000])
    """
    boxes, truth = _checked(candidates, truth_boxes)
    return box_iou(boxes[candidates.rows(h_hat)], truth)


def mean_overlap(candidates: Candidates, h_hat: ArrayLike, truth_boxes: ArrayLike) -> float:
    """The mean of `overlaps`, whatever the predicted classes.

    >>> import torch
    >>> mean_overlap(Candidates(torch.zeros(2, 1), [2], boxes=[[0, 0, 2, 2], [1, 0, 3, 2]]), [1], [[1, 0, 3, 1]])
    0.5
    """
    return float(overlaps(candidates, h_hat, truth_boxes).double().mean())


def corloc(candidates: Candidates, h_hat: ArrayLike, truth_boxes: ArrayLike, iou: float = 0.5) -> float:
    """Correct localisation: the share of samples whose predicted candidate overlaps the true box by at least `iou`.

    CorLoc as PASCAL VOC papers report it is for images whose class is known: pass the h that is best for the true class. With the h of a
    free prediction it also counts well-placed boxes of a wrong class.

    >>> import torch
    >>> candidates = Candidates(torch.zeros(3, 1), [2, 1], boxes=[[0, 0, 2, 2], [1, 0, 3, 2], [0, 0, 4, 4]])
    >>> corloc(candidates, [0, 0], [[1, 0, 3, 2], [0, 0, 4, 2]])
    0.5
    """
    return float((overlaps(candidates, h_hat, truth_boxes) >= iou).double().mean())


def true_candidate(candidates: Candidates, truth_boxes: ArrayLike) -> tuple[Tensor, Tensor]:
    """(n,) the candidate of best overlap with each sample's true box, the first of several that tie, and (n,) that overlap.

    >>> import torch
    >>> candidates = Candidates(torch.zeros(3, 1), [2, 1], boxes=[[0, 0, 2, 2], [1, 0, 3, 2], [0, 0, 4, 4]])
    >>> true_candidate(candidates, [[1, 0, 3, 2], [0, 0, 4, 2]])
    (tensor([1, 0]), tensor([1.0000, 0.5000]))
    """
    boxes, truth = _checked(candidates, truth_boxes)
    overlap = box_iou(boxes, truth[candidates.sample])  # (T,)
    rows = segment_argmax(overlap, candidates.counts)
    return candidates.index(rows), overlap[rows]


def recall(candidates: Candidates, truth_boxes: ArrayLike, iou: float = 0.5) -> float:
    """The share of samples with any candidate that overlaps the true box by at least `iou`: the upper limit of CorLoc.

    >>> import torch
    >>> candidates = Candidates(torch.zeros(3, 1), [2, 1], boxes=[[0, 0, 2, 2], [1, 0, 3, 2], [0, 0, 4, 4]])
    >>> recall(candidates, [[1, 0, 3, 2], [0, 0, 4, 2]], iou=0.7)
    0.5
    """
    return float((true_candidate(candidates, truth_boxes)[1] >= iou).double().mean())


def _checked(candidates: Candidates, truth_boxes: ArrayLike) -> tuple[Tensor, Tensor]:
    """(T, 4) the candidates' boxes and (n, 4) the true ones, of the same type and device."""
    if candidates.boxes is None:
        raise ValueError("candidates must have boxes, but candidates.boxes is None")
    truth = as_tensor(truth_boxes).to(candidates.boxes)
    if truth.shape != (len(candidates), 4):
        raise ValueError(f"truth_boxes must have shape ({len(candidates)}, 4), one per sample, but it has shape {tuple(truth.shape)}")
    return candidates.boxes, truth
