"""Estimates from draws: without bias, with an error that falls as 1/√k, and with the gradient of what they estimate."""

import pytest
import references
import torch
from references import LOSSES, random_problem

from lvmdc import Candidates, ZeroOneLoss, dissimilarity, diversity
from lvmdc.distributions import Conditional, Delta, Joint, LogLinear, Sampled, draw, sampled_diversity, sampled_mean
from lvmdc.distributions.sampled import expected_loss
from lvmdc.losses import ExpectedLoss

SIGMAS = 5.0  # of the standard error that a mean may be off; with fixed seeds a test that passes once passes always


def repeated(problem, times):
    """Each sample `times` times over, so that one call makes many independent estimates."""
    c = problem.candidates
    index = torch.arange(len(c)).repeat_interleave(times)
    many = c.subset(index)
    p = torch.cat([torch.tensor(references.of_sample(c, problem.p, int(i)), dtype=torch.float64) for i in index])
    return many, Conditional(many, problem.y[index], p)


def assert_unbiased(estimates, exact):
    """Estimates (n, R) have the mean exact (n,), as far as their own spread can tell."""
    error = estimates.std(dim=1) / estimates.shape[1] ** 0.5
    assert bool(((estimates.mean(dim=1) - exact).abs() <= SIGMAS * error + 1e-6).all())


@pytest.fixture
def three():
    return random_problem(counts=(3, 1, 4), n_classes=3, seed=3)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("k", [2, 5])
def test_self_diversity_is_unbiased(three, loss, k):
    _, P = repeated(three, 3000)
    drawn = draw(P, k, torch.Generator().manual_seed(0))
    exact = references.diversity(Q := Conditional(three.candidates, three.y, three.p), Q, loss)
    assert_unbiased(diversity(drawn, drawn, loss).double().reshape(3, -1), exact)
    biased = loss_with_itself(drawn, loss).reshape(3, -1).mean(dim=1)
    assert torch.allclose(biased, exact * (1 - 1 / k), atol=0.05)  # what a mean over all pairs would be


def loss_with_itself(drawn, loss):
    other = Sampled(drawn.candidates, drawn.y, drawn.h.clone())  # not the same object, so that every pair counts
    return diversity(drawn, other, loss).double()


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("other", ["delta", "conditional", "sampled"])
@pytest.mark.parametrize("first", [True, False])
def test_diversity_with_any_other_is_unbiased(three, loss, other, first):
    times = 2000
    many, P = repeated(three, times)
    drawn = draw(P, 3, torch.Generator().manual_seed(1))
    c, y = three.candidates, three.y.flip(0)
    h = torch.tensor([1, 0, 3])
    q = torch.cat([torch.full((n,), 1 / n) for n in c.counts.tolist()]).double()
    here = {"delta": Delta(c, y, h), "conditional": Conditional(c, y, q), "sampled": Conditional(c, y, q)}[other]
    index = torch.arange(3).repeat_interleave(times)
    wide = Conditional(many, y[index], torch.cat([torch.full((n,), 1 / n) for n in many.counts.tolist()]).double())
    there = {"delta": Delta(many, y[index], h[index]), "conditional": wide, "sampled": draw(wide, 4, torch.Generator().manual_seed(2))}[
        other
    ]
    mine = Conditional(c, three.y, three.p)
    exact = references.diversity(mine, here, loss) if first else references.diversity(here, mine, loss)
    found = diversity(drawn, there, loss) if first else diversity(there, drawn, loss)
    assert_unbiased(found.double().reshape(3, -1), exact)


def test_dissimilarity_of_draws_is_unbiased_and_zero_with_itself(three):
    loss = LOSSES["overlap"]
    many, P = repeated(three, 3000)
    drawn = draw(P, 4, torch.Generator().manual_seed(3))
    index = torch.arange(3).repeat_interleave(3000)
    h = torch.tensor([0, 0, 2])
    exact = dissimilarity(Conditional(three.candidates, three.y, three.p), Delta(three.candidates, three.y, h), loss, beta=0.3)
    found = dissimilarity(drawn, Delta(many, three.y[index], h[index]), loss, beta=0.3)
    assert_unbiased(found.double().reshape(3, -1), exact)
    assert bool((dissimilarity(drawn, drawn, loss, beta=0.3).abs() < 1e-6).all())


def test_the_error_falls_with_the_square_root_of_the_number_of_draws(three):
    _, P = repeated(three, 300)
    exact = references.diversity(Q := Conditional(three.candidates, three.y, three.p), Q, LOSSES["overlap"])
    scaled = []
    for k in (12, 48, 108):
        drawn = draw(P, k, torch.Generator().manual_seed(k))
        off = diversity(drawn, drawn, LOSSES["overlap"]).double().reshape(3, -1) - exact[:, None]
        scaled.append(k**0.5 * float(off[[0, 2]].square().mean().sqrt()))  # sample 1 has one candidate, and no error
    assert max(scaled) < 1.3 * min(scaled)  # an error that stayed, or fell as 1/k, would differ by a factor of 3


@pytest.mark.parametrize("k", [2, 3, 6])
@pytest.mark.parametrize("what", ["self", "delta"])
def test_the_gradient_is_unbiased(k, what):
    """The mean of many score-function gradients in θ against the exact gradient, entry by entry."""
    times, loss = 4000, LOSSES["lopsided"]
    one = random_problem(counts=(4,), n_classes=1, seed=5)
    theta = 0.5 * torch.randn(1, one.candidates.n_features, generator=torch.Generator().manual_seed(0)).double()
    point = Delta(one.candidates, one.y, torch.tensor([2]))

    def value(P, Q):
        return diversity(P, P if what == "self" else Q, loss)

    exact_model = LogLinear(theta)
    value(exact_model(one.candidates, one.y), point).sum().backward()
    # One θ a repetition: probabilities from a table of θ, so that the gradient of each estimate is seen apart.
    many, y = one.candidates.subset(torch.zeros(times, dtype=torch.long)), one.y.expand(times)
    thetas = theta.expand(times, -1).clone().requires_grad_()
    scores = one.candidates.features.double() @ thetas.T  # (4, times)
    drawn = draw(Conditional(many, y, scores.softmax(dim=0).T.flatten()), k, torch.Generator().manual_seed(k))
    value(drawn, Delta(many, y, torch.full((times,), 2))).sum().backward()
    assert_unbiased(thetas.grad.T, exact_model.theta.grad[0])


def test_the_baseline_lowers_the_variance_of_the_gradient():
    values = 10 + torch.rand(500, 8, generator=torch.Generator().manual_seed(0)).double()
    score = torch.randn(500, 8, generator=torch.Generator().manual_seed(1)).double()  # of independent draws, of mean zero
    log_prob = torch.zeros(500, 8, dtype=torch.float64, requires_grad=True)
    sampled_mean(values, log_prob).sum().backward()
    with_baseline = (log_prob.grad * score).sum(dim=1)
    without = (values * score).mean(dim=1)
    assert with_baseline.var() < 0.01 * without.var()


def test_expected_loss_of_draws_is_the_mean_over_them(three):
    c = three.candidates
    drawn = draw(Conditional(c, three.y, three.p), 7, torch.Generator().manual_seed(0))
    often = drawn.table(3).sum(dim=1)
    for loss in LOSSES.values():
        exact = ExpectedLoss(loss, c, three.y, 3).expected_loss(often)
        assert torch.allclose(expected_loss(drawn, loss, 3).double(), exact.double(), atol=1e-5)


def test_draws_follow_the_probabilities_and_never_take_what_has_none():
    c = Candidates(torch.zeros(7, 1), [3, 4])
    p = torch.tensor([0.0, 0.7, 0.3, 0.25, 0.0, 0.75, 0.0])
    h = draw(Conditional(c, torch.tensor([0, 0]), p), 20000, torch.Generator().manual_seed(0)).h
    often = torch.cat([torch.bincount(h[0], minlength=3), torch.bincount(h[1], minlength=4)]) / 20000
    assert bool((often[p == 0] == 0).all())
    assert torch.allclose(often, p, atol=0.02)


def test_a_million_candidates_need_no_matrix():
    """As if all boxes of an image were candidates: closed forms and draws, whose time and memory grow with |H| alone."""
    size = 1_000_000
    c, y = Candidates(torch.zeros(size, 1), [size]), torch.tensor([0])
    scores = torch.randn(size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    P = Conditional(c, y, scores.softmax(dim=0))
    bound = ExpectedLoss(ZeroOneLoss(), c, y, 2)
    assert float(bound.diversity(P.p)) == pytest.approx(1 - float(P.p.square().sum()))
    assert torch.allclose(bound.expected_loss(P.p)[:, 0], 1 - P.p)
    drawn = draw(P, 1000, torch.Generator().manual_seed(1))
    above = scores > 0  # two sets of many candidates, whose shares are known
    share = float(P.p[above].sum())
    assert abs(float(above[drawn.rows].double().mean()) - share) < SIGMAS * (share * (1 - share) / 1000) ** 0.5


def test_draws_have_the_log_probability_they_were_drawn_with(three):
    drawn = draw(Conditional(three.candidates, three.y, three.p), 3, torch.Generator().manual_seed(0))
    assert torch.equal(drawn.log_prob, three.p[drawn.rows].log())


@pytest.mark.parametrize(
    ("h", "log_prob", "message"),
    [
        (torch.tensor([0, 1]), None, "h must have shape"),
        (torch.tensor([[0], [2]]), None, "index among its sample's own"),
        (torch.tensor([[0.0], [1.0]]), None, "must hold integers"),
        (torch.tensor([[0], [1]]), torch.zeros(2), "log_prob must have the shape of h"),
    ],
)
def test_bad_draws_are_refused(h, log_prob, message):
    with pytest.raises(ValueError, match=message):
        Sampled(Candidates(torch.zeros(4, 1), [2, 2]), torch.tensor([0, 0]), h, log_prob)


def test_self_diversity_of_one_draw_and_a_gradient_through_a_table_are_refused():
    c, y = Candidates(torch.zeros(2, 1), [2]), torch.tensor([0])
    one = Sampled(c, y, torch.tensor([[0]]))
    with pytest.raises(ValueError, match="k ≥ 2 draws"):
        diversity(one, one, ZeroOneLoss())
    with pytest.raises(ValueError, match="k ≥ 2 draws"):
        sampled_diversity(torch.zeros(1, 2, 3))
    learned = Sampled(c, y, torch.tensor([[0]]), torch.zeros(1, 1, requires_grad=True))
    with pytest.raises(ValueError, match="has no gradient"):
        diversity(learned, Joint(c, torch.full((2, 1), 0.5)), ZeroOneLoss())
    with pytest.raises(ValueError, match="k must be at least 1"):
        draw(Conditional(c, y, torch.tensor([0.5, 0.5])), 0)
