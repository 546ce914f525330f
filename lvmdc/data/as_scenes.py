"""Pictures with one label each as scenes, so that a detector can learn from them."""

from __future__ import annotations

import torch

from lvmdc.data.pictures import PictureSet
from lvmdc.data.scenes import SceneSet
from lvmdc.data.splits import split_by_class
from lvmdc.labelled_boxes import LabelledBoxes


def as_scenes(pictures: PictureSet, fraction: float = 0.6, fold: int = 0, split_seed: int = 0) -> SceneSet:
    """The same pictures, each showing its class and none of the others, divided by class as `split_by_class` does: near duplicates stay on
    one side.

    >>> import numpy as np
    >>> cats = PictureSet([np.zeros((4, 6), np.uint8)] * 6, ["cat", "dog"], y=[0, 0, 0, 1, 1, 1], boxes=[[0, 0, 2, 2]] * 6)
    >>> scenes = as_scenes(cats)
    >>> scenes, scenes.shown(3), int((scenes.division == 1).sum())
    (SceneSet(6 pictures of 2 classes, 6 boxes), ['dog'], 2)
    """
    n = len(pictures)
    labels = torch.full((n, len(pictures.classes)), -1).scatter(1, pictures.y[:, None], 1)
    truth = None if pictures.boxes is None else LabelledBoxes(torch.arange(n), pictures.y, pictures.boxes)
    _, test = split_by_class(pictures.y, fraction, fold, split_seed, pictures.groups)
    division = torch.zeros(n, dtype=torch.long).index_fill(0, test, 1)
    return SceneSet(pictures.sources, pictures.classes, labels, truth, pictures.names, division)
