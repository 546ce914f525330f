"""Drawings of what the model sees: images with their boxes and the posterior over boxes; and what w looks like."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from PIL import Image
from torch import Tensor

from lvmdc.boxes import LabelledBoxes
from lvmdc.candidates import Candidates
from lvmdc.distributions import LinearPrediction
from lvmdc.lightning.data import Samples
from lvmdc.lightning.detector import DetectorModule, images_of
from lvmdc.lightning.module import LatentModule
from lvmdc.reporting import contact_sheet, draw_detection, draw_scene, with_caption
from lvmdc.reporting.logo import draw_logo
from lvmdc.samples import CandidateSet
from lvmdc.sequences.motif import SequenceSet
from lvmdc.sequences.motif_map import BOUND, MotifMap
from lvmdc.vision.detection import Detector, ExclusiveDetector

OF_A_CLASS, COLUMNS = 6, 6  # training images that show what was found of a class, and how many on a row
SURE = 0.5  # probability above which a detected object is drawn


def spread(n: int, count: int) -> torch.Tensor:
    """`count` indices evenly over 0..n−1: samples are sorted by class, so this shows all of them.

    >>> spread(10, 3)
    tensor([0, 4, 9])
    """
    return torch.linspace(0, n - 1, min(n, count)).long()


def draw_samples(module: LatentModule, samples: Samples, count: int, size: int = 256) -> list[tuple[str, Image.Image]]:
    """Some of the samples as the model sees them, each with a caption: its name and class."""
    if isinstance(module, DetectorModule):
        return draw_objects(module, samples, count, size)
    shown = module.described(samples.subset(spread(len(samples), count))).to(module.device)
    y_hat, h_hat = module.prediction(shown.candidates).predict(shown.candidates)
    p = module.posterior(shown.candidates, shown.y).cpu()
    candidates, items = shown.candidates.to("cpu"), shown.items
    direct = isinstance(items, CandidateSet)
    latent = items.latent if isinstance(items, CandidateSet) else [True] * len(items.classes)
    drawn = []
    for i, (start, count_i) in enumerate(zip(candidates.offsets.tolist(), candidates.counts.tolist(), strict=True)):
        image, y, guess = items.image(i), int(shown.y[i]), int(y_hat[i])
        boxes, truth = _boxes(shown, candidates, i)
        caption = items.classes[y] if guess == y else f"{items.classes[y]}, predicted {items.classes[guess]}"
        found = draw_detection(
            image,
            predicted=boxes[int(h_hat[i])] if latent[guess] else None,
            truth=truth if latent[y] else None,
            boxes=boxes if latent[y] else None,
            posterior=p[start : start + count_i] if latent[y] else None,
            size=max(image.size) if direct else size,  # a strip is drawn to be read as it is
            correct=guess == y,
            like=size,
        )
        drawn.append((f"{items.names[i]}: {caption}", found))
    return drawn


def captioned_sheet(drawn: Sequence[tuple[str, Image.Image]], columns: int = 4, meanings: Sequence[str] | None = None) -> Image.Image:
    """Drawings and their captions on one sheet."""
    return contact_sheet([with_caption(image, caption) for caption, image in drawn], columns, meanings=meanings)


def _boxes(shown: Samples, candidates: Candidates, i: int) -> tuple[Tensor, Tensor | None]:
    """(m, 4) where the candidates of sample i are in its image, and where the truth is, if that is known."""
    if isinstance(shown.items, CandidateSet):
        boxes = shown.items.places(i)
        return boxes, None if shown.h is None else boxes[int(shown.h[i])]
    assert candidates.boxes is not None
    start, count = int(candidates.offsets[i]), int(candidates.counts[i])
    truth = None if shown.items.truth is None else shown.items.truth.of_image(i).box
    return candidates.boxes[start : start + count], None if truth is None or len(truth) == 0 else truth[0]


@torch.no_grad()
def draw_learned(module: LatentModule, samples: Samples) -> list[tuple[str, Image.Image]]:
    """What w looks like, for data of which that can be drawn: the logos of a motif, by the windows where it is found in samples that have
    one, by its weights, and, where that is known, as it truly is."""
    items = samples.items
    if not isinstance(items, SequenceSet):
        return []
    samples = module.described(samples).to(module.device)
    p_w = module.prediction(samples.candidates)
    logos = []
    y_hat, h_hat = p_w.predict(samples.candidates)
    found = ((y_hat == BOUND) & (samples.y == BOUND)).nonzero().flatten()
    if len(found):
        shares = items.psi.letter_shares(samples.candidates, samples.candidates.rows(h_hat)[found])
        logos.append((f"motif in the {len(found)} sequences where it is rightly found", shares))
        if isinstance(p_w, LinearPrediction) and isinstance(p_w.joint, MotifMap):
            logos.append(("motif by its weights, as likely for these as can be", p_w.joint.letter_probabilities(p_w.w, shares)))
    if items.logo is not None:
        logos.append(("motif as it was planted", torch.from_numpy(items.logo)))
    return [(title, draw_logo(shares, title)) for title, shares in logos]


def draw_objects(module: DetectorModule, samples: Samples, count: int, size: int = 256) -> list[tuple[str, Image.Image]]:
    """Some of the images with the objects that a detector finds, each with its name."""
    shown = samples.subset(spread(len(samples), count)).to(module.device)
    images = images_of(shown)
    found, (most, least) = module.detector.predict(shown.candidates).to("cpu"), usual_boxes(module.detector)
    truth = [None if images.truth is None else images.truth.of_image(i) for i in range(len(images))]
    return [
        (images.names[i], draw_scene(images.image(i), surest(found.of_image(i), least, most), images.classes, truth[i], size=size))
        for i in range(len(images))
    ]


def draw_class(module: DetectorModule, samples: Samples, k: int, size: int = 256) -> Image.Image:
    """The best box of class k in some of the images that are labelled with it."""
    labelled = (images_of(samples).table[:, k] == 1).nonzero().flatten()
    shown = samples.subset(labelled[spread(len(labelled), OF_A_CLASS)]).to(module.device)
    images = images_of(shown)
    found = module.detector.locate(shown.candidates, images.table).to("cpu").of_label(k)
    truth = None if images.truth is None else images.truth.of_label(k)
    drawn = [
        draw_scene(images.image(i), found.of_image(i), images.classes, None if truth is None else truth.of_image(i), size=size)
        for i in range(len(images))
    ]
    return contact_sheet(drawn, COLUMNS, meanings=("predicted",) if truth is None else ("truth", "predicted"))


def usual_boxes(detector: Detector) -> tuple[int | None, float]:
    """How many boxes per image are shown, and above which probability: the best one where images show one class each, and all above 0.5
    where they may show several.

    >>> usual_boxes(Detector()), usual_boxes(ExclusiveDetector())
    ((None, 0.5), (1, 0.0))
    """
    return (1, 0.0) if isinstance(detector, ExclusiveDetector) else (None, SURE)


def surest(found: LabelledBoxes, min_score: float, most: int | None = None) -> LabelledBoxes:
    """The boxes whose score is above `min_score`, best first, `most` of them at most.

    >>> surest(LabelledBoxes([0, 0], [0, 1], [[0, 0, 1, 1]] * 2, score=[-1.0, 2.0]), 0.0).label
    tensor([1])
    """
    assert found.score is not None
    order = found.score.argsort(descending=True, stable=True)
    return found[order[found.score[order] > min_score][:most]]
