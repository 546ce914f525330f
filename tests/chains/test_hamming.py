"""The Hamming loss and its expectations against the double sum over all labelings."""

import brute
import pytest
import torch
from brute import random_scores

from lvmdc.chains import ChainDistribution, HammingLoss


@pytest.mark.parametrize("latent", [1.0, 0.3])
def test_expected_loss_and_diversity_are_the_sums_over_all_labelings(latent):
    scores, loss = random_scores(n=3, m=3, states=3, seed=1), HammingLoss(latent)
    p = ChainDistribution(scores).marginals
    other = random_scores(n=3, m=3, states=3, seed=1)
    other.unary = other.unary.flip(2)
    q = ChainDistribution(other).marginals
    h = torch.randint(3, (3, 3), generator=torch.Generator().manual_seed(0))
    expected, diversity, between = (torch.zeros(3, dtype=torch.float64) for _ in range(3))
    for i in range(3):
        probabilities, others = brute.probabilities(scores, i), brute.probabilities(other, i)
        for a, pa in probabilities.items():
            expected[i] += pa * brute.hamming(0, a, 0, h[i, : len(a)].tolist(), latent)
            diversity[i] += sum(pa * pb * brute.hamming(0, a, 0, b, latent) for b, pb in probabilities.items())
            between[i] += sum(pa * qb * brute.hamming(0, a, 0, b, latent) for b, qb in others.items())
    assert torch.allclose(loss.expected(p, h, scores.lengths), expected)
    assert torch.allclose(loss.diversity(p, scores.lengths), diversity)
    assert torch.allclose(loss.diversity(p, scores.lengths, q), between)
    site = loss.site_loss(p, scores.lengths).gather(2, h[..., None])[..., 0].sum(dim=1)
    assert torch.allclose(site, expected)


def test_between_is_one_where_classes_differ_and_the_share_of_sites_elsewhere():
    h1, h2 = torch.tensor([[0, 1, 2], [0, 1, 2], [0, 1, 2]]), torch.tensor([[0, 1, 0], [9, 9, 2], [0, 1, 2]])
    y1, y2, lengths = torch.tensor([0, 1, 1]), torch.tensor([0, 1, 0]), torch.tensor([3, 2, 3])
    assert HammingLoss(0.5).between(y1, h1, y2, h2, lengths).tolist() == pytest.approx([0.5 / 3, 0.5, 1.0])


def test_a_negative_weight_is_refused():
    with pytest.raises(ValueError, match="latent must be a number ≥ 0"):
        HammingLoss(-1.0)
