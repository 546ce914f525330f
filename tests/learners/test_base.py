"""How a fit goes: starts, seeds, steps, stops and what is recorded of them."""

import warnings

import numpy as np
import pytest
import torch
from learners.problems import LOSSES, SharedWeights, problem, random_h

from lvmdc import DISC, EM, ILSVM, LSVM, Candidates, ConvergenceWarning, OverlapLoss, Supervised
from lvmdc.feature_maps import ClassBlocks
from lvmdc.segments import segment_softmax
from lvmdc.solvers.initial import likelihood_posterior

KEYS = {"objective", "w_norm", "theta_norm", "slack", "diversity", "loss", "error", "entropy", "passes", "gap", "seconds", "decrease"}
LEARNERS = [DISC, ILSVM, LSVM]


@pytest.mark.parametrize("learner", [*LEARNERS, Supervised])
def test_the_history_has_a_row_per_outer_iteration(learner):
    p = problem(0, n=12, signal=3)
    model = learner(C=5.0).fit(p.candidates, p.y, h=p.h if learner is Supervised else None)
    assert len(model.history_) == model.n_iter_
    assert model.converged_
    assert all(row.keys() >= KEYS and all(np.isfinite(list(row.values()))) for row in model.history_)
    assert model.history_[-1]["passes"] >= model.history_[0]["passes"] > 0
    assert model.objective_ == model.history_[-1]["objective"]
    row = model.history_[-1]
    shown = row["w_norm"] + row["theta_norm"] + 5.0 * (row["slack"] - (0.1 if learner is DISC else 0) * row["diversity"])
    assert row["objective"] == pytest.approx(shown)


@pytest.mark.parametrize("settings", [{}, {"theta_solver": "ssd"}, {"theta_bound": "slack"}])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_seed_means_one_result_and_another_seed_another(settings):
    p = problem(1, n=8, most=6)
    one, same, other = (DISC(OverlapLoss(), C=3.0, seed=s, max_iter=2, **settings).fit(p.candidates, p.y) for s in (0, 0, 1))
    assert torch.equal(one.coef_, same.coef_)
    assert torch.equal(one.theta_, same.theta_)
    assert [r["objective"] for r in one.history_] == [r["objective"] for r in same.history_]
    assert not torch.equal(one.coef_, other.coef_)


def test_an_annealed_posterior_is_flat_at_first_and_learning_ends_with_beta():
    p = problem(1, n=12, most=6, signal=3)
    plain, annealed = (DISC(C=5.0, J=0.01, beta=0.1, anneal=anneal).fit(p.candidates, p.y) for anneal in (0.0, 2.0))
    assert annealed.history_[0]["entropy"] > plain.history_[0]["entropy"] + 0.1
    assert 2.0 * (2 / 3) ** (annealed.n_iter_ - 1) <= 0.1  # that is how many iterations it takes
    assert annealed.converged_
    row = annealed.history_[-1]
    assert row["objective"] == pytest.approx(row["w_norm"] + row["theta_norm"] + 5.0 * (row["slack"] - 0.1 * row["diversity"]))


@pytest.mark.parametrize("learner", LEARNERS)
def test_of_several_starts_the_lowest_is_kept(learner):
    p = problem(2, n=10, most=6)
    single = [learner(C=5.0, seed=s).fit(p.candidates, p.y) for s in range(3, 6)]
    best = min(single, key=lambda m: m.objective_)
    many = learner(C=5.0, seed=3, n_init=3).fit(p.candidates, p.y)
    assert many.objective_ == best.objective_
    assert torch.equal(many.coef_, best.coef_)
    assert torch.equal(many.predict_latent_proba(p.candidates, p.y), best.predict_latent_proba(p.candidates, p.y))


def test_of_several_starts_a_module_keeps_the_parameters_of_the_lowest():
    p = problem(2, n=10, most=6)
    torch.manual_seed(0)
    module = torch.nn.Linear(4, 3, dtype=torch.float64)
    before = module.weight.detach().clone()
    single = [DISC(C=5.0, seed=s, conditional=module).fit(p.candidates, p.y) for s in range(3)]
    many = DISC(C=5.0, n_init=3, conditional=module).fit(p.candidates, p.y)
    assert torch.equal(module.weight, before)
    best = min(single, key=lambda m: m.objective_)
    assert many.objective_ == best.objective_
    assert torch.equal(many.theta_, best.theta_)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("init", ["central", "random", "uniform", "given"])
def test_every_start_leads_to_a_fit(learner, init):
    p = problem(3, n=12, signal=3)
    model = learner(C=5.0, init=init).fit(p.candidates, p.y, h_init=random_h(p, 0) if init == "given" else None)
    assert model.converged_
    assert model.history_[-1]["error"] <= 0.35


def test_a_given_start_may_leave_out_samples_whose_h_is_known():
    p = problem(4, n=8, most=4, signal=3)
    where = torch.arange(8) >= 4
    known, rest = torch.where(where, p.h, -1), torch.where(where, -1, random_h(p, 1))
    full = torch.where(where, p.h, rest)
    for learner in LEARNERS:
        one = learner(C=5.0, init="given").fit(p.candidates, p.y, h=known, h_init=rest)
        two = learner(C=5.0, init="given").fit(p.candidates, p.y, h=known, h_init=full)
        start = one._training.start
        assert torch.equal(start, torch.zeros_like(start).index_fill(0, p.candidates.offsets + full, 1.0))
        assert torch.equal(one.coef_, two.coef_)


@pytest.mark.parametrize("learner", LEARNERS)
def test_steps_by_hand_are_a_fit(learner):
    p = problem(5, n=12, signal=3)
    fitted = learner(C=5.0, seed=2).fit(p.candidates, p.y)
    by_hand = learner(C=5.0, seed=2)
    by_hand.begin(p.candidates, p.y)
    while not by_hand.converged_:
        by_hand.step()
    assert torch.equal(fitted.coef_, by_hand.coef_)
    assert fitted.n_iter_ == by_hand.n_iter_


def test_no_convergence_is_said_with_its_gap():
    p = problem(6, n=14, most=6, signal=2)
    with pytest.warns(ConvergenceWarning, match=r"DISC stopped at max_iter=1 .*duality gap"):
        model = DISC(C=10.0, max_iter=1, anneal=2.0).fit(p.candidates, p.y)  # it does not end before β is 0.1
    assert not model.converged_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DISC(C=10.0).fit(p.candidates, p.y)


def test_the_progress_bar_is_shown_only_if_asked_for(capsys):
    p = problem(0)
    LSVM(C=1.0, verbose=True, n_init=2).fit(p.candidates, p.y)
    shown = capsys.readouterr()
    assert "LSVM, start 2 of 2" in shown.err
    assert "objective=" in shown.err
    assert shown.out == ""
    LSVM(C=1.0).fit(p.candidates, p.y)
    assert capsys.readouterr().err == ""


# ---- hard cases ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("C", [1e-6, 1e-3, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_smallest_and_largest_c_end(learner, C, dtype):
    p = problem(7, n=12, most=5, dtype=dtype)
    model = learner(OverlapLoss(), C=C).fit(p.candidates, p.y)
    assert model.history_[-1]["passes"] < 3000
    assert model.history_[-1]["w_norm"] + C * model.history_[-1]["slack"] <= C * (1 + 1e-6)
    assert model.history_[-1]["gap"] <= 1e-3 * C


@pytest.mark.parametrize("learner", LEARNERS)
def test_features_that_are_all_zero_teach_nothing_and_break_nothing(learner):
    p = problem(0, n=10, dtype=torch.float32)
    p.candidates.features.zero_()
    model = learner(C=5.0).fit(p.candidates, p.y)
    assert float(model.coef_.abs().max()) == 0
    assert model.converged_


@pytest.mark.parametrize("learner", LEARNERS)
def test_one_sample_one_class_and_more_classes_than_seen(learner):
    one = Candidates(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), [2])
    y_hat, h_hat = learner(C=10.0).fit(one, [0]).predict(one)
    assert int(y_hat) == 0
    model = learner(C=10.0, n_classes=4).fit(one, [1])
    assert model.coef_.shape == (4, 2)
    assert int(model.predict(one)[0]) == 1
    assert float(model.predict_latent_proba(one, [3]).sum()) == pytest.approx(1)
    assert int(h_hat) in (0, 1)


def test_samples_given_twice_change_nothing():
    p = problem(8, n=8, signal=6)
    twice = p.candidates.subset(torch.arange(8).repeat(2))
    h = torch.where(torch.arange(8) % 4 == 0, random_h(p, 0), p.h)
    one = DISC(OverlapLoss(), C=3.0, init="given", tol=1e-7).fit(p.candidates, p.y, h_init=h)
    two = DISC(OverlapLoss(), C=3.0, init="given", tol=1e-7).fit(twice, p.y.repeat(2), h_init=h.repeat(2))
    assert one.objective_ == pytest.approx(two.objective_, abs=1e-5)


@pytest.mark.parametrize("init", ["random", "uniform"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_features_that_carry_a_gradient_are_learned_from_as_they_are(init, dtype):
    p = problem(5, n=8, signal=6, dtype=dtype)
    carrying = Candidates(p.candidates.features.clone().requires_grad_(), p.candidates.counts)
    plain = Candidates(p.candidates.features, p.candidates.counts)
    found, expected = (LSVM(C=3.0, init=init).fit(c, p.y).objective_ for c in (carrying, plain))
    assert found == pytest.approx(expected, abs=1e-2)


# ---- custom latent sets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"conditional": "uniform"}, {"conditional": torch.nn.Linear(4, 3)}, {"theta_solver": "ssd"}])
@pytest.mark.parametrize("name", ["overlap", "function"])
def test_disc_never_uses_a_candidate_that_the_class_lacks(name, settings):
    never_uses_what_is_lacking(DISC(LOSSES[name], C=5.0, joint=SharedWeights(3), **settings))


@pytest.mark.parametrize("learner", [LSVM, ILSVM])
@pytest.mark.parametrize("name", ["zero_one", "overlap", "function"])
@pytest.mark.parametrize("init", ["random", "central", "uniform"])
def test_latent_svms_never_use_a_candidate_that_the_class_lacks(learner, name, init):
    never_uses_what_is_lacking(learner(LOSSES[name], C=5.0, joint=SharedWeights(3), init=init))


def never_uses_what_is_lacking(model) -> None:
    p = problem(9, n=8, most=5, signal=3)
    lacks = model.joint.lacks(p.candidates)  # (T, K)
    own = lacks.gather(1, p.y[p.candidates.sample, None])[:, 0]
    model.begin(p.candidates, p.y)
    t = model._training
    for _ in range(3):
        assert float(t.p[own].sum()) == 0
        assert float(t.start[own].sum()) == 0
        model.step()
        assert not own[t.imputed()].any()
        assert t.p.double().sum().item() == pytest.approx(8, abs=1e-5)
    y_hat, h_hat = model.predict(p.candidates)
    assert not lacks[p.candidates.offsets + h_hat, y_hat].any()
    for k in range(3):
        belief = model.predict_latent_proba(p.candidates, torch.full_like(p.y, k))
        assert float(belief[lacks[:, k]].sum()) == 0
        assert belief.double().sum().item() == pytest.approx(8, abs=1e-5)
    assert model.coef_.shape == (7,)


def test_a_map_of_its_own_for_phi_does_not_bring_back_what_the_class_lacks():
    from lvmdc.feature_maps import ClassBlocks

    never_uses_what_is_lacking(DISC(OverlapLoss(), C=5.0, joint=SharedWeights(3), joint_phi=ClassBlocks(3)))


@pytest.mark.parametrize("learner", [LSVM, DISC, EM])
def test_a_start_may_be_probabilities_of_all_candidates(learner):
    p = problem(seed=3)
    posterior = likelihood_posterior(p.candidates, torch.as_tensor(p.y), ClassBlocks(3), torch.full((len(p.candidates),), -1))
    own = learner(C=5.0, n_classes=3).fit(p.candidates, p.y)
    given = learner(C=5.0, n_classes=3, init="given").fit(p.candidates, p.y, h_init=posterior)
    objectives = [[row["objective"] for row in model.history_] for model in (given, own)]
    assert objectives[0] == pytest.approx(objectives[1], abs=5.0 * 1e-3)  # C·tol
    other = segment_softmax(torch.randn(len(posterior), generator=torch.Generator().manual_seed(0)).double(), p.candidates.counts)
    model = learner(C=5.0, n_classes=3, init="given").fit(p.candidates, p.y, h_init=other)
    assert model.history_[0]["objective"] != own.history_[0]["objective"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda p: p[:-1], r"h_init must have \d+ probabilities, one per candidate, or \d+ candidate indices"),
        (lambda p: p / 2, r"h_init must sum to 1 over the candidates of each sample, but that of sample 0 sums to 0\.5"),
        (lambda p: p - 0.5, "h_init must have probabilities between 0 and 1"),
        (lambda p: p * torch.nan, "h_init must have probabilities between 0 and 1"),
    ],
)
def test_a_start_that_is_no_distribution_is_refused(change, sentence):
    p = problem(seed=3)
    uniform = (1 / p.candidates.counts.double())[p.candidates.sample]
    with pytest.raises(ValueError, match=sentence):
        LSVM(init="given").fit(p.candidates, p.y, h_init=change(uniform))
