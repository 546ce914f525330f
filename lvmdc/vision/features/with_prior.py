"""What a prior adds to candidates that are described already: log weights, its own boxes, and columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from PIL import Image
from torch import Tensor
from tqdm import tqdm

from lvmdc.boxes import LabelledBoxes
from lvmdc.candidates import Candidates
from lvmdc.priors.base import Prior
from lvmdc.storage.mapped import release, stacked
from lvmdc.vision.datasets.images import ImageSet
from lvmdc.vision.features.base import Features


class TrainingImages:
    """Some of the images of a set, opened one at a time, as often as they are asked for: what a prior is fitted on.

    >>> import numpy as np
    >>> images = TrainingImages(ImageSet([np.zeros((4, 6), np.uint8)] * 3, ["cat"]), [2, 0], progress=False)
    >>> [image.size for image in images], len(list(images))
    ([(6, 4), (6, 4)], 2)
    """

    def __init__(self, images: ImageSet, index: Sequence[int], progress: bool = True):
        self.images, self.index, self.progress = images, index, progress

    def __iter__(self) -> Iterator[Image.Image]:
        for i in tqdm(self.index, desc="prior", unit="image", disable=not self.progress):
            yield self.images.image(i)


def with_prior(
    images: ImageSet, candidates: Candidates, features: Features, prior: Prior, columns: float = 0.0, progress: bool = True
) -> Candidates:
    """The candidates of every image with the prior's log weights, after the boxes that the prior suggests are added to them.

    Args:
        features: those of the candidates, which describe the added boxes.
        columns: a factor on what the prior knows of each box (`Prior.columns`), which is added to the features, so that w can use it on
            images without labels; 0: nothing is added.

    >>> import numpy as np
    >>> from lvmdc.vision.features.hog import HOG
    >>> from lvmdc.priors import CentredBoxPrior
    >>> images, whole = ImageSet([np.zeros((64, 64), np.uint8)], ["cat"]), torch.tensor([[0.0, 0.0, 64.0, 64.0]])
    >>> described = Candidates(HOG().describe(images.image(0), whole), [1], whole)
    >>> with_prior(images, described, HOG(), CentredBoxPrior(share=0.5), progress=False).prior
    tensor([ 2.5000, 10.0000])
    """
    if candidates.boxes is None:
        raise ValueError("candidates must have boxes, but candidates.boxes is None")
    if candidates.phi is not None or candidates.prior is not None:
        raise ValueError("candidates must have neither a prior nor features of Φ of their own, but they have")
    if columns < 0:
        raise ValueError(f"columns must be at least 0, but it is {columns}")
    added, boxes, weights, counts, known = [], [], [], [], []
    first = 0
    for i in tqdm(range(len(images)), desc="prior", unit="image", disable=not progress):
        image, count = images.image(i), int(candidates.counts[i])
        place, more, weight, column = _one(image, images.names[i], candidates.boxes[first : first + count], features, prior, columns)
        added.append(more)
        boxes.append(place)
        weights.append(weight)
        known.append(column)
        counts.append(count + len(more))
        first += count

    def rows() -> Iterator[Tensor]:
        first = 0
        for more, column, count in zip(added, known, candidates.counts.tolist(), strict=True):
            own = candidates.features[first : first + count]
            yield torch.cat([torch.cat([own, more.to(own)]), column.to(own)], dim=1)
            release(own)
            first += count

    return Candidates(stacked(rows(), sum(counts), candidates.features), counts, torch.cat(boxes), prior=torch.cat(weights))


def described_with_prior(
    image: Image.Image, name: str, boxes: Tensor, features: Features, prior: Prior | None, columns: float = 0.0
) -> Candidates:
    """The candidates of one image, as `with_prior` makes them.

    >>> from lvmdc.vision.features.hog import HOG
    >>> described_with_prior(Image.new("RGB", (64, 64)), "a", torch.tensor([[0.0, 0.0, 64.0, 64.0]]), HOG(), None)
    Candidates(1 samples, 1 candidates of 324 features, boxes, torch.float32, cpu)
    """
    numbers = features.describe_named(image, name, boxes)
    if prior is None:
        return Candidates(numbers, [len(boxes)], boxes)
    places, more, weights, known = _one(image, name, boxes, features, prior, columns)
    return Candidates(torch.cat([torch.cat([numbers, more]), known], dim=1), [len(places)], places, prior=weights)


def from_prior(found: LabelledBoxes, candidates: Candidates, added: Tensor) -> Tensor:
    """(m,) which of the boxes found are ones that the prior added: the last `added` (n,) candidates of each image.

    >>> candidates = Candidates(torch.zeros(2, 1), [2], [[0, 0, 2, 2], [1, 0, 3, 2]])
    >>> from_prior(LabelledBoxes([0, 0], [0, 1], [[1, 0, 3, 2], [0, 0, 2, 2]]), candidates, torch.tensor([1]))
    tensor([ True, False])
    """
    assert candidates.boxes is not None
    own = torch.zeros(len(found), dtype=torch.bool, device=found.box.device)
    last = (candidates.offsets[: len(candidates)] + candidates.counts - 1)[found.image]
    for back in range(int(added.max())):
        own |= (found.box == candidates.boxes[last - back]).all(dim=1) & (back < added[found.image])
    return own


def _one(
    image: Image.Image, name: str, boxes: Tensor, features: Features, prior: Prior, columns: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """All boxes of an image, the features of the added ones, log weights and columns of all."""
    suggested = prior.boxes(image).to(boxes)
    places = torch.cat([boxes, suggested])
    more = features.describe_named(image, name, suggested if len(suggested) else boxes[:1])[: len(suggested)]
    known = columns * prior.columns(image, places) if columns > 0 else torch.zeros(len(places), 0)
    return places, more, prior(image, places), known
