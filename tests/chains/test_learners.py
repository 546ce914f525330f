"""Learners of chains: against the learners of listed candidates, and what must hold whatever the data are."""

import itertools
import warnings

import numpy as np
import pytest
import torch
from brute import random_chains
from listed import Listed
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

from lvmdc import Candidates, ConvergenceWarning
from lvmdc.chains import ChainDISC, ChainLSVM, Chains, HammingLoss
from lvmdc.distributions import LinearPrediction, LogLinear
from lvmdc.feature_maps import ClassBlocks
from lvmdc.inference import own_class
from lvmdc.losses import ExpectedLoss
from lvmdc.segments import segment_argmax
from lvmdc.solvers import ImputedLatents, NSlack, PosteriorProblem, StructuredHinge, lbfgs

STATES = 2


def ordered(n=40, m=6, seed=0, noise=0.3):
    """Class 0 runs through its three states forwards, class 1 backwards: no site tells the class, only what follows what."""
    rng = np.random.default_rng(seed)
    y, counts = np.arange(n) % 2, rng.integers(3, m + 1, n)
    h = [(rng.integers(3) + (1 - 2 * label) * np.arange(count)) % 3 for label, count in zip(y, counts, strict=True)]
    h = np.concatenate(h)
    x = 2 * np.eye(3)[h] + noise * rng.normal(size=(len(h), 3))
    return Chains(torch.as_tensor(x), counts), torch.as_tensor(y), torch.as_tensor(h)


def start_of(chains, seed=0):
    return torch.randint(STATES, (chains.n_candidates,), generator=torch.Generator().manual_seed(seed))


def listed_w_block(model, chains, y, p, listed):
    """The w block with all labelings listed, at the w that was learned: its hinge, point, expected loss and h*."""
    hinge = StructuredHinge(listed.candidates, y, ClassBlocks(2), model.C)
    point = hinge.at(model.coef_.flatten())
    expected = ExpectedLoss(listed.loss, listed.candidates, y, 2).expected_loss(p)
    # Viterbi takes the first of all that are best, without a tolerance for ties.
    return (
        hinge,
        point,
        expected,
        ImputedLatents(hinge, rows=segment_argmax(own_class(listed.candidates, point.scores, y), listed.candidates.counts)),
    )


def assert_nothing_left_to_gain(model, hinge, point, expected, truth):
    """(14), solved over all labelings for the h* that the learner ended with, is not lower than where the learner ended."""
    optimum = NSlack(hinge).solve(expected, truth, point, tol=1e-7)
    assert hinge.convex_value(point, expected, truth.mean) - (optimum.value - optimum.gap) <= 2 * model.C * model.tol


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("theta_bound", ["prediction", "slack"])
@pytest.mark.parametrize("maps", [{}, {"window": 1, "theta_transitions": False}], ids=str)
def test_disc_reaches_what_it_says_over_all_labelings(seed, theta_bound, maps):
    chains, y = random_chains(n=6, seed=seed)
    listed = Listed(chains, STATES, **maps)
    settings = {"C": 3.0, "J": 0.01, "beta": 0.2, "tol": 1e-4, "theta_bound": theta_bound, "init": "given", **maps}
    model = ChainDISC(STATES, **settings)
    model.begin(chains, y, h_init=start_of(chains, seed))
    while not model.converged_:
        before = model.model_.theta.detach().clone()
        model.step()
    # The last w block was solved under the θ before the last θ block.
    earlier = listed_w_block(model, chains, y, LogLinear(before)(listed.candidates, y).p.detach(), listed)
    assert_nothing_left_to_gain(model, *earlier)
    conditional = LogLinear(model.theta_)
    p = conditional(listed.candidates, y).p.detach()
    hinge, point, expected, _ = listed_w_block(model, chains, y, p, listed)
    diversity = ExpectedLoss(listed.loss, listed.candidates, y, 2).diversity(p).mean()
    objective = hinge.value(point, expected) + 0.005 * float(model.theta_.square().sum()) - 3.0 * 0.2 * float(diversity)
    assert model.objective_ == pytest.approx(objective)
    y_hat, h_hat = LinearPrediction(model.coef_).predict(listed.candidates)
    assert torch.equal(model.predict(chains)[0], y_hat)
    assert torch.equal(model.predict(chains)[1], torch.cat([torch.tensor(listed.h[i][k]) for i, k in enumerate(h_hat.tolist())]))
    assert torch.allclose(chains.pad(model.predict_latent_proba(chains, y)), listed.marginals(p, chains, STATES))
    bound = ExpectedLoss(listed.loss, listed.candidates, y, 2)
    problem = PosteriorProblem(conditional, bound, point.scores, 0.01, 3.0, 0.2, theta_bound, torch.full_like(y, -1))
    assert lbfgs(problem, tol=1e-9) <= 3.0 * 1e-4  # nor has θ anything left to gain


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("cccp", ["strict", "eager"])
def test_lsvm_reaches_what_it_says_over_all_labelings(seed, cccp):
    chains, y = random_chains(n=6, seed=seed)
    listed = Listed(chains, STATES)
    model = ChainLSVM(STATES, C=3.0, tol=1e-4, init="given", cccp=cccp).fit(chains, y, h_init=start_of(chains, seed))
    p = model._training.delta_at(model._training.cccp.latents)
    assert torch.equal(chains.pad(model.predict_latent_proba(chains, y)), p)
    states = [tuple(chains.pack(p).argmax(dim=1).split(chains.counts.tolist())[i].tolist()) for i in range(len(y))]
    rows = torch.tensor([listed.index(i, h) for i, h in enumerate(states)]) + listed.candidates.offsets
    delta = torch.zeros(listed.candidates.n_candidates, dtype=torch.float64).index_fill(0, rows, 1.0)
    hinge, point, expected, truth = listed_w_block(model, chains, y, delta, listed)
    assert torch.equal(truth.rows, rows)
    assert model.objective_ == pytest.approx(hinge.value(point, expected))
    assert_nothing_left_to_gain(model, hinge, point, expected, truth)


def test_history_names_the_terms_and_they_add_up():
    chains, y, _ = ordered()
    model = ChainDISC(3, C=10.0, J=0.01).fit(chains, y)
    for row in model.history_:
        assert row["objective"] == pytest.approx(row["w_norm"] + row["theta_norm"] + 10.0 * (row["slack"] - 0.1 * row["diversity"]))
        assert row["slack"] >= row["loss"] - 1e-6  # ξ_i ≥ H_i(w, θ)
    assert model.objective_ == model.history_[-1]["objective"]
    assert model.n_iter_ == len(model.history_)


@pytest.mark.slow
@pytest.mark.parametrize("cccp", ["strict", "eager"])
def test_with_the_slack_bound_no_step_raises_the_objective(cccp):
    chains, y, _ = ordered(n=12, m=4, noise=1.0)
    model = ChainDISC(3, C=10.0, J=0.01, theta_bound="slack", cccp=cccp).fit(chains, y)
    values = [row["objective"] for row in model.history_]
    assert len(values) > 1
    assert all(after <= before + 1e-6 for before, after in itertools.pairwise(values))


def test_where_the_loss_is_of_the_label_alone_disc_is_the_latent_svm():
    chains, y = random_chains(n=8, seed=5)
    h = start_of(chains)
    settings = {"loss": HammingLoss(latent=0.0), "C": 3.0, "tol": 1e-6, "init": "given"}
    disc, lsvm = ChainDISC(STATES, **settings).fit(chains, y, h_init=h), ChainLSVM(STATES, **settings).fit(chains, y, h_init=h)
    assert disc.objective_ == pytest.approx(lsvm.objective_, rel=1e-4)
    assert float(disc.theta_.abs().max()) == pytest.approx(0.0, abs=1e-6)


def test_where_all_states_are_known_nothing_is_uncertain():
    chains, y, h = ordered(n=16)
    model = ChainDISC(3, C=10.0).fit(chains, y, h)
    assert model.history_[-1]["diversity"] == pytest.approx(0.0, abs=1e-9)
    assert model.history_[-1]["entropy"] == pytest.approx(0.0, abs=1e-6)
    assert model.score(chains, y, h) == 1.0
    assert ChainLSVM(3, C=10.0).fit(chains, y, h).objective_ == pytest.approx(model.objective_, abs=2e-2)


def test_it_learns_what_only_the_order_of_states_tells():
    chains, y, _ = ordered()
    test, test_y, _ = ordered(seed=1)
    with_order = ChainDISC(3, C=10.0).fit(chains, y)
    without = ChainDISC(3, C=10.0, transitions=False).fit(chains, y)
    assert with_order.score(test, test_y) > 0.95
    assert without.score(test, test_y) < 0.8


def test_a_few_known_states_name_all_of_them():
    chains, y, h = ordered()
    test, test_y, test_h = ordered(seed=1)
    known = torch.where(torch.arange(len(h)) < 12, h, -1)
    model = ChainDISC(3, C=10.0, J=0.001).fit(chains, y, known)
    assert model.score(test, test_y, test_h) > 0.9
    p = model.predict_latent_proba(test, test_y)
    assert p.shape == (len(test_h), 3)
    assert torch.allclose(p.sum(dim=1), torch.ones(len(p)).to(p))
    assert float((p.argmax(dim=1) == test_h).double().mean()) > 0.9


def test_p_w_may_be_richer_than_p_theta():
    chains, y, _ = ordered()
    own = Chains(chains.features, chains.counts, phi=torch.rand(chains.n_candidates, 2, dtype=torch.float64))
    model = ChainDISC(3, C=10.0, window=1, theta_window=2, theta_transitions=False).fit(own, y)
    assert model.coef_.shape == (2, 3 * 9 + 9)
    assert model.theta_.shape == (2, 3 * 10)
    assert model.score(own, y) == 1.0
    P = model.latent_distribution(own, y)
    assert P.scores.pairwise is None
    assert torch.allclose(own.pack(P.marginals), model.predict_latent_proba(own, y))
    with pytest.raises(ValueError, match="chains must give Φ the 2 numbers a site"):
        model.predict_latent_proba(chains, y)


@pytest.mark.parametrize("make", [ChainDISC, ChainLSVM])
@pytest.mark.parametrize("cccp", ["strict", "eager"])
def test_a_run_that_was_interrupted_ends_in_the_same_numbers(make, cccp):
    chains, y, _ = ordered(n=16, noise=1.0)
    model = make(3, C=10.0, tol=1e-4, cccp=cccp)
    model.begin(chains, y)
    model.step()
    state = model.state_dict()
    on = [model.step() for _ in range(2)]
    again = make(3, C=10.0, tol=1e-4, cccp=cccp)
    again.begin(chains, y)
    again.load_state_dict(state)
    for row, other in zip(on, [again.step() for _ in range(2)], strict=True):
        assert row["objective"] == pytest.approx(other["objective"], abs=1e-9)
    fresh = make(3, C=10.0, tol=1e-4, cccp=cccp)
    fresh.load_state_dict(model.state_dict())
    assert torch.equal(fresh.predict(chains)[1], model.predict(chains)[1])
    assert torch.equal(fresh.predict_latent_proba(chains, y), model.predict_latent_proba(chains, y))


def test_starts_are_tried_and_the_lowest_objective_is_kept():
    chains, y, _ = ordered(n=12, noise=1.0)
    alone = [ChainLSVM(3, C=10.0, init="random", seed=s).fit(chains, y).objective_ for s in (0, 1, 2)]
    assert ChainLSVM(3, C=10.0, init="random", n_init=3).fit(chains, y).objective_ == min(alone)


def test_scikit_learn_can_clone_and_cross_validate():
    chains, y, _ = ordered(n=24)
    model = ChainDISC(3, C=10.0, window=1)
    assert clone(model).get_params() == model.get_params()
    assert cross_val_score(model, chains, y.numpy(), cv=3).mean() > 0.8


def test_a_limit_of_iterations_says_so():
    chains, y, _ = ordered(n=12, noise=1.0)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        ChainDISC(3, C=10.0, J=0.001, tol=1e-6, max_iter=1).fit(chains, y)


def test_sequences_of_one_site_and_one_state_are_a_multi_class_svm():
    x = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ChainDISC(1, C=1.0, tol=1e-6).fit(Chains(x, [1, 1]), [0, 1])
    assert model.objective_ == pytest.approx(0.25, abs=1e-5)
    assert model.predict(Chains(x, [1, 1]))[0].tolist() == [0, 1]


CHAINS = Chains(torch.eye(4), [2, 2])


@pytest.mark.parametrize(
    ("model", "data", "h", "message"),
    [
        (ChainDISC(0), CHAINS, None, "n_states must be an integer of at least 1"),
        (ChainDISC(2, C=-1.0), CHAINS, None, "C must be a positive number"),
        (ChainDISC(2, beta=1.0), CHAINS, None, "beta must lie in"),
        (ChainDISC(2, theta_bound="x"), CHAINS, None, "theta_bound must be one of"),
        (ChainDISC(2, window=-1), CHAINS, None, "window must be an integer of at least 0"),
        (ChainDISC(2, theta_window=-1), CHAINS, None, "theta_window must be an integer of at least 0"),
        (ChainDISC(2, init="central"), CHAINS, None, "init must be one of cluster, random, given"),
        (ChainDISC(2, init="given"), CHAINS, None, "needs h_init="),
        (ChainDISC(9), CHAINS, None, "init='cluster' needs n_states = 9 different sites"),
        (ChainDISC(2, cccp="self_paced"), CHAINS, None, "cccp must be one of strict, eager"),
        (ChainLSVM(2), CHAINS, [0, 1], "h must have shape"),
        (ChainLSVM(2), CHAINS, [0, 1, 2, 0], "h must hold states in 0..1, or −1 where unknown"),
        (ChainLSVM(2), CHAINS, [0.0, 1, 1, 0], "h must hold integers"),
    ],
)
def test_bad_parameters_and_states_are_refused(model, data, h, message):
    with pytest.raises(ValueError, match=message):
        model.fit(data, [0, 1], h)


def test_what_is_not_a_chain_is_refused():
    with pytest.raises(TypeError, match="Expected a Chains object but got Candidates"):
        ChainDISC(2).fit(Candidates(torch.eye(4), [2, 2]), [0, 1])
    with pytest.raises(TypeError, match="loss must be a HammingLoss"):
        ChainDISC(2, loss="hamming").fit(CHAINS, [0, 1])
    with pytest.raises(NotFittedError):
        ChainDISC(2).predict(CHAINS)
    model = ChainDISC(2).fit(CHAINS, [0, 1])
    with pytest.raises(ValueError, match="must have 4 features"):
        model.predict(Chains(torch.eye(3), [3]))
    with pytest.raises(TypeError, match="predicts by Viterbi"):
        model.prediction(CHAINS)


def test_sequences_may_have_more_planes_than_sites():
    chains = Chains(torch.randn(100, 10, generator=torch.Generator().manual_seed(0)), [10] * 10)
    y = torch.arange(10) % 2
    model = ChainLSVM(10, C=30.0, tol=1e-4, init="random").fit(chains, y)
    assert model.converged_
    assert model._training.cccp.solver.planes.store.capacity > 2 * 100 + 10  # one of each site and class, and one of each sequence


@pytest.mark.parametrize("learner", [ChainLSVM, ChainDISC])
def test_a_prior_is_refused(learner):
    chains, y = random_chains()
    for fit in (
        lambda: learner(STATES).fit(chains, y, prior=torch.zeros(chains.n_candidates)),
        lambda: learner(STATES).fit(chains.with_prior(torch.zeros(chains.n_candidates, 2)), y),
    ):
        with pytest.raises(ValueError, match=f"{learner.__name__} takes no prior of h"):
            fit()
