"""SceneSet: images with several objects, of several classes, labelled with the classes alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from lvmdc.arrays import ArrayLike, as_tensor
from lvmdc.boxes import LabelledBoxes
from lvmdc.samples import split_by_class
from lvmdc.vision.datasets.images import ImageSet, Source, Sources, check_length


class SceneSet(Sources):
    """n images, each labelled with the classes that it shows; where the objects are is known to measure by, not to learn from.

    Args:
        sources: n files, or uint8 arrays of shape (height, width) or (height, width, 3).
        classes: the K names of the classes.
        labels: (n, K) 1 where an image shows a class, −1 where it does not, 0 where that is not told.
        truth: the true boxes; None where they are not known.
        names: what each image is called in messages, caches and results.
        division: (n,) the part that each image came in, 0 to learn from and 1 to test with; None where they came in one.

    >>> scenes = SceneSet([np.zeros((4, 6), np.uint8)] * 2, ["cat", "dog"], labels=[[1, 1], [-1, 1]])
    >>> scenes, scenes.shown(0)
    (SceneSet(2 images of 2 classes), ['cat', 'dog'])
    """

    def __init__(
        self,
        sources: Sequence[Source],
        classes: Sequence[str],
        labels: ArrayLike,
        truth: LabelledBoxes | None = None,
        names: Sequence[str] | None = None,
        division: ArrayLike | None = None,
    ):
        super().__init__(sources, classes, names)
        self.labels = as_tensor(labels)
        n, n_classes = len(self), len(self.classes)
        if self.labels.shape != (n, n_classes):
            raise ValueError(f"labels must have shape ({n}, {n_classes}), images × classes, but it has shape {tuple(self.labels.shape)}")
        if not bool(((self.labels == 1) | (self.labels == 0) | (self.labels == -1)).all()):
            raise ValueError("labels must hold 1, 0 and −1 alone: the class is there, not told, not there")
        self.labels = self.labels.long()
        self.truth = truth
        if truth is not None and len(truth) and (int(truth.image.max()) >= n or int(truth.label.max()) >= n_classes):
            raise ValueError(f"truth must be of {n} images and {n_classes} classes, but it has a box of an image or class beyond them")
        self.division = None if division is None else as_tensor(division).long()
        if self.division is not None:
            check_length("division", len(self.division), n)

    @staticmethod
    def of_boxes(
        sources: Sequence[Source],
        classes: Sequence[str],
        truth: LabelledBoxes,
        names: Sequence[str] | None = None,
        division: ArrayLike | None = None,
    ) -> SceneSet:
        """The set whose labels are the classes of its true boxes; a class of which only difficult boxes are there is not told.

        >>> boxes = LabelledBoxes([0], [1], [[0, 0, 2, 2]])
        >>> SceneSet.of_boxes([np.zeros((4, 6), np.uint8)], ["cat", "dog"], boxes).labels.tolist()
        [[-1, 1]]
        """
        return SceneSet(sources, classes, truth.labels(len(sources), len(classes)), truth, names, division)

    def __repr__(self) -> str:
        boxes = "" if self.truth is None else f", {len(self.truth)} boxes"
        return f"SceneSet({len(self)} images of {len(self.classes)} classes{boxes})"

    def shown(self, i: int) -> list[str]:
        """The names of the classes that image i shows."""
        return [self.classes[k] for k in (self.labels[i] == 1).nonzero().flatten().tolist()]

    def subset(self, index: ArrayLike) -> SceneSet:
        """The images `index` (integers), in that order, of the same classes."""
        chosen = as_tensor(index).long()
        places = chosen.tolist()
        return SceneSet(
            [self.sources[i] for i in places],
            self.classes,
            self.labels[chosen],
            None if self.truth is None else self.truth.subset(chosen),
            [self.names[i] for i in places],
            None if self.division is None else self.division[chosen],
        )


def split_scenes(scenes: SceneSet, fraction: float = 0.6, fold: int = 0, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Indices of a training and a test part, both sorted: as the images came, or else `fraction` of them at random trains.

    Each `fold` is an independent random division. A class that one of the parts does not show is refused.

    >>> scenes = SceneSet([np.zeros((4, 6), np.uint8)] * 5, ["cat"], labels=[[1]] * 5)
    >>> [len(part) for part in split_scenes(scenes)]
    [3, 2]
    """
    if scenes.division is not None:
        train, test = ((scenes.division == part).nonzero().flatten() for part in (0, 1))
    else:
        if not 0 < fraction < 1:
            raise ValueError(f"fraction must lie between 0 and 1, but it is {fraction}")
        order = torch.from_numpy(np.random.default_rng([seed, fold]).permutation(len(scenes)))
        first = round(fraction * len(scenes))
        train, test = order[:first].sort().values, order[first:].sort().values
    for part, index in (("training", train), ("test", test)):
        lacking = (~(scenes.labels[index] == 1).any(dim=0)).nonzero().flatten()
        if len(lacking):
            raise ValueError(f"the {part} part has no image that shows {scenes.classes[int(lacking[0])]!r}")
    return train, test


# Images with one label each as scenes, so that a detector can learn from them.


def as_scenes(images: ImageSet, fraction: float = 0.6, fold: int = 0, split_seed: int = 0) -> SceneSet:
    """The same images, each showing its class and none of the others, divided by class as `split_by_class` does: near duplicates stay on
    one side.

    >>> import numpy as np
    >>> cats = ImageSet([np.zeros((4, 6), np.uint8)] * 6, ["cat", "dog"], y=[0, 0, 0, 1, 1, 1], boxes=[[0, 0, 2, 2]] * 6)
    >>> scenes = as_scenes(cats)
    >>> scenes, scenes.shown(3), int((scenes.division == 1).sum())
    (SceneSet(6 images of 2 classes, 6 boxes), ['dog'], 2)
    """
    n = len(images)
    labels = torch.full((n, len(images.classes)), -1).scatter(1, images.y[:, None], 1)
    truth = None if images.boxes is None else LabelledBoxes(torch.arange(n), images.y, images.boxes)
    _, test = split_by_class(images.y, fraction, fold, split_seed, images.groups)
    division = torch.zeros(n, dtype=torch.long).index_fill(0, test, 1)
    return SceneSet(images.sources, images.classes, labels, truth, images.names, division)
