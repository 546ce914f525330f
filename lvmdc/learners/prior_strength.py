"""How strong a prior should be: where labels that were held back are most likely."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from lvmdc.arrays import ArrayLike, as_tensor
from lvmdc.candidates import Candidates
from lvmdc.learners.base import LatentLearner
from lvmdc.segments import segment_max

STRENGTHS = (0.0, 0.3, 1.0, 3.0)  # of the strength that the prior has by itself
SCALES = (-8.0, 8.0)  # log of the scales of scores among which the likelihood is maximised


def strength_losses(
    learner: LatentLearner,
    candidates: Candidates,
    y: ArrayLike,
    h: ArrayLike | None = None,
    strengths: Sequence[float] = STRENGTHS,
    folds: int = 3,
    progress: bool = False,
) -> dict[float, float]:
    """−log likelihood of held-out labels, the mean over the samples, with the prior of the candidates times each of the strengths.

    The samples are divided into `folds` parts by class; copies of the learner are trained on all parts but one, and score the samples of
    that one. P(y | x) ∝ exp(a max_h w·Ψ(x, y, h)), see `label_loss`. No true h is used but what `h` gives for training.

    >>> from lvmdc import LSVM
    >>> c = Candidates(torch.eye(2).repeat(6, 1)[:6], [1] * 6, prior=torch.zeros(6))
    >>> losses = strength_losses(LSVM(C=10.0), c, [0, 1] * 3, strengths=[0.5, 2.0])
    >>> losses[0.5] == losses[2.0]  # of one candidate there is nothing to know
    True
    """
    from sklearn.base import clone
    from sklearn.model_selection import StratifiedKFold

    labels = candidates.outputs(y)
    fewest = int(labels.bincount()[labels.unique()].min())
    if candidates.prior is None:
        raise ValueError("candidates must have a prior, whose strength is to be chosen, but candidates.prior is None")
    if fewest < 2:
        raise ValueError("y must have at least 2 samples of each class to choose a strength of the prior, but one has 1; give a strength")
    known = None if h is None else as_tensor(h)
    parts = list(StratifiedKFold(min(folds, fewest), shuffle=True, random_state=0).split(labels.cpu(), labels.cpu()))
    losses = {}
    with tqdm(total=len(strengths) * len(parts), desc="strength of the prior", unit="fit", disable=not progress) as bar:
        for strength in strengths:
            scores = torch.zeros(len(labels), int(labels.max()) + 1, dtype=torch.float64)
            for others, held_out in parts:
                own = candidates.subset(others)
                fitted = clone(learner).set_params(n_classes=scores.shape[1])
                fitted.fit(own.with_prior(own.prior, strength), labels[others], None if known is None else known[others])
                scores[held_out] = _best(fitted, candidates.subset(held_out))
                bar.update()
            losses[float(strength)] = label_loss(scores, labels.cpu())
    return losses


def _best(fitted: LatentLearner, candidates: Candidates) -> Tensor:
    """(n, K): the best score of each class."""
    with torch.no_grad():
        scores = fitted.prediction(candidates).scores(candidates)
    return torch.stack([segment_max(column.contiguous(), candidates.counts) for column in scores.T], dim=1).double().cpu()


def label_loss(scores: Tensor, y: Tensor) -> float:
    """−log likelihood of labels under softmax(a · scores), with the scale a that makes all of them together most likely.

    Labels count as in Platt's calibration: a class of m samples with 1 − 1/(m + 2). Else, where all labels are right, a would have no end
    and every loss would be 0; so that one is lower whose margins differ less from sample to sample.

    >>> one, two = torch.tensor([[2.0, 0], [0, 2.0]]), torch.tensor([[3.0, 0], [0, 1.0]])
    >>> label_loss(one, torch.tensor([0, 1])) < label_loss(two, torch.tensor([0, 1]))
    True
    """
    from scipy.optimize import minimize_scalar

    n_classes = scores.shape[1]
    wrong = n_classes / max(1, n_classes - 1) / (len(y) / n_classes + 2)  # of which cross_entropy leaves 1/K to the label
    scores = scores.double()

    def loss(log_scale: float) -> float:
        return float(cross_entropy(np.exp(log_scale) * scores, y, label_smoothing=min(1.0, wrong)))

    return float(minimize_scalar(loss, bounds=SCALES, method="bounded").fun)
