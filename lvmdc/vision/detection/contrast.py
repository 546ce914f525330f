"""Contrast initialisation: the objects of a class are first where images with it differ from those without.

Hariharan, Malik, Ramanan: Discriminative decorrelation for clustering and classification. ECCV 2012 (the covariance of all windows).
"""

import torch
from torch import Tensor

from lvmdc.candidates import Candidates
from lvmdc.feature_maps import product, transposed_product
from lvmdc.segments import segment_argmax
from lvmdc.storage.mapped import row_chunks

SHRINKAGE = 0.1  # of the covariance towards a multiple of the identity


class Contrast:
    """h0_i = argmax_h v·φ(x_i, h) with v = Σ⁻¹ (μ₊ − μ₋): linear discriminant analysis of images with and without a class.

    μ₊ and μ₋ are the means over these images of the mean over their candidates, Σ the covariance of all candidates of the set, shrunk by
    a tenth towards its mean variance, and the same for every class. All candidates of an image have the same weight, so that no first
    guess of h is needed: what is the same in both kinds of image cancels.

    >>> x = torch.tensor([[3.0, 0], [0, 1], [1, 0], [0, 1], [0, 1.0], [0, 1]])  # the first image has a class, in its first candidate
    >>> Contrast(Candidates(x, [2, 2, 2])).candidates_of(torch.tensor([1, -1, -1]))
    tensor([0, 0, 0])
    """

    def __init__(self, candidates: Candidates):
        self.candidates = candidates
        n, d = candidates.n_candidates, candidates.n_features
        mean, second = (torch.zeros(*shape, dtype=torch.float64, device=candidates.device) for shape in ((d,), (d, d)))
        for part in row_chunks(candidates.features):
            rows = part.to(torch.promote_types(part.dtype, torch.float32))
            mean += rows.sum(dim=0, dtype=torch.float64)
            second += (rows.T @ rows).double()
        mean /= n
        covariance = second / n - mean[:, None] * mean
        level = covariance.diagonal().mean().clamp(min=torch.finfo(torch.float64).tiny)
        shrunk = (1 - SHRINKAGE) * covariance + SHRINKAGE * level * torch.eye(d, dtype=torch.float64, device=candidates.device)
        self._factor = torch.linalg.cholesky(shrunk)

    def direction(self, column: Tensor) -> Tensor:
        """(d,): v of a class, from its labels (n,)."""
        weights = torch.stack([(column == value).double() / (column == value).sum() for value in (1, -1)])  # (2, n)
        each = (weights / self.candidates.counts)[:, self.candidates.sample].T  # (T, 2)
        there, lack = transposed_product(self.candidates.features, each)
        return torch.cholesky_solve((there - lack)[:, None], self._factor)[:, 0]

    def candidates_of(self, column: Tensor) -> Tensor:
        """(n,): the candidate of each image that shows the class most, or, in images that have it not, seems to."""
        scores = product(self.candidates.features, self.direction(column)[None])[:, 0]
        return self.candidates.index(segment_argmax(scores, self.candidates.counts))
