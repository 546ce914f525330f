"""Scores as probabilities, so that those of different classes can be compared.

Platt: Probabilistic outputs for support vector machines and comparisons to regularized likelihood methods. 1999.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

LEAST = 1e-3  # slope: a better score is never less likely


def platt(best: Tensor, there: Tensor) -> Tensor:
    """(a, b) of P(class there | s) = 1/(1 + exp(−(a s + b))), s the best score of an image, by maximum likelihood.

    The targets are Platt's, (n₊ + 1)/(n₊ + 2) for the n₊ images with the class and 1/(n₋ + 2) for those without, so that scores
    that tell all of them apart have a finite slope. a is at least 0.001.

    Args:
        best: (n,) scores.
        there: (n,) whether the class is in the image; both kinds must be among them.

    >>> a, b = platt(torch.tensor([-3.0, -1.0, -2.0, 0.0]), torch.tensor([False, True, False, True])).tolist()
    >>> a > 0, round(-b / a, 2)  # the score at which both are as likely
    (True, -1.5)
    """
    from sklearn.linear_model import LogisticRegression

    n_there = int(there.sum())
    target = torch.where(there, (n_there + 1) / (n_there + 2), 1 / (len(there) - n_there + 2)).double().cpu().numpy()
    x = best.double().cpu().numpy()
    # A soft target is an image that counts partly as one with the class, and partly as one without.
    model = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000)
    model.fit(np.concatenate([x, x])[:, None], np.repeat([1, 0], len(x)), np.concatenate([target, 1 - target]))
    if model.coef_[0, 0] >= LEAST:
        return torch.tensor([model.coef_[0, 0], model.intercept_[0]])
    share = target.mean()
    return torch.tensor([LEAST, np.log(share / (1 - share)) - LEAST * x.mean()])


def calibrate(column: Tensor, own: Tensor, held_out: Callable[[Tensor], Tensor], folds: int) -> Tensor:
    """(a, b) of `platt` for a class, from scores of images that the scoring w did not learn from.

    A w scores the images that it learned from better than others: by a threshold from these, most of what is right elsewhere would be
    missed. So the images are divided into `folds` parts, each of which is scored by a w that learned from the others.

    Args:
        column: (n,) labels of the class: 1, −1, 0 (unknown).
        own: (n,) best score in each image by the w of all of them; used where a class has but one image of a kind, or `folds` is 0.
        held_out: the best scores in the images `index` (m,), by a w that did not learn from them.

    >>> calibrate(torch.tensor([1, -1]), torch.tensor([1.0, -1.0]), lambda index: index, folds=3)[1].abs() < 1e-6
    tensor(True)
    """
    from sklearn.model_selection import StratifiedKFold

    known = (column != 0).nonzero().flatten().cpu()
    there = (column == 1).cpu()[known]
    parts = min(folds, int(there.sum()), int((~there).sum()))
    if parts < 2:
        return platt(own.cpu()[known], there)
    best = torch.empty(len(known), dtype=torch.float64)
    for _, part in StratifiedKFold(parts, shuffle=True, random_state=0).split(known.numpy(), there.numpy()):
        best[part] = held_out(known[part]).double().cpu()
    return platt(best, there)


def as_probability(scores: Tensor, pairs: Tensor) -> Tensor:
    """1/(1 + exp(−(a s + b))) of scores, by pairs (…, 2) of a and b, in double precision: near 1 there is little room.

    >>> as_probability(torch.tensor([0.0, 2.0]), torch.tensor([1.0, -2.0]))
    tensor([0.1192, 0.5000], dtype=torch.float64)
    """
    slope, shift = pairs.to(scores.device, torch.float64).unbind(-1)
    return torch.sigmoid(slope * scores.double() + shift)
