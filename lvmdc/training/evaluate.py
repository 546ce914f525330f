"""How good predictions are: loss, class error, localisation."""

from torch import Tensor

from lvmdc import metrics
from lvmdc.losses import Loss
from lvmdc.training.data import Samples


def evaluate(samples: Samples, loss: Loss, y_hat: Tensor, h_hat: Tensor) -> dict[str, float]:
    """Measures of predictions y_hat (n,), h_hat (n,): `error` of the class and, where the truth of h is known, the mean `loss`,
    `corloc`, the share of pictures whose box overlaps the true one by half, and the mean `overlap`."""
    found = {"error": float(metrics.class_error(samples.y, y_hat))}
    if samples.h is None or samples.pictures.boxes is None:
        return found
    found["loss"] = float(metrics.test_loss(loss, samples.candidates, samples.y, samples.h, y_hat, h_hat))
    boxes = samples.pictures.boxes.to(y_hat.device)
    found["corloc"] = float(metrics.corloc(samples.candidates, h_hat, boxes))
    found["overlap"] = float(metrics.mean_overlap(samples.candidates, h_hat, boxes))
    return found
