"""How good predictions are: loss, class error, localisation."""

import torch
from torch import Tensor

from lvmdc import metrics
from lvmdc.data.pictures import PictureSet
from lvmdc.losses import Loss
from lvmdc.losses.overlap import box_iou
from lvmdc.training.data import Samples


def evaluate(samples: Samples, loss: Loss, y_hat: Tensor, h_hat: Tensor) -> dict[str, float]:
    """Measures of predictions y_hat (n,), h_hat (n,): `error` of the class and, where the truth of h is known, the mean `loss`,
    for pictures `corloc`, the share of them whose box overlaps the true one by half, and the mean `overlap`, for others `latent_error`,
    the share of those whose class has a latent variable for which another h than the true one is predicted, and, where candidates have
    boxes, the mean `overlap` of the two."""
    found = {"error": float(metrics.class_error(samples.y, y_hat))}
    if samples.h is None:
        return found
    found["loss"] = float(metrics.test_loss(loss, samples.candidates, samples.y, samples.h, y_hat, h_hat))
    if not isinstance(samples.items, PictureSet):
        latent = torch.tensor(samples.items.latent, device=y_hat.device)
        has_h, c = latent[samples.y].nonzero().flatten(), samples.candidates
        if len(has_h) == 0:
            return found
        none = ~latent[y_hat[has_h]]  # a class without h finds none
        found["latent_error"] = float((h_hat != samples.h)[has_h].logical_or(none).double().mean())
        if c.boxes is not None:
            iou = box_iou(c.boxes[c.rows(h_hat)], c.boxes[c.rows(samples.h)])[has_h]
            found["overlap"] = float(iou.masked_fill(none, 0.0).double().mean())
        return found
    assert samples.items.boxes is not None  # or h would not be known
    boxes = samples.items.boxes.to(y_hat.device)
    found["corloc"] = float(metrics.corloc(samples.candidates, h_hat, boxes))
    found["overlap"] = float(metrics.mean_overlap(samples.candidates, h_hat, boxes))
    return found
