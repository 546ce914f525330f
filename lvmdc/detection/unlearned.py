"""What is found without learning anything: what a detector must be better than."""

import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.data.scenes import SceneSet
from lvmdc.labelled_boxes import LabelledBoxes
from lvmdc.losses.overlap import box_iou
from lvmdc.solvers.initial import Init, starting_weights

KINDS: dict[str, Init] = {"most central": "central", "random": "uniform"}


def unlearned(candidates: Candidates, scenes: SceneSet, iou: float = 0.5) -> dict[str, float]:
    """CorLoc, the mean over the classes that are shown, of the most central candidate of each picture, and of one drawn at random; nothing
    where no true box is known.

    >>> import numpy as np
    >>> c = Candidates(torch.zeros(3, 1), [3], boxes=[[0, 0, 2, 2], [1, 0, 3, 2], [2, 0, 4, 2]])
    >>> scenes = SceneSet.of_boxes([np.zeros((2, 4), np.uint8)], ["cat"], LabelledBoxes([0], [0], [[1, 0, 3, 2]]))
    >>> {name: round(value, 2) for name, value in unlearned(c, scenes).items()}
    {'most central': 1.0, 'random': 0.33}
    """
    truth = None if scenes.truth is None else scenes.truth[~scenes.truth.difficult]
    if truth is None or len(truth) == 0:
        return {}
    candidates = candidates.to("cpu")
    everyone = torch.ones(candidates.n_candidates, dtype=torch.bool)
    weights = {name: starting_weights(init, candidates, everyone) for name, init in KINDS.items()}
    return {name: float(_expected(candidates, p, truth, len(scenes.classes), iou).nanmean()) for name, p in weights.items()}


def _expected(candidates: Candidates, p: Tensor, truth: LabelledBoxes, n_classes: int, iou: float) -> Tensor:
    """(K,): how often a candidate drawn with the probabilities p (T,) overlaps a true box of class k by `iou`, in pictures that show it."""
    assert candidates.boxes is not None
    hits: list[list[float]] = [[] for _ in range(n_classes)]
    for i in truth.picture.unique().tolist():
        rows = slice(int(candidates.offsets[i]), int(candidates.offsets[i] + candidates.counts[i]))
        here = truth.of_picture(i)
        near = box_iou(candidates.boxes[rows, None], here.box.to(candidates.boxes)) >= iou  # (m, boxes)
        for k in here.label.unique().tolist():
            hits[k].append(float(p[rows][near[:, here.label == k].any(dim=1)].sum()))
    return torch.tensor([sum(each) / len(each) if each else torch.nan for each in hits], dtype=torch.float64)
