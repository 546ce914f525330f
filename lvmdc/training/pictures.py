"""What the model sees: a picture with its true box, its predicted box and the posterior over boxes; and what w looks like."""

from __future__ import annotations

import torch
from PIL import Image
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.data.candidate_set import CandidateSet
from lvmdc.data.motif_map import BOUND, MotifMap
from lvmdc.data.sequences import SequenceSet
from lvmdc.distributions import LinearPrediction
from lvmdc.reporting.drawing import draw_detection
from lvmdc.reporting.logo import draw_logo
from lvmdc.training.data import Samples
from lvmdc.training.module import LatentModule


def spread(n: int, count: int) -> torch.Tensor:
    """`count` indices evenly over 0..n−1: samples stand by class, so this shows all of them.

    >>> spread(10, 3)
    tensor([0, 4, 9])
    """
    return torch.linspace(0, n - 1, min(n, count)).long()


def draw_samples(module: LatentModule, samples: Samples, count: int, size: int = 256) -> list[tuple[str, Image.Image]]:
    """Some of the samples as the model sees them, each with its name."""
    shown = module.described(samples.subset(spread(len(samples), count))).to(module.device)
    y_hat, h_hat = module.prediction(shown.candidates).predict(shown.candidates)
    p = module.posterior(shown.candidates, shown.y).cpu()
    candidates, items = shown.candidates.to("cpu"), shown.items
    direct = isinstance(items, CandidateSet)
    latent = items.latent if isinstance(items, CandidateSet) else [True] * len(items.classes)
    drawn = []
    for i, (start, count_i) in enumerate(zip(candidates.offsets.tolist(), candidates.counts.tolist(), strict=True)):
        image, y, guess = items.image(i), int(shown.y[i]), int(y_hat[i])
        boxes, truth = _places(shown, candidates, i)
        caption = items.classes[y] if guess == y else f"{items.classes[y]}, taken for {items.classes[guess]}"
        found = draw_detection(
            image,
            predicted=boxes[int(h_hat[i])] if latent[guess] else None,
            truth=truth if latent[y] else None,
            boxes=boxes if latent[y] else None,
            posterior=p[start : start + count_i] if latent[y] else None,
            caption=caption,
            size=max(image.size) if direct else size,  # a strip is drawn to be read as it is
            correct=guess == y,
            like=size,
        )
        drawn.append((f"{items.names[i]}: {caption}", found))
    return drawn


def _places(shown: Samples, candidates: Candidates, i: int) -> tuple[Tensor, Tensor | None]:
    """(m, 4) where the candidates of sample i are in its picture, and where the truth is, if that is known."""
    if isinstance(shown.items, CandidateSet):
        boxes = shown.items.places(i)
        return boxes, None if shown.h is None else boxes[int(shown.h[i])]
    assert candidates.boxes is not None
    start, count = int(candidates.offsets[i]), int(candidates.counts[i])
    return candidates.boxes[start : start + count], None if shown.items.boxes is None else shown.items.boxes[i]


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
