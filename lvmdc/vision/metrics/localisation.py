"""How often the class is wrong."""

from typing import Protocol

from torch import Tensor

from lvmdc.arrays import ArrayLike, as_tensor
from lvmdc.candidates import Candidates
from lvmdc.losses.overlap import box_iou
from lvmdc.segments import segment_max


def class_error(y: ArrayLike, y_hat: ArrayLike) -> float:
    """The share of samples whose predicted class is not the true one.

    >>> class_error([0, 1, 2, 2], [0, 1, 1, 2])
    0.25
    """
    truth, predicted = as_tensor(y), as_tensor(y_hat)
    if truth.dim() != 1 or truth.shape != predicted.shape or len(truth) == 0:
        raise ValueError(f"y and y_hat must have one shape (n,), but they have shapes {tuple(truth.shape)} and {tuple(predicted.shape)}")
    return float((truth != predicted.to(truth.device)).double().mean())


# The user's own loss as a measure.


class SampleLoss(Protocol):
    """What is asked of a loss here; every `lvmdc.losses.Loss` has it."""

    def between(self, candidates: Candidates, y1: ArrayLike, h1: ArrayLike, y2: ArrayLike, h2: ArrayLike) -> Tensor:
        """(n,) the loss of each sample's prediction (y2, h2) against its truth (y1, h1)."""


def test_loss(loss: SampleLoss, candidates: Candidates, y: ArrayLike, h: ArrayLike, y_hat: ArrayLike, h_hat: ArrayLike) -> float:
    """The mean of Δ(y, h, y_hat, h_hat) over the samples: what the paper's figures show.

    >>> import torch
    >>> from lvmdc.losses import ZeroOneLoss
    >>> candidates = Candidates(torch.zeros(4, 1), [2, 2])
    >>> test_loss(ZeroOneLoss(), candidates, y=[0, 1], h=[0, 1], y_hat=[0, 1], h_hat=[0, 0])
    0.5
    """
    return float(loss.between(candidates, y, h, y_hat, h_hat).mean())


# How well predicted candidates lie on the true boxes.
#
# Deselaers, Alexe, Ferrari: Localizing objects while learning their appearance. ECCV 2010 (CorLoc).


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

    CorLoc as PASCAL VOC papers report it is for images whose class is known: give it the h that is best for the true class. With
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
