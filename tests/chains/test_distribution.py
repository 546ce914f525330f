"""P(h) over a chain against enumeration: log-partition, marginals, entropy, derivatives, draws."""

import math

import brute
import pytest
import torch
from brute import all_scores, random_scores
from hypothesis import given
from references import SMALL

from lvmdc.chains import ChainDistribution, ChainScores, HammingLoss
from lvmdc.chains.distribution import node_marginals
from lvmdc.distributions import sampled_diversity, sampled_mean

KINDS = ["none", "shared", "chain", "site"]


@SMALL
@given(scores=all_scores())
def test_log_partition_is_that_of_all_labelings(scores):
    exact = torch.tensor([brute.log_sum(brute.labelings(scores, i).values()) for i in range(len(scores))])
    assert torch.allclose(ChainDistribution(scores).log_partition, exact.double(), rtol=1e-6)


@SMALL
@given(scores=all_scores())
def test_node_marginals_are_those_of_all_labelings(scores):
    assert torch.allclose(ChainDistribution(scores).marginals, brute.marginals(scores), atol=1e-9)


@SMALL
@given(scores=all_scores())
def test_edge_marginals_are_those_of_all_labelings(scores):
    n, m, states = scores.unary.shape
    exact = torch.zeros(n, m - 1, states, states, dtype=torch.float64)
    for i in range(n):
        for h, p in brute.probabilities(scores, i).items():
            for t in range(len(h) - 1):
                exact[i, t, h[t], h[t + 1]] += p
    assert torch.allclose(ChainDistribution(scores).edge_marginals, exact, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_entropy_is_that_of_all_labelings(kind):
    scores = random_scores(kind=kind)
    exact = [-sum(p * math.log(p) for p in brute.probabilities(scores, i).values()) for i in range(len(scores))]
    assert torch.allclose(ChainDistribution(scores).entropy(), torch.tensor(exact, dtype=torch.float64))


@pytest.mark.parametrize("kind", KINDS)
def test_log_probabilities_of_all_labelings_sum_to_one(kind):
    scores = random_scores(kind=kind, ragged=False)
    every = torch.tensor(list(brute.labelings(scores, 0))).expand(len(scores), -1, -1)  # (n, S^m, m)
    assert torch.allclose(ChainDistribution(scores).log_prob(every).exp().sum(dim=1), torch.ones(len(scores)).double())


def leaves(kind, seed=0):
    scores = random_scores(n=2, m=3, states=2, kind=kind, seed=seed)
    tensors = [scores.unary] if scores.pairwise is None else [scores.unary, scores.pairwise]
    return scores, [t.detach().clone().requires_grad_() for t in tensors]


def rebuilt(scores, tensors):
    return ChainDistribution(ChainScores(tensors[0], tensors[1] if len(tensors) > 1 else None, scores.lengths))


@pytest.mark.parametrize("kind", KINDS)
def test_first_and_second_derivatives_of_the_log_partition(kind):
    scores, tensors = leaves(kind)

    def log_z(*t):
        return rebuilt(scores, t).log_partition

    assert torch.autograd.gradcheck(log_z, tensors)
    assert torch.autograd.gradgradcheck(log_z, tensors)


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_of_marginals_edges_and_entropy(kind):
    scores, tensors = leaves(kind)
    for read in (lambda P: P.marginals, lambda P: P.edge_marginals, lambda P: P.entropy()):
        assert torch.autograd.gradcheck(lambda *t, read=read: read(rebuilt(scores, t)), tensors)


@pytest.mark.parametrize("kind", KINDS)
def test_marginals_are_the_derivative_of_the_log_partition(kind):
    scores, tensors = leaves(kind)
    P = rebuilt(scores, tensors)
    (gradient,) = torch.autograd.grad(P.log_partition.sum(), tensors[:1])
    assert torch.allclose(gradient, P.marginals)


def test_wide_and_narrow_pairwise_scores_agree_where_both_apply(monkeypatch):
    """Matrix products and sums in log space: the same numbers."""
    from lvmdc.chains import messages

    scores = random_scores(m=5, kind="shared")
    fast = ChainDistribution(scores)
    narrow = fast.log_partition, fast.marginals
    monkeypatch.setattr(messages, "RANGE", {})
    slow = ChainDistribution(scores)
    for a, b in zip(narrow, (slow.log_partition, slow.marginals), strict=True):
        assert torch.allclose(a, b)


@SMALL
@given(scores=all_scores(("none", "shared", "site")))
def test_compiled_marginals_and_their_gradients_are_those_of_autograd(scores):
    weight = torch.randn(scores.unary.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = []
    for marginals in (node_marginals, lambda P: P.marginals):
        tensors = [t.detach().clone().requires_grad_() for t in (scores.unary, scores.pairwise) if t is not None]
        pairwise = tensors[1] if len(tensors) > 1 else None
        p = marginals(ChainDistribution(ChainScores(tensors[0], pairwise, scores.lengths)))
        (p * weight).sum().backward()
        found.append([p.detach(), *(torch.zeros(()) if t.grad is None else t.grad for t in tensors)])  # one site has no neighbours
    for mine, exact in zip(*found, strict=True):
        assert torch.allclose(mine, exact.to(mine), atol=1e-9)


def test_compiled_marginals_pass_the_check_of_their_gradient():
    scores, tensors = leaves("shared", seed=2)
    assert torch.autograd.gradcheck(lambda u, a: node_marginals(ChainDistribution(ChainScores(u, a[0, 0], scores.lengths))), tensors)


def test_a_long_chain_neither_overflows_nor_underflows():
    scores = ChainScores(torch.full((1, 2000, 3), 50.0), torch.full((3, 3), 50.0))
    P = ChainDistribution(scores)
    assert torch.allclose(P.log_partition, torch.tensor([2000 * (50 + math.log(3)) + 1999 * 50.0]), rtol=1e-5)
    assert torch.allclose(P.marginals, torch.full((1, 2000, 3), 1 / 3))


@pytest.mark.parametrize("kind", KINDS)
def test_draws_follow_the_distribution(kind):
    scores = random_scores(n=2, m=3, states=2, kind=kind, seed=4)
    draws = 20000
    found = ChainDistribution(scores).sample(draws, torch.Generator().manual_seed(0))
    assert found.shape == (2, draws, 3)
    for i in range(2):
        length = int(scores.lengths[i])
        assert bool((found[i, :, length:] == 0).all())
        for h, p in brute.probabilities(scores, i).items():
            often = float((found[i, :, :length] == torch.tensor(h)).all(dim=1).double().mean())
            assert abs(often - p) <= 5 * math.sqrt(p * (1 - p) / draws) + 1e-9


def test_hamming_estimates_from_draws_are_unbiased_with_their_gradients():
    """Expected loss and self-diversity of a chain from exact draws, and their score-function gradients, against the closed forms."""
    times, k = 3000, 4
    g = torch.Generator().manual_seed(0)
    unary, pairwise = torch.randn(1, 3, 2, generator=g).double(), torch.randn(2, 2, generator=g).double()
    lengths, h = torch.tensor([3]), torch.tensor([[0, 1, 0]])
    loss = HammingLoss()
    for what in ("expected", "diversity"):
        exact_unary = unary.clone().requires_grad_()
        p = ChainDistribution(ChainScores(exact_unary, pairwise)).marginals
        exact = loss.expected(p, h, lengths) if what == "expected" else loss.diversity(p, lengths)
        exact.sum().backward()
        many = unary.expand(times, -1, -1).clone().requires_grad_()
        P = ChainDistribution(ChainScores(many, pairwise))
        drawn, y, wide = P.sample(k, g), torch.zeros(times), lengths.expand(times)
        if what == "expected":
            values = loss.between(y, drawn, y, h[:, None].expand(times, k, -1), wide)
            found = sampled_mean(values, P.log_prob(drawn))
        else:
            values = loss.between(y, drawn[:, :, None], y, drawn[:, None], wide)
            found = sampled_diversity(values, P.log_prob(drawn))
        found.sum().backward()
        assert_close(found.detach()[:, None], exact.detach())
        assert_close(many.grad.flatten(1), exact_unary.grad.flatten())


def assert_close(estimates, exact):
    error = estimates.std(dim=0) / len(estimates) ** 0.5
    assert bool(((estimates.mean(dim=0) - exact).abs() <= 5 * error + 1e-9).all())
