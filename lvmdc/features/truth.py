"""The candidate that stands for the true box."""

from torch import Tensor

from lvmdc.candidates import ArrayLike, Candidates, as_tensor
from lvmdc.losses.overlap import box_iou
from lvmdc.segments import segment_argmax


def true_candidate(candidates: Candidates, boxes: ArrayLike) -> tuple[Tensor, Tensor]:
    """(n,) the candidate of best overlap with each sample's true box, the first of several that tie, and (n,) that overlap.

    >>> import torch
    >>> candidates = Candidates(torch.zeros(3, 1), [2, 1], boxes=[[0, 0, 2, 2], [1, 0, 3, 2], [0, 0, 4, 4]])
    >>> true_candidate(candidates, [[1, 0, 3, 2], [0, 0, 4, 2]])
    (tensor([1, 0]), tensor([1.0000, 0.5000]))
    """
    if candidates.boxes is None:
        raise ValueError("candidates must have boxes, but candidates.boxes is None")
    truth = as_tensor(boxes).to(candidates.boxes)
    if truth.shape != (len(candidates), 4):
        raise ValueError(f"boxes must have shape ({len(candidates)}, 4), one a sample, but it has shape {tuple(truth.shape)}")
    overlap = box_iou(candidates.boxes, truth[candidates.sample])  # (T,)
    rows = segment_argmax(overlap, candidates.counts)
    return candidates.index(rows), overlap[rows]
