"""How good predictions are: loss, class error, localisation."""

import torch
import torch.distributed as dist
from torch import Tensor

from lvmdc.data.pictures import PictureSet
from lvmdc.losses import Loss
from lvmdc.losses.overlap import box_iou
from lvmdc.metrics.localisation import overlaps
from lvmdc.training.data import Samples


def evaluate(samples: Samples, loss: Loss, y_hat: Tensor, h_hat: Tensor) -> dict[str, float]:
    """Measures of predictions y_hat (n,), h_hat (n,): `error` of the class and, where the truth of h is known, the mean `loss`,
    for pictures `corloc`, the share of them whose box overlaps the true one by half, and the mean `overlap`, for others `latent_error`,
    the share of those whose class has a latent variable for which another h than the true one is predicted, and, where candidates have
    boxes, the mean `overlap` of the two. Where each rank has some of the samples, all ranks call it, and the means are over all samples."""
    values = {name: v.double() for name, v in of_samples(samples, loss, y_hat, h_hat).items()}
    sums = torch.tensor([[float(v.sum()), len(v)] for v in values.values()], dtype=torch.float64, device=y_hat.device)
    if samples.divided:
        dist.all_reduce(sums)
    return {name: total / n for name, (total, n) in zip(values, sums.tolist(), strict=True) if n}


def of_samples(samples: Samples, loss: Loss, y_hat: Tensor, h_hat: Tensor) -> dict[str, Tensor]:
    """The measures of each of the samples that have them."""
    found = {"error": samples.y != y_hat}
    if samples.h is None:
        return found
    found["loss"] = loss.between(samples.candidates, samples.y, samples.h, y_hat, h_hat)
    if not isinstance(samples.items, PictureSet):
        latent = torch.tensor(samples.items.latent, device=y_hat.device)
        has_h, c = latent[samples.y].nonzero().flatten(), samples.candidates
        none = ~latent[y_hat[has_h]]  # a class without h finds none
        found["latent_error"] = (h_hat != samples.h)[has_h].logical_or(none)
        if c.boxes is not None:
            iou = box_iou(c.boxes[c.rows(h_hat)], c.boxes[c.rows(samples.h)])[has_h]
            found["overlap"] = iou.masked_fill(none, 0.0)
        return found
    assert samples.items.boxes is not None  # or h would not be known
    found["overlap"] = overlaps(samples.candidates, h_hat, samples.items.boxes.to(y_hat.device))
    found["corloc"] = found["overlap"] >= 0.5
    return found
